"""The code table: a row for the compiled code of every PTX file of the tree and of random
functions.

The table is under version control, so that the effects of a change of the compiler are visible.
``python -m testbench.compiler.code_table`` regenerates ``code_table.txt``.

A row is a program compiled for a number of registers: the number of instructions of its code
(including padding), the first digits of the SHA-256 of its words and control codes, and the number
of warp instructions that a launch of it executes on the warp model; ``-`` if the tree has no launch
of the file. A file that is refused has the reason instead.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from hashlib import sha256
from pathlib import Path

from sim.checks.benchmarks.large_programs import LARGE_PROGRAMS
from sim.launch import Argument, Buffer, Launch, Scalar, prepare
from sim.model.warp.model import WarpModel
from sim.support.garbage_collection import without_garbage_collection
from sim.toolchain.compiler.layout import HANDLE_BYTES
from sim.toolchain.cubin.loader import load
from sim.toolchain.cubin.object_file import ObjectFile, SectionFlag
from sim.toolchain.from_ptx import compiled_object
from sim.toolchain.module import ProgramError
from sim.toolchain.ptx.front_end import parse_ptx
from testbench.compiler.every_form import check, random_program
from testbench.compiler.random_functions import THREADS, Program, structured, unstructured
from testbench.kernels.manifest import LEVELS, RUNS, Run
from testbench.programs.cuda.runs import CUDA_RUNS

__all__ = ["TABLE", "Row", "differences", "kept_rows", "made_row", "program_keys"]

ROOT = Path(__file__).parents[2]
TABLE = Path(__file__).with_suffix(".txt")
_FOLDERS = ("docs", "sim", "testbench")
MANY, FEW, FEWEST = 255, 24, 12
"""Numbers of registers for which programs are compiled."""
_EVERY = 4
"""Interval of the files with a launch that are also compiled for few registers."""
_INSTRUCTION_BYTES = 8
_GROUP_BYTES = 32
_DIGITS = 12
_LIMIT = 10_000_000
_FUNCTIONS = {"structured": (structured, 16), "unstructured": (unstructured, 12)}
"""Random functions by kind, and their number."""
_FORMS = 40
"""Number of instructions of a program of random forms."""
_FORM_SEEDS = 6
_SIZES = {"blocks": 6, "pressure": 24, "doubles": 6, "unrolled": 2}
_USUAL_SIZE = 20
"""Number of parts of the large programs, which are small here."""
_POINTER_OF_A_FUNCTION = ("k12_callprototype_param", "fp")
"""A kernel, and its parameter that is a function's handle: that of the first function."""


@dataclass(frozen=True)
class Row:
    """A row of the table. ``executed`` is None if nothing is launched; ``refused`` is the reason if
    there is no code.
    """

    name: str
    registers: int
    instructions: int = 0
    digest: str = ""
    executed: int | None = None
    refused: str = ""

    def __str__(self) -> str:
        if self.refused:
            return f"{self.name} {self.registers} refused: {self.refused}"
        return (
            f"{self.name} {self.registers} {self.instructions} {self.digest} "
            f"{'-' if self.executed is None else self.executed}"
        )

    @classmethod
    def read(cls, line: str) -> "Row":
        """Parses a line of the table."""
        name, registers, rest = line.split(" ", 2)
        if rest.startswith("refused: "):
            return cls(name, int(registers), refused=rest.removeprefix("refused: "))
        instructions, digest, executed = rest.split()
        return cls(
            name,
            int(registers),
            int(instructions),
            digest,
            None if executed == "-" else int(executed),
        )


_Launcher = Callable[[ObjectFile], Launch]


def _files() -> Iterator[tuple[Path, Run | None]]:
    """Yields the PTX files of the tree, each with one of its runs or None."""
    runs: dict[str, Run] = {}
    for run in (*RUNS.values(), *CUDA_RUNS.values()):
        runs.setdefault(str(run.ptx.relative_to(ROOT)), run)
    for path in sorted(path for folder in _FOLDERS for path in (ROOT / folder).rglob("*.ptx")):
        name = str(path.relative_to(ROOT))
        yield path, runs.get(name.replace(".G.ptx", ".ptx"))


def _launcher(run: Run) -> _Launcher:
    def argument(given: Argument, name: str) -> Argument:
        if (run.kernel, name) == _POINTER_OF_A_FUNCTION:
            return Scalar(HANDLE_BYTES, 8)
        return given

    arguments = [
        argument(given, spec.name)
        for given, spec in zip(run.launch_arguments(LEVELS[-1]), run.arguments, strict=True)
    ]
    return lambda found: prepare(
        load(found),
        arguments,
        entry=run.entry,
        grid=run.grid,
        block=run.block,
        dynamic_shared=run.dynamic_shared,
    )


