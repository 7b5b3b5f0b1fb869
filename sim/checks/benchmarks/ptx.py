"""Executed instructions of compiled kernels, compared with NVIDIA's assembler for the same PTX."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from tqdm import tqdm

from sim.checks.benchmarks.table import table
from sim.launch import Launch, prepare
from sim.model.warp.model import WarpModel
from sim.toolchain.cubin.loader import load
from sim.toolchain.from_ptx import object_of_ptx
from testbench.kernels.manifest import LEVELS, RUNS, Run, build

__all__ = [
    "PtxRow",
    "ptx_table",
    "ptx_text",
    "total",
]

_WARPS = 64
_LIMIT = 10_000_000
_OTHER_PROGRAM = "k12_callprototype_param"
"""A program that is left out: its run with NVIDIA's code calls an address in that code."""


@dataclass(frozen=True)
class PtxRow:
    """Warp instructions that a kernel's first run retires: compiled here, and by NVIDIA's assembler
    at -O0 and -O3.
    """

    kernel: str
    compiled: int
    unoptimised: int
    optimised: int

    @property
    def to_unoptimised(self) -> float:
        """Instructions of this compiler's code relative to -O0."""
        return self.compiled / self.unoptimised

    @property
    def to_optimised(self) -> float:
        """Instructions of this compiler's code relative to -O3."""
        return self.compiled / self.optimised

    def record(self) -> dict[str, Any]:
        """Returns the row for JSON."""
        return asdict(self) | {
            "to_unoptimised": self.to_unoptimised,
            "to_optimised": self.to_optimised,
        }


def _launch(run: Run) -> Launch:
    """Returns the launch of the run's kernel, compiled here."""
    return prepare(
        load(object_of_ptx(str(run.ptx))),
        run.launch_arguments(LEVELS[-1]),
        grid=run.grid,
        block=run.block,
        dynamic_shared=run.dynamic_shared,
    )


def _instructions(launch: Launch) -> int:
    return WarpModel(launch, warps=_WARPS).run(_LIMIT).instructions


def total(rows: Sequence[PtxRow]) -> PtxRow:
    """Returns the sums of some rows as a row."""
    return PtxRow(
        "total",
        *(
            sum(column)
            for column in zip(
                *((row.compiled, row.unoptimised, row.optimised) for row in rows), strict=True
            )
        ),
    )


def ptx_table() -> list[PtxRow]:
    """Returns a row for every kernel, with a progress bar on a terminal."""
    rows = []
    kernels = sorted({run.kernel for run in RUNS.values()} - {_OTHER_PROGRAM})
    for kernel in tqdm(kernels, unit=" kernels", disable=None, leave=False):
        run = RUNS[kernel]
        theirs = [_instructions(build(run, level)) for level in LEVELS]
        rows.append(PtxRow(kernel, _instructions(_launch(run)), *theirs))
    return rows


def ptx_text(rows: list[PtxRow]) -> str:
    """Returns the rows as a table of text."""
    lines = [
        (
            row.kernel,
            f"{row.compiled:,}",
            f"{row.unoptimised:,}",
            f"{row.optimised:,}",
            f"{row.to_unoptimised:.2f}",
            f"{row.to_optimised:.2f}",
        )
        for row in [*rows, total(rows)]
    ]
    lines.append(
        (
            "median",
            "",
            "",
            "",
            f"{median(row.to_unoptimised for row in rows):.2f}",
            f"{median(row.to_optimised for row in rows):.2f}",
        )
    )
    return table(
        "Warp instructions that kernels execute, compiled here and by NVIDIA's assembler",
        ("kernel", "here", "-O0", "-O3", "here/-O0", "here/-O3"),
        lines,
    )
