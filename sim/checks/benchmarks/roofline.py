"""How close programs come to the limits of lanes, memory and issue: their cycles relative to the
least that such a machine needs.
"""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from functools import partial
from statistics import median
from typing import Any

from tqdm import tqdm

from rtl.isa.tokens import LINE_BYTES
from rtl.params import WARP_THREADS, SmParams
from sim.checks.benchmarks import streaming
from sim.checks.benchmarks.machine import BenchmarkError, BenchmarkMachine
from sim.checks.benchmarks.table import table
from sim.checks.benchmarks.work import Work, work_of
from sim.launch import Launch, lacking
from sim.machine.memory_service import LATENCY
from testbench.kernels.expected import complaints
from testbench.kernels.manifest import LEVELS, RUNS, Run, build

__all__ = [
    "QUICK",
    "RooflineRow",
    "programs_without_room",
    "roofline_table",
    "roofline_text",
]

_LEVEL = LEVELS[-1]
QUICK = ("k01_vecadd", "k49_dynamic_shared")
"""Programs of a short run."""


@dataclass(frozen=True)
class RooflineRow:
    """A program that ran on a machine with correct results: its cycles and its work.

    Attributes:
        streaming: Whether it is one of the programs that measure memory.
        accesses: Number of register reads and writes of units, which occupy the lanes; a
            simultaneous read and write count once.
    """

    name: str
    streaming: bool
    lanes: int
    cycles: int
    work: Work
    accesses: int

    @property
    def bound(self) -> int:
        """Least cycles that a machine with as many lanes needs."""
        return self.work.bound(self.lanes)

    @property
    def ratio(self) -> float:
        """The bound divided by the cycles: 1 for a program that reaches its limit."""
        return self.bound / self.cycles

    @property
    def busy(self) -> float:
        """Fraction of the cycles, 0 to 1, in which the lanes compute or transfer registers."""
        beats = WARP_THREADS // self.lanes
        return (self.work.beats(self.lanes) + self.accesses * beats) / self.cycles

    @property
    def ratio_when_busy(self) -> float:
        """The ratio if the lanes, with the same accesses, were always busy."""
        return self.ratio / self.busy

    @property
    def limit(self) -> str:
        """The resource that determines the bound."""
        figures = {
            "lanes": self.work.beats(self.lanes),
            "memory": self.work.lines,
            "issue": self.work.instructions,
        }
        return max(figures, key=lambda name: figures[name])

    @property
    def intensity(self) -> float | None:
        """Thread operations per byte of memory; None without memory accesses."""
        return self.work.operations / (self.work.lines * LINE_BYTES) if self.work.lines else None

    @property
    def rate(self) -> float:
        """Thread operations per cycle."""
        return self.work.operations / self.cycles

    def record(self) -> dict[str, Any]:
        """Returns the row for JSON."""
        figures = {
            name: getattr(self, name)
            for name in ("bound", "ratio", "busy", "ratio_when_busy", "limit", "intensity", "rate")
        }
        return asdict(self) | {"beats": self.work.beats(self.lanes)} | figures


@dataclass(frozen=True)
class _Program:
    """A program: a maker of its launch, and a check of a launch that has ended."""

    name: str
    streaming: bool
    launch: Callable[[], Launch]
    complaints: Callable[[Launch], list[str]]


def _kernel(run: Run) -> _Program:
    return _Program(
        run.kernel, False, partial(build, run, _LEVEL), partial(complaints, run, _LEVEL)
    )


def _programs() -> Iterable[_Program]:
    """Yields the streaming programs, and the first run of each kernel in the code of NVIDIA's
    assembler, without those that trap.
    """
    for make in streaming.STREAMING:
        program = make()
        yield _Program(
            program.name,
            True,
            partial(streaming.launch, program),
            partial(streaming.complaints, program),
        )
    yield from (_kernel(run) for run in RUNS.values() if not run.label and not run.traps)


def _row(machine: BenchmarkMachine, program: _Program) -> RooflineRow:
    params = machine.params
    launch = program.launch()
    result = machine.run(launch)
    for line in program.complaints(replace(launch, memory=machine.memory)):
        raise BenchmarkError(line)
    return RooflineRow(
        program.name,
        program.streaming,
        params.lanes,
        result.cycles,
        work_of(program.launch(), params.warps),
        result.counters["lane_operations"],
    )


def _fits(program: _Program, params: SmParams) -> bool:
    return lacking(program.launch(), params) is None


def programs_without_room(params: SmParams) -> list[str]:
    """Returns the names of the programs for which a machine has no room."""
    return [program.name for program in _programs() if not _fits(program, params)]


def roofline_table(
    machine: BenchmarkMachine, names: Iterable[str] | None = None
) -> list[RooflineRow]:
    """Returns a row for every program for which the machine has room, or for those in ``names``;
    with a progress bar on a terminal.

    Raises BenchmarkError if the results of one are wrong.
    """
    chosen = [
        program
        for program in _programs()
        if (names is None or program.name in names) and _fits(program, machine.params)
    ]
    return [
        _row(machine, program)
        for program in tqdm(chosen, unit=" programs", disable=None, leave=False)
    ]


def roofline_text(rows: list[RooflineRow]) -> str:
    """Returns the rows as a table of text."""
    lines: list[tuple[str, ...]] = [
        (
            row.name,
            f"{row.cycles:,}",
            f"{row.work.beats(row.lanes):,}",
            f"{row.work.lines:,}",
            f"{row.work.instructions:,}",
            row.limit,
            f"{row.ratio:.3f}",
            f"{row.accesses:,}",
            f"{row.busy:.3f}",
            f"{row.ratio_when_busy:.3f}",
            "" if row.intensity is None else f"{row.intensity:.2f}",
            f"{row.rate:.2f}",
        )
        for row in rows
    ]
    for name, chosen in (("streaming", True), ("others", False)):
        ratios = [row.ratio for row in rows if row.streaming is chosen]
        if ratios:
            lines.append((f"median, {name}", *[""] * 5, f"{median(ratios):.3f}", *[""] * 5))
    return table(
        f"Cycles beside the least that {rows[0].lanes} lanes, a line of memory and an instruction a cycle "
        f"need; memory answers after {LATENCY} cycles",
        (
            "program",
            "cycles",
            "lane beats",
            "memory lines",
            "instructions",
            "limit",
            "bound/cycles",
            "register accesses",
            "lanes busy",
            "bound/cycles, lanes busy",
            "operations/byte",
            "operations/cycle",
        ),
        lines,
    )