def _random_launcher(found: ObjectFile) -> Launch:
    return prepare(
        load(found), [Buffer("out", bytes(16 * THREADS)), Scalar(5, 4)], block=(THREADS, 1, 1)
    )


def _random_text(function: Callable[[int], Program], seed: int) -> str:
    return function(seed).text


def _accepted(seed: int) -> str:
    """Returns a program of random forms, without the instructions that are refused."""
    lines = random_program(seed, _FORMS)
    for line, _ in check(lines):
        lines[lines.index(line)] = ""
    return "\n".join(lines)


@cache
def _programs() -> dict[tuple[str, int], tuple[Callable[[], str], _Launcher | None]]:
    """Returns all programs by name and number of registers: functions that return the text, and
    that launch it.
    """
    return {(name, registers): (text, launch) for name, text, registers, launch in _each_program()}


def _each_program() -> Iterator[tuple[str, Callable[[], str], int, _Launcher | None]]:
    launched = 0
    for path, run in _files():
        name, text = str(path.relative_to(ROOT)), partial(path.read_text, encoding="utf-8")
        launch = _launcher(run) if run is not None else None
        yield name, text, MANY, launch
        if launch is not None:
            if launched % _EVERY == 0:
                yield name, text, FEW, launch
            launched += 1
    for kind, (function, count) in _FUNCTIONS.items():
        for seed in range(count):
            for registers in (MANY, FEWEST):
                text = partial(_random_text, function, seed)
                yield f"{kind}:{seed}", text, registers, _random_launcher
    for seed in range(_FORM_SEEDS):
        for registers in (MANY, FEW):
            yield f"forms:{seed}", partial(_accepted, seed), registers, None
    for kind, (generator, _) in LARGE_PROGRAMS.items():
        size = _SIZES.get(kind, _USUAL_SIZE)
        yield f"large:{kind}", partial(generator, size), MANY, None


def _row(name: str, text: str, registers: int, launcher: _Launcher | None) -> Row:
    try:
        with without_garbage_collection():
            found = compiled_object(parse_ptx(text, name), name, registers)
    except ProgramError as error:
        return Row(name, registers, refused=str(error))
    content = b"".join(
        section.content
        for section in found.sections.values()
        if section.flags & SectionFlag.EXECUTE
    )
    executed = None
    if launcher is not None:
        executed = WarpModel(launcher(found), warps=64).run(_LIMIT).instructions
    count = (len(content) - len(content) // _GROUP_BYTES * _INSTRUCTION_BYTES) // _INSTRUCTION_BYTES
    return Row(name, registers, count, sha256(content).hexdigest()[:_DIGITS], executed)


def program_keys() -> list[tuple[str, int]]:
    """Returns name and number of registers of every program, in the table's order."""
    return list(_programs())


def made_row(name: str, registers: int) -> Row:
    """Compiles a program with the present compiler and returns its row."""
    text, launcher = _programs()[name, registers]
    return _row(name, text(), registers, launcher)


def kept_rows() -> dict[tuple[str, int], Row]:
    """Returns the rows of the file, by name and number of registers."""
    rows = [Row.read(line) for line in TABLE.read_text().splitlines() if not line.startswith("#")]
    return {(row.name, row.registers): row for row in rows}


def differences(made: Iterable[Row], kept: Mapping[tuple[str, int], Row]) -> list[str]:
    """Returns a line for every row that differs from the stored one, is new, or is missing."""
    left, found = dict(kept), []
    for row in made:
        before = left.pop((row.name, row.registers), None)
        if row != before:
            found.append(f"{row.name}, {row.registers} registers: {_changed(before, row)}")
    return found + [f"{name}, {registers} registers: is gone" for name, registers in left]


def _changed(before: Row | None, row: Row) -> str:
    if before is None:
        return "is new"
    if before.refused or row.refused:
        return f"{row.refused or 'is compiled'}; before: {before.refused or 'was compiled'}"
    changes = [
        f"{getattr(before, field)} -> {getattr(row, field)} {what}"
        for field, what in (
            ("instructions", "instructions"),
            ("executed", "warp instructions executed"),
        )
        if getattr(before, field) != getattr(row, field)
    ]
    return ", ".join(changes) or "other code of the same length"


def main() -> int:
    """Writes the table, prints the changes and returns the exit code."""
    kept = kept_rows() if TABLE.exists() else {}
    made = [made_row(*key) for key in program_keys()]
    for line in differences(made, kept):
        print(line)
    header = "# program, registers, instructions, digest of the code, warp instructions executed"
    TABLE.write_text("\n".join([header, *map(str, made)]) + "\n")
    print(
        f"{len(made)} rows, {sum(row.instructions for row in made)} instructions, "
        f"{sum(row.executed or 0 for row in made)} executed"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
