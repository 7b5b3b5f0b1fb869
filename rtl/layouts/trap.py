"""What the trap unit and the host, and the error status, hand to each other."""

from amaranth.hdl import unsigned
from amaranth.lib import data

from rtl.isa.trap_status import TRAP_REASONS
from rtl.params import SmParams

__all__ = [
    "TIMEOUT_BITS",
    "TrapCommand",
    "TrapEvents",
    "TrapReport",
    "TrapStatus",
]

TIMEOUT_BITS = 6
"""Width of the number of the watchdog's bit."""


class TrapCommand(data.StructLayout):
    """What the host has set.

    Fields
    ------
    installed, handler : 1, 32
        There is a trap handler, at this pc.
    stop, step : 1, 1
        The stop trigger, and single steps, as long as they are 1.
    wake : warps
        For one cycle: wakes these warps.
    timeout : 6
        The watchdog's bit; 0: none.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "installed": 1,
            "handler": 32,
            "stop": 1,
            "step": 1,
            "wake": params.warps,
            "timeout": TIMEOUT_BITS,
        })


class TrapEvents(data.Struct):
    """What has happened, for one cycle; bits of the global error status."""

    interrupt: unsigned(1)
    """BPT.INT."""
    pause: unsigned(1)
    """A warp is paused, not quietly."""
    step: unsigned(1)
    """A single step is complete."""
    error_in_trap: unsigned(1)
    timeout: unsigned(1)


class TrapReport(data.StructLayout):
    """A BPT.TRAP: its reason and warp, and ``pc`` of the next instruction."""

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "warp": params.warp_bits,
            "pc": 32,
            "reason": range(TRAP_REASONS.stop),
        })


class TrapStatus(data.StructLayout):
    """The state of the trap.

    Fields
    ------
    trapping : 1
        The multiprocessor is trapped.
    locked_down : 1
        It is trapped, and no warp runs.
    paused, trapped : warps, warps
        Those that are paused; those that have executed a BPT.TRAP since they began, left a trap
        last, or read their status by the register that clears it.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "trapping": 1,
            "locked_down": 1,
            "paused": params.warps,
            "trapped": params.warps,
        })
