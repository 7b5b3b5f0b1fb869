"""Programs for the tests of reset: together they use every part with a state of its own."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from sim.firmware.switching import GridSwitch
from sim.launch import Launch
from sim.launch.memory import Memory
from sim.machine.host import Driver
from testbench.kernels.manifest import RUNS, build
from testbench.trap.programs import CLOBBER, kernel, with_handler

__all__ = ["PROGRAMS", "Program"]

_SWITCH_AFTER, _SWITCH_LIMIT = 1300, 1_000_000
"""Cycles until the host preempts a grid, before any of its warps has ended, and the timeout of the
preemption.
"""
_ROUNDS = 6
_TOKENS = 40


@dataclass(frozen=True)
class Program:
    """A launch for the tests of reset.

    Attributes:
        driver: The host during the run; None for a passive one.
        resumed: Makes the launch that continues from the memory of this one; None if there is none.
    """

    launch: Launch
    driver: Driver | None = None
    resumed: Callable[[Memory], Launch] | None = None


def _spilling() -> Launch:
    """Two warps whose stacks grow to ten lines and shrink again; four lines of each are on chip."""
    tokens = range(_TOKENS)
    return kernel(
        *(f"SSY met{number}" for number in reversed(tokens)),
        *(line for number in tokens for line in ("SYNC", f"met{number}:")),
        "EXIT",
        warps=2,
        crs=1024,
    )


def _trapping() -> Launch:
    """Two warps that trap in turn, a few times; all enter the handler, whose threads diverge and
    reconverge.
    """
    return with_handler(
        kernel(
            f"MOV32I R4, {_ROUNDS}",
            "PBK away",
            "again:",
            "BPT.TRAP 0x1",
            "IADD32I R4, R4, -0x1",
            "ISETP.NE.U32.AND P0, PT, R4, RZ, PT",
            "@!P0 BRK",
            "BRA again",
            "away:",
            "EXIT",
            warps=2,
            crs=1024,
        ),
        *CLOBBER,
    )


def _switched() -> Program:
    """A preempted grid: a trap handler saves and ends its warps, which leaves the machine stopped.
    Then the grid is resumed.
    """
    switch = GridSwitch(build(RUNS["k18_atomics_global"], "O3"), _SWITCH_AFTER, _SWITCH_LIMIT)
    return Program(switch.launch, switch.drive, switch.resumed)


PROGRAMS: Mapping[str, Callable[[], Program]] = MappingProxyType(
    {
        "spills": lambda: Program(_spilling()),
        "barriers": lambda: Program(build(RUNS["k44_bar_variants"], "O3")),
        "traps": lambda: Program(_trapping()),
        "atomics": lambda: Program(build(RUNS["k18_atomics_global"], "O3")),
        "context switch": _switched,
    }
)
"""The functions that make programs, by name."""
