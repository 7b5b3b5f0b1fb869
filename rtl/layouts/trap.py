"""The trap unit: its interfaces to the host, the error status, issue and execute."""

from amaranth.hdl import unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.trap_status import TRAP_REASONS, WarpStatus
from rtl.params import SmParams

__all__ = [
    "TIMEOUT_BITS",
    "TrapCommand",
    "TrapEvents",
    "TrapReport",
    "TrapStatus",
    "WarpControl",
    "WarpStatusPort",
]

TIMEOUT_BITS = 6
"""Width of the number of the watchdog's bit."""


class TrapCommand(data.StructLayout):
    """The host's settings and commands.

    Fields
    ------
    installed, handler : 1, 32
        There is a trap handler, at this pc.
    stop, step : 1, 1
        The stop trigger, and single steps; in effect while they are 1.
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
    """A warp is paused, other than by BPT.PAUSE_QUIET."""
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
        The warps that are paused. The warps that have executed a BPT.TRAP; the bit is cleared when
        the warp is launched, leaves the trap, or reads SR_WARPERRORSTATUSCLEAR.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "trapping": 1,
            "locked_down": 1,
            "paused": params.warps,
            "trapped": params.warps,
        })


class WarpControl(wiring.Signature):
    """The trap unit's control of issue, a bit a warp; directions are those of the trap unit.

    Members
    -------
    hold : Out(warps)
        The warp issues nothing but an ENTER or a LEAVE.
    enter, leave : Out(warps)
        Issue injects an ENTER or a LEAVE in place of the warp's next instruction, as soon as that
        could issue. Never both.
    live : In(warps)
        The warp has been launched and has not ended.
    taken : In(warps)
        An instruction of the warp is selected, other than ENTER or LEAVE.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "hold": Out(params.warps),
            "enter": Out(params.warps),
            "leave": Out(params.warps),
            "live": In(params.warps),
            "taken": In(params.warps),
        })


class WarpStatusPort(wiring.Signature):
    """What S2R reads of traps and errors; directions are those of the reading unit.

    Members
    -------
    warp : Out
        The warp whose status is read.
    clear : Out(1)
        The instruction that reads it also clears it: it reads SR_WARPERRORSTATUSCLEAR.
    status : In(WarpStatus)
        Of this warp.
    all_status : In(32)
        Of all warps. While some warp has trapped, it may still have the reasons of warps that have
        left the trap, for up to two rounds of the trap unit's StatusScan.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "warp": Out(params.warp_bits),
            "clear": Out(1),
            "status": In(WarpStatus),
            "all_status": In(32),
        })
