"""Which tests run which lines of host code, as ``coverage`` has recorded it: a mutant is shown to no others."""

import ast
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from sim.checks.mutation.mutants import Mutant, statement_at

__all__ = ["cover", "covering_tests", "importing_tests", "recorded", "recording"]

_CONFIGURATION = """
[run]
parallel = true
sigterm = true
data_file = {folder}/lines
context = ${{PYTEST_CURRENT_TEST-}}
include =
{files}
"""
"""Of every process that tests start. pytest names the test in the environment."""
_STAGES = (" (setup)", " (call)", " (teardown)")


def recording(folder: Path, files: Sequence[Path]) -> dict[str, str]:
    """The environment in which processes record the lines of files that they run, in a folder."""
    configuration = folder / "configuration"
    configuration.write_text(
        _CONFIGURATION.format(folder=folder, files="\n".join(f"    {file}" for file in files))
    )
    return {"COVERAGE_PROCESS_START": str(configuration), "PYTEST_CURRENT_TEST": ""}


def recorded(folder: Path) -> bytes:
    """What processes have recorded in a folder, all in one."""
    from coverage import Coverage

    coverage_data = Coverage(data_file=str(folder / "lines"), config_file=False)
    coverage_data.combine([str(folder)], strict=False)
    return coverage_data.get_data().dumps()


def covering_tests(
    mutant: Mutant, source: str, record: bytes, importing: Iterable[str] = ()
) -> tuple[str, ...] | None:
    """The tests that run the statement in which a mutant is; None where any test may: lines that
    run at a file's import affect all tests that run other lines of the file, and those ``importing`` it, if there
    are any."""
    from coverage import CoverageData

    data = CoverageData(no_disk=True)
    data.loads(record)
    file = next((file for file in data.measured_files() if Path(file).match(mutant.file)), None)
    if file is None:
        return None
    contexts = data.contexts_by_lineno(file)

    def running(lines: Sequence[int]) -> list[str]:
        return [context for line in lines for context in contexts.get(line, ())]

    statement, function = statement_at(ast.parse(source), mutant.line)
    found = running(statement)
    if "" in found:  # imported
        found = [*running(function or list(contexts)), *(importing if not function else ())]
    names = {
        name.removesuffix(stage) for name in found for stage in _STAGES if name.endswith(stage)
    } | {name for name in found if not name.endswith(_STAGES)}
    names.discard("")
    return tuple(sorted(names)) if names or "" not in found else None


def importing_tests(file: str, tests: Iterable[str], root: Path) -> tuple[str, ...]:
    """Those of the tests whose file imports from a source file: they may read what it has made at its import."""
    module = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return tuple(test for test in tests if module in _imported(root / test.partition("::")[0]))


@cache
def _imported(path: Path) -> frozenset[str]:
    """The modules that a file of Python names in its imports."""
    if not path.is_file():
        return frozenset()
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(names)


def cover(test: str) -> None:
    """In the process in which tests are run: the lines that run from now on are of this test."""
    from coverage import Coverage

    if (current := Coverage.current()) is not None:
        current.switch_context(test)
