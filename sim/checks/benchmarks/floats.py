"""Utilisation of the lanes by single-precision programs: a matrix product and an n-body force,
compiled here.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from sim.checks.benchmarks.machine import BenchmarkError, BenchmarkMachine
from sim.checks.benchmarks.table import table
from sim.checks.benchmarks.work import work_of
from sim.launch import Buffer, Launch, Scalar, lacking, prepare
from sim.launch.memory import Memory
from sim.toolchain.from_ptx import read_ptx_program

__all__ = [
    "FLOAT_AIM",
    "PROGRAMS",
    "FloatProgram",
    "FloatRow",
    "float_table",
    "float_text",
    "measured",
]

FLOAT_AIM = 0.9
"""The target utilisation, as a fraction of the cycles in which the lanes have work."""
_HERE = Path(__file__).parent / "programs"
_THREADS = 64
_TILE = 32
"""Rows and columns of the product that a CTA computes."""
_OTHERS = 256
"""Number of bodies, of those that exert a force, that a CTA handles."""
Numbers = NDArray[np.float32]


@dataclass(frozen=True)
class FloatProgram:
    """A program: its file, its grid of CTAs of 64 threads, the inputs by name, and the numbers
    after them.

    The expected content of the first buffer is ``exact``, within a relative and absolute ``error``.
    """

    name: str
    grid: tuple[int, int, int]
    inputs: dict[str, Numbers]
    counts: tuple[int, ...]
    exact: Numbers
    error: float

    def launch(self) -> Launch:
        """Returns a launch in a separate memory."""
        buffers = [
            Buffer("out", bytes(self.exact.nbytes)),
            *(Buffer(name, content.tobytes()) for name, content in self.inputs.items()),
        ]
        return prepare(
            read_ptx_program(_HERE / f"{self.name}.ptx"),
            [*buffers, *(Scalar(count, 4) for count in self.counts)],
            grid=self.grid,
            block=(_THREADS, 1, 1),
        )

    def check(self, launch: Launch, memory: Memory) -> None:
        """Raises BenchmarkError if the memory has other results."""
        left = np.frombuffer(memory.read(*launch.buffers["out"]), np.float32).reshape(
            self.exact.shape
        )
        for place in np.argwhere(~np.isclose(left, self.exact, rtol=self.error, atol=self.error))[
            :1
        ]:
            at = tuple(place.tolist())
            raise BenchmarkError(f"{self.name}: out{list(at)} is {left[at]}, not {self.exact[at]}")


def _product(width: int, depth: int) -> FloatProgram:
    """The expected sums are chains of fused multiply-adds, computed in double precision, where one
    rounding to single equals the fused rounding.
    """
    source = np.random.default_rng(1)
    a, b = (
        source.uniform(-1, 1, shape).astype(np.float32)
        for shape in ((width, depth), (depth, width))
    )
    exact = np.zeros((width, width), np.float32)
    for step in range(depth):
        exact = (np.outer(a[:, step].astype(np.float64), b[step]) + exact).astype(np.float32)
    return FloatProgram(
        "float_product",
        (width // _TILE, width // _TILE, 1),
        {"a": a, "b": b},
        (width, depth),
        exact,
        0.0,
    )


def _bodies(others: int, count: int) -> FloatProgram:
    source = np.random.default_rng(2)
    pulled, bodies = (
        source.uniform(-1, 1, (number, 4)).astype(np.float32) for number in (others, count)
    )
    distance = bodies[None, :, :3].astype(np.float64) - pulled[:, None, :3]
    pull = bodies[None, :, 3] / ((distance**2).sum(axis=2) + 1 / 128) ** 1.5
    exact = np.zeros((others, 4), np.float32)
    exact[:, :3] = (pull[:, :, None] * distance).sum(axis=1)
    return FloatProgram(
        "bodies",
        (others // _OTHERS, 1, 1),
        {"others": pulled, "bodies": bodies},
        (count,),
        exact,
        1e-4,
    )


PROGRAMS: tuple[Callable[[], FloatProgram], ...] = (
    lambda: _product(64, 128),
    lambda: _bodies(1024, 64),
)
"""Makers of the programs."""


@dataclass(frozen=True)
class FloatRow:
    """A run.

    A load or a function occupies the lanes for its operands and for each register of its result,
    for the beats of an arithmetic instruction.

    Attributes:
        cycles: Cycles of the run.
        idle: Cycles without a live warp.
    """

    name: str
    lanes: int
    beats: int
    cycles: int
    instructions: int
    lane_instructions: int
    accesses: int
    idle: int

    @property
    def computing(self) -> float:
        """Fraction of the cycles in which the lanes compute."""
        return self.lane_instructions * self.beats / self.cycles

    @property
    def busy(self) -> float:
        """Fraction of the cycles in which the lanes compute or transfer registers."""
        return (self.lane_instructions + self.accesses) * self.beats / self.cycles

    def record(self) -> dict[str, Any]:
        """Returns the row for JSON."""
        return asdict(self) | {"computing": self.computing, "busy": self.busy, "aim": FLOAT_AIM}


def measured(machine: BenchmarkMachine, program: FloatProgram) -> FloatRow:
    """Runs a program; BenchmarkError if its results are wrong."""
    params, launch = machine.params, program.launch()
    if (missing := lacking(launch, params)) is not None:
        raise BenchmarkError(f"{program.name}: {missing[0]}, and the machine has {missing[1]}")
    result = machine.run(launch)
    program.check(launch, machine.memory)
    work, counters = work_of(program.launch(), params.warps), result.counters
    return FloatRow(
        program.name,
        params.lanes,
        params.beats,
        result.cycles,
        work.instructions,
        work.lane_instructions,
        counters["lane_operations"],
        counters["idle"],
    )


def float_table(machine: BenchmarkMachine) -> list[FloatRow]:
    """Returns a row for each program."""
    return [
        measured(machine, make())
        for make in tqdm(PROGRAMS, unit=" programs", disable=None, leave=False)
    ]


def float_text(rows: list[FloatRow]) -> str:
    """Returns the rows as a table of text."""
    lines = [
        (
            row.name,
            f"{row.cycles:,}",
            f"{row.instructions:,}",
            f"{row.lane_instructions:,}",
            f"{row.accesses:,}",
            f"{row.computing:.3f}",
            f"{row.busy:.3f}",
            f"{FLOAT_AIM}",
        )
        for row in rows
    ]
    return table(
        f"Single precision, {rows[0].lanes} lanes. Busy: they compute, or units access registers",
        (
            "program",
            "cycles",
            "instructions",
            "lane instructions",
            "register accesses",
            "lanes compute",
            "lanes busy",
            "aim",
        ),
        lines,
    )
