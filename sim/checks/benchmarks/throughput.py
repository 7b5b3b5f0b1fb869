"""Throughput of the lanes: independent integer work of several warps, from the instruction cache."""

from dataclasses import asdict, dataclass
from typing import Any

from tqdm import tqdm

from rtl.params import SmParams
from sim.checks.benchmarks.machine import BenchmarkMachine, LoopKernel
from sim.checks.benchmarks.table import table

__all__ = [
    "AIM",
    "WARPS",
    "ThroughputRow",
    "throughput_loop",
    "throughput_table",
    "throughput_text",
]

AIM = 0.95
"""The target of both fractions."""
WARPS = 8
"""Number of warps of the measurement, limited by the machine's."""
_WORK = (
    "IADD {0}, R20, R21",
    "LOP.XOR {0}, R22, R23",
    "SHL {0}, R20, 0x3",
    "IADD3 {0}, R20, R21, R22",
    "LEA {0}, R21, R22, 0x2",
    "XMAD {0}, R20, R21, R22",
)
"""Independent instructions: sources that are not written, another destination for each.

All lanes can execute these at full rate; instructions of a quarter of the rate are among the
classes.
"""
_DESTINATIONS = range(1, 13)
_GIVEN = ("[S6]", "[S13]", "[S13]")
_LENGTH = 120
"""Instructions of the loop's body, which fit into the instruction cache of every preset."""
_BRANCHES = 1
"""Number of branches among the loop's instructions; they do not use the lanes."""


@dataclass(frozen=True)
class ThroughputRow:
    """Instructions of a loop, and cycles. ``busy`` is the fraction of cycles, 0 to 1, in which the
    lanes work.
    """

    control_codes: str
    warps: int
    lanes: int
    instructions: int
    cycles: int
    busy: float
    idle: int
    stalls: dict[str, int]

    @property
    def per_cycle(self) -> float:
        """Warp instructions per cycle."""
        return self.instructions / self.cycles

    def record(self) -> dict[str, Any]:
        """Returns the row for JSON."""
        return asdict(self) | {"instructions_per_cycle": self.per_cycle, "aim": AIM}


def throughput_loop(fixed_stall: bool) -> LoopKernel:
    """Returns the loop, with fixed stall counts of 1 or with those that the assembler chooses."""
    code = "[S1] " if fixed_stall else ""
    body = "\n".join(
        code + _WORK[number % len(_WORK)].format(f"R{_DESTINATIONS[number % len(_DESTINATIONS)]}")
        for number in range(_LENGTH)
    )
    return LoopKernel("throughput", body, tail=_GIVEN if fixed_stall else ("", "", ""))


def throughput_table(
    machine: BenchmarkMachine, iterations: tuple[int, int] = (4, 40)
) -> list[ThroughputRow]:
    """Returns the rows with fixed stall counts and with the control codes of the assembler."""
    warps = min(WARPS, machine.params.warps)
    rows = []
    for fixed_stall, name in tqdm(
        ((True, "given, stall 1"), (False, "assembler's")), unit=" loops", disable=None, leave=False
    ):
        gained = machine.steady(throughput_loop(fixed_stall).module(), warps, iterations)
        branches = (iterations[1] - iterations[0]) * warps * _BRANCHES
        busy = (gained["instructions"] - branches) * machine.params.beats / gained["cycles"]
        stalls = {key: value for key, value in gained.items() if key.startswith("wait_")}
        rows.append(
            ThroughputRow(
                name,
                warps,
                machine.params.lanes,
                gained["instructions"],
                gained["cycles"],
                busy,
                gained["idle"],
                stalls,
            )
        )
    return rows


def throughput_text(rows: list[ThroughputRow], params: SmParams) -> str:
    """Returns the rows as a table of text."""
    lines = [
        (
            row.control_codes,
            f"{row.instructions:,}",
            f"{row.cycles:,}",
            f"{row.busy:.3f}",
            f"{row.per_cycle:.3f}",
            f"{AIM / params.beats:.3f}",
        )
        for row in rows
    ]
    return table(
        f"Independent integer work, {rows[0].warps} warps, {params.lanes} lanes. Lanes busy: aim {AIM}",
        ("control codes", "instructions", "cycles", "lanes busy", "instructions/cycle", "aim"),
        lines,
    )
