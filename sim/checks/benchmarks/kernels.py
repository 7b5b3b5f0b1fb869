"""Cycles per warp instruction of the project's kernels, and the wait reasons of their warps."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from math import prod
from statistics import geometric_mean
from typing import Any

from tqdm import tqdm

from rtl.layouts import WaitReason
from rtl.params import WARP_THREADS, SmParams
from sim.checks.benchmarks.machine import BenchmarkError, BenchmarkMachine
from sim.checks.benchmarks.table import table
from sim.engine import Engine
from sim.launch import lacking
from sim.machine.memory_service import LATENCY
from sim.machine.timeline import Timeline
from testbench.kernels.expected import complaints
from testbench.kernels.manifest import LEVELS, RUNS, Run, build

__all__ = [
    "KernelMachine",
    "KernelRow",
    "KernelTotal",
    "kernel_text",
    "total_of",
]

_LEVEL = LEVELS[-1]


@dataclass(frozen=True)
class KernelRow:
    """A kernel that ran alone on a machine.

    Attributes:
        warps: Number of warps of the grid.
        grid_cycles: Cycles from the launch of the grid to its end, as the machine counts them.
        cycles: Cycles with a live warp.
        instructions: Warp instructions issued.
        waits: Warp cycles by wait reason.
    """

    name: str
    warps: int
    grid_cycles: int
    cycles: int
    instructions: int
    waits: dict[str, int]

    @property
    def warp_cycles(self) -> int:
        """Sum over all warps of their cycles from launch to end."""
        return sum(self.waits.values())

    @property
    def per_instruction(self) -> float:
        """Warp cycles per warp instruction."""
        return self.cycles / self.instructions

    def share(self, reason: str) -> float:
        """Returns the fraction of its warps' time with a wait reason, from 0 to 1."""
        return self.waits.get(reason, 0) / self.warp_cycles

    def record(self) -> dict[str, Any]:
        """Returns the row for JSON."""
        return asdict(self) | {"cycles_per_instruction": self.per_instruction}


@dataclass(frozen=True)
class KernelTotal:
    """Figures of several kernels.

    Attributes:
        kernels: Number of kernels.
        per_instruction: Geometric mean of their warp cycles per warp instruction.
        average_shares: Fraction of warps' time by wait reason, averaged over the kernels.
        shares: The same over all cycles of all kernels, so that long kernels have more weight.
    """

    kernels: int
    per_instruction: float
    average_shares: dict[str, float]
    shares: dict[str, float]


def total_of(rows: Sequence[KernelRow]) -> KernelTotal:
    """Returns the figures of all kernels together."""
    average: dict[str, float] = defaultdict(float)
    cycles: Counter[str] = Counter()
    for row in rows:
        cycles.update(row.waits)
        for reason in row.waits:
            average[reason] += row.share(reason) / len(rows)
    return KernelTotal(
        len(rows),
        geometric_mean(row.per_instruction for row in rows),
        dict(average),
        {reason: number / cycles.total() for reason, number in cycles.items()},
    )


class KernelMachine:
    """A machine that runs the kernels in the code of NVIDIA's assembler, the first run of each.

    Kernels that trap, and those for which it has no room, are left out.
    """

    def __init__(self, params: SmParams, engine: type[Engine]) -> None:
        self._timeline = Timeline(params)
        self._machine = BenchmarkMachine(params, engine, watched=self._timeline.watched)

    def rows(self, names: Iterable[str] | None = None) -> list[KernelRow]:
        """Returns a row for each kernel, or for those in ``names``; BenchmarkError if the results
        of one are wrong.
        """
        chosen = [
            run
            for run in RUNS.values()
            if not run.label
            and not run.traps
            and (names is None or run.kernel in names)
            and lacking(build(run, _LEVEL), self._machine.params) is None
        ]
        return [self._row(run) for run in tqdm(chosen, unit=" kernels", disable=None, leave=False)]

    def _row(self, run: Run) -> KernelRow:
        timeline = self._timeline
        machine = self._machine
        timeline.restart()
        launch = build(run, _LEVEL)
        result = machine.run(launch)
        timeline.finish(machine.cycles, result.cycles)
        for line in complaints(run, _LEVEL, replace(launch, memory=machine.memory)):
            raise BenchmarkError(line)
        waits: Counter[WaitReason] = Counter()
        for span in timeline.spans:
            waits[span.reason] += span.end - span.begin
        return KernelRow(
            run.kernel,
            prod(run.grid) * -(-prod(run.block) // WARP_THREADS),
            result.cycles,
            _covered((span.begin, span.end) for span in timeline.spans),
            len(timeline.executed),
            {reason.name: cycles for reason, cycles in waits.most_common()},
        )


def _covered(spans: Iterable[tuple[int, int]]) -> int:
    """Returns the number of cycles that are in at least one span."""
    covered = reached = 0
    for begin, end in sorted(spans):
        covered += max(0, end - max(begin, reached))
        reached = max(reached, end)
    return covered


def kernel_text(rows: list[KernelRow]) -> str:
    """Returns the rows as a table of text."""
    reasons = [reason.name for reason in WaitReason if reason is not WaitReason.NOT_LIVE]
    lines = [
        (
            row.name,
            f"{row.warps}",
            f"{row.grid_cycles:,}",
            f"{row.cycles:,}",
            f"{row.instructions:,}",
            f"{row.per_instruction:.2f}",
            *(f"{row.share(reason):.3f}" for reason in reasons),
        )
        for row in rows
    ]
    of_one_warp = [row for row in rows if row.warps == 1]
    for what, chosen in (("all kernels", rows), ("those of one warp", of_one_warp)):
        if not chosen:
            continue
        total = total_of(chosen)
        for how, shares in (("average", total.average_shares), ("all cycles", total.shares)):
            texts = (f"{shares.get(reason, 0):.3f}" for reason in reasons)
            name = f"{what}, {how}"
            lines.append((name, "", "", "", "", f"{total.per_instruction:.2f}", *texts))
    return table(
        f"{len(rows)} kernels at -O3: cycles in which a warp lives, for each instruction of a warp "
        "(at the end the geometric mean), and the parts of warps' time by what they wait for (at "
        "the end the average of the kernels, and of all their cycles); memory answers after "
        f"{LATENCY} cycles",
        (
            "kernel",
            "warps",
            "grid",
            "cycles",
            "instructions",
            "cycles/instruction",
            *(reason.lower() for reason in reasons),
        ),
        lines,
    )
