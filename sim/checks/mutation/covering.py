"""Which tests run which lines of host code, as recorded by ``coverage``: a mutant is only tested by
those that run it.
"""

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
"""Configuration for every process that tests start. pytest passes the name of the test in the
environment.
"""
_STAGES = (" (setup)", " (call)", " (teardown)")
_IMPORT = ""
"""The context of lines that no test runs: those of an import, or of fixtures that pytest makes
before its tests.
"""
_KEEPING = ("cache", "cached_property")
"""Ends of the names of decorators that cache the result of a function for all tests."""


def recording(folder: Path, files: Sequence[Path]) -> dict[str, str]:
    """Returns the environment in which processes record, in a folder, the lines of files that they
    run.
    """
    configuration = folder / "configuration"
    configuration.write_text(
        _CONFIGURATION.format(folder=folder, files="\n".join(f"    {file}" for file in files))
    )
    return {"COVERAGE_PROCESS_START": str(configuration), "PYTEST_CURRENT_TEST": ""}


def recorded(folder: Path) -> bytes:
    """Returns the combined recording of the processes in a folder."""
    from coverage import Coverage

    coverage_data = Coverage(data_file=str(folder / "lines"), config_file=False)
    coverage_data.combine([str(folder)], strict=False)
    return coverage_data.get_data().dumps()


def covering_tests(
    mutant: Mutant,
    source: str,
    record: bytes,
    tests: Iterable[str] = (),
    importing: Iterable[str] = (),
) -> tuple[str, ...] | None:
    """Returns the tests that run the statement of a mutant; None if any test may.

    The results of a statement that runs at the import of its file, or in a function that caches its
    results, are also used by tests that do not run it: all tests that run any line of the file, and
    those that import it.

    Parameters:
        mutant: The mutant.
        source: The content of its file.
        record: The recording.
        tests: All tests; those of a file share what was made for the file.
        importing: Tests that import the mutant's file.
    """
    from coverage import CoverageData

    data = CoverageData(no_disk=True)
    data.loads(record)
    file = next((file for file in data.measured_files() if Path(file).match(mutant.file)), None)
    if file is None:
        return None
    contexts = data.contexts_by_lineno(file)

    def running(lines: Iterable[int]) -> set[str]:
        return {context for line in lines for context in contexts.get(line, ())}

    tree = ast.parse(source)
    statement, function = statement_at(tree, mutant.line)
    in_head = bool(function) and function[0] in statement
    run = set(function) - set(statement) if in_head else set(statement)
    found = running(run)
    if _IMPORT in found or (found and function and _keeps_results(tree, function[0])):
        found |= running(contexts) | set(importing)
    names = {_test_of(name) for name in found - {_IMPORT}}
    files = {name for name in names if "::" not in name}
    names = (names - files) | {test for test in tests if test.partition("::")[0] in files}
    return tuple(sorted(names)) if names or _IMPORT not in found else None


def _test_of(context: str) -> str:
    """Returns the test, or the file of tests, to which recorded lines belong."""
    for stage in _STAGES:
        context = context.removesuffix(stage)
    return context


def _keeps_results(tree: ast.Module, line: int) -> bool:
    """Whether the function that begins in a line caches its results."""
    return any(
        name.endswith(_KEEPING)
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.decorator_list
        if min(part.lineno for part in node.decorator_list) == line
        for name in (ast.unparse(part).partition("(")[0] for part in node.decorator_list)
    )


def importing_tests(file: str, tests: Iterable[str], root: Path) -> tuple[str, ...]:
    """Returns the tests whose file imports from a source file, and which thus may use what its
    import has made.
    """
    module = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return tuple(test for test in tests if module in _imported(root / test.partition("::")[0]))


@cache
def _imported(path: Path) -> frozenset[str]:
    """Returns the modules that a Python file names in its imports."""
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
    """Assigns the lines that this process runs from now on to a test. Called in the process that
    runs tests.
    """
    from coverage import Coverage

    if (current := Coverage.current()) is not None:
        current.switch_context(test)
