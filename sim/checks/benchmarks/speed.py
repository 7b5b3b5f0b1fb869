"""Speed of the simulation on each engine, without a comparison with the warp model."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from time import perf_counter, process_time
from typing import Any

from tqdm import tqdm

from sim.checks.benchmarks.instructions import can_count, instructions_per_cycle
from sim.checks.benchmarks.machine import BenchmarkMachine, launch_loop
from sim.checks.benchmarks.table import table
from sim.checks.benchmarks.throughput import WARPS, throughput_loop
from sim.launch import Launch
from testbench.kernels.manifest import LEVELS, RUNS, build

__all__ = [
    "AIMS",
    "SpeedRow",
    "speed_programs",
    "speed_rows",
    "speed_text",
]

AIMS = {"compiled": 100_000}
"""Target speed in simulated cycles per second on one core, for engines that have a target."""
_PROGRAM = "k29_sha_rounds"
_LONG = ("k43_mandel_fixed", "k51_nqueens")
"""Programs for engines that have a target."""


@dataclass(frozen=True)
class SpeedRow:
    """A program, its simulated cycles and memory requests, the elapsed and the processor time in
    seconds, and the processor's instructions per cycle, None if they cannot be counted.
    """

    engine: str
    program: str
    cycles: int
    requests: int
    seconds: float
    processor_seconds: float
    instructions: float | None = None

    @property
    def per_second(self) -> float:
        """Simulated cycles per second of one core."""
        return self.cycles / self.processor_seconds

    def record(self) -> dict[str, Any]:
        """Returns the row for JSON."""
        return asdict(self) | {"cycles_per_second": self.per_second, "aim": AIMS.get(self.engine)}


def speed_programs(
    machine: BenchmarkMachine, engine: str, iterations: int, brief: bool
) -> Iterable[tuple[str, Launch]]:
    """Yields the programs for an engine by name, only the first one if ``brief``. ``iterations`` is the
    number of iterations of the loop.
    """
    warps = min(WARPS, machine.params.warps)
    yield (
        f"throughput loop, {warps} warps",
        launch_loop(throughput_loop(fixed_stall=True).module(), iterations, warps),
    )
    if brief:
        return
    for name in (_PROGRAM, *(_LONG if engine in AIMS else ())):
        run = build(RUNS[name], LEVELS[-1])
        if run.warps <= machine.params.warps:
            yield name, run


def _instructions(machine: BenchmarkMachine, launch: Launch) -> float | None:
    """Returns the host instructions per cycle of a launch, without the testbench's."""
    taped = machine.tape(launch) if can_count() else None
    return None if taped is None else instructions_per_cycle(*taped)


def speed_rows(
    machine: BenchmarkMachine, engine: str, iterations: int, brief: bool = False
) -> list[SpeedRow]:
    """Returns a row for every program, or only for the first one. The machine must be built, and
    its model compiled.
    """
    rows = []
    for name, launch in tqdm(
        speed_programs(machine, engine, iterations, brief),
        unit=" programs",
        disable=None,
        leave=False,
    ):
        passed, worked = perf_counter(), process_time()
        machine.run(launch)
        row = SpeedRow(
            engine,
            name,
            machine.cycles,
            machine.requests,
            perf_counter() - passed,
            process_time() - worked,
        )
        rows.append(replace(row, instructions=_instructions(machine, launch)))
    return rows


def speed_text(rows: list[SpeedRow]) -> str:
    """Returns the rows as a table of text."""
    lines = [
        (
            row.engine,
            row.program,
            f"{row.cycles:,}",
            f"{row.requests:,}",
            f"{row.seconds:.2f}",
            f"{row.processor_seconds:.2f}",
            f"{row.per_second:,.0f}",
            f"{AIMS[row.engine]:,}" if row.engine in AIMS else "",
            "" if row.instructions is None else f"{row.instructions:,.0f}",
        )
        for row in rows
    ]
    return table(
        "Speed of the simulation, by second of processor; no comparison with the warp model",
        (
            "engine",
            "program",
            "cycles",
            "memory requests",
            "seconds",
            "processor",
            "cycles/second",
            "aim",
            "instructions/cycle",
        ),
        lines,
    )
