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
    """What the host wants. ``handler`` is its pc, if ``installed``. ``stop`` and ``step`` hold as long as they are 1;
    for one cycle: ``wake`` wakes these warps. ``timeout``: the watchdog's bit, 0 for none."""

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "installed": 1, "handler": 32, "stop": 1, "step": 1, "wake": params.warps, "timeout": TIMEOUT_BITS})


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
    """A BPT.TRAP, for one cycle: its reason and warp, and ``pc`` of the next instruction."""

    def __init__(self, params: SmParams) -> None:
        super().__init__({"valid": 1, "warp": params.warp_bits, "pc": 32, "reason": range(TRAP_REASONS.stop)})


class TrapStatus(data.StructLayout):
    """How it stands. ``trapping``: the multiprocessor is trapped. ``locked_down``: and nothing goes on. ``paused``,
    ``trapped``: warps that are paused, and that have executed a BPT.TRAP since they last left a trap."""

    def __init__(self, params: SmParams) -> None:
        super().__init__({"trapping": 1, "locked_down": 1, "paused": params.warps, "trapped": params.warps})
