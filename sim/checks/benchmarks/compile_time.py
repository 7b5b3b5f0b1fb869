"""Compile time of large PTX programs."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from tqdm import tqdm

from sim.checks.benchmarks.table import table
from sim.support.garbage_collection import without_garbage_collection
from sim.toolchain.assembly.assembler import assemble_statements
from sim.toolchain.compiler import compile_statements
from sim.toolchain.cubin.elf_writer import write_object
from sim.toolchain.ptx.front_end import parse_ptx

from .large_programs import LARGE_PROGRAMS

__all__ = [
    "CompileRow",
    "compile_table",
    "compile_text",
]

_QUICK = 10
"""Quick programs are smaller by this factor."""
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class CompileRow:
    """A program of ``size`` bytes, and the processor time of each part of the compiler in seconds.

    Attributes:
        growth: Time of a byte in a program of that size, relative to one of half the size; 1 if the
            time is linear in the size.
    """

    kind: str
    size: int
    front_end: float
    compiler: float
    assembler: float
    growth: float

    @property
    def seconds(self) -> float:
        """Sum of the seconds of all parts."""
        return self.front_end + self.compiler + self.assembler

    @property
    def rate(self) -> float:
        """Speed in kilobytes (1000 bytes) of PTX per second."""
        return self.size / self.seconds / 1000

    def record(self) -> dict[str, Any]:
        """Returns the row for JSON."""
        return asdict(self) | {"seconds": self.seconds, "rate": self.rate}


def _timed(function: Callable[[], _Result]) -> tuple[_Result, float]:
    begun = time.process_time()
    return function(), time.process_time() - begun


def _parts(text: str, name: str) -> list[float]:
    """Returns the seconds of front end, compiler and assembler."""
    with without_garbage_collection():
        module, front_end = _timed(lambda: parse_ptx(text, name))
        statements, compiler = _timed(lambda: compile_statements(module))
        _, assembler = _timed(lambda: write_object(assemble_statements(statements, name)))
    return [front_end, compiler, assembler]


def compile_table(quick: bool) -> list[CompileRow]:
    """Returns a row for every kind of program, with a progress bar on a terminal."""
    rows = []
    for kind, (generator, size) in tqdm(
        LARGE_PROGRAMS.items(), unit=" programs", disable=None, leave=False
    ):
        whole, half = (
            generator(count)
            for count in ((size // _QUICK, size // _QUICK // 2) if quick else (size, size // 2))
        )
        half_seconds = sum(_parts(half, kind))
        parts = _parts(whole, kind)
        growth = sum(parts) / len(whole) / (half_seconds / len(half))
        rows.append(CompileRow(kind, len(whole), parts[0], parts[1], parts[2], growth))
    return rows


def compile_text(rows: list[CompileRow]) -> str:
    """Returns the rows as a table of text."""
    lines = [
        (
            row.kind,
            f"{row.size / 1000:.0f}",
            f"{row.front_end:.2f}",
            f"{row.compiler:.2f}",
            f"{row.assembler:.2f}",
            f"{row.seconds:.2f}",
            f"{row.rate:.0f}",
            f"{row.growth:.2f}",
        )
        for row in rows
    ]
    return table(
        "Seconds of processor that large programs take to compile; growth: a byte's time beside that in a "
        "program of half the size",
        ("program", "KB of PTX", "front end", "compiler", "assembler", "all", "KB/s", "growth"),
        lines,
    )
