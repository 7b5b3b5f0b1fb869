"""What the parts of the trap unit hand to each other.

===============  ==================================  ==========================
from             to                                  type
===============  ==================================  ==========================
WarpTraps        SmTrap, ReturnPoints, StatusScan    :class:`WarpTrapView`
WarpTraps        SmTrap, and back                    :class:`SmTrapLink`
WarpTraps        unit                                :class:`WarpTrapEvents`
unit, decoder    WarpTraps                           :func:`executed_operation`
decoder, unit    StatusScan                          :func:`trap_reason`
ReturnPoints     ErrorLog                            :func:`trap_passage`
===============  ==================================  ==========================
"""

from amaranth.hdl import unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.trap_status import TRAP_REASONS
from rtl.params import SmParams

from .operations import TrapOperation

__all__ = [
    "SmTrapLink",
    "WarpTrapChanges",
    "WarpTrapEvents",
    "WarpTrapState",
    "WarpTrapView",
    "executed_operation",
    "trap_passage",
    "trap_reason",
]


class WarpTrapState(data.StructLayout):
    """Where each warp is, how it is paused, and why it traps: a bit a warp of everything, in
    registers.

    Fields
    ------
    inside : warps
        From the dispatch of its ENTER until the result of its LEAVE.
    bare : warps
        Inside, without a trap frame: it runs no handler, and its release takes no LEAVE.
    waits, leaving : warps, warps
        It waits at RTT; issue is requested to dispatch its LEAVE, or has done so.
    paused, quiet : warps, warps
        The warp is paused; its last pause was BPT.PAUSE_QUIET's, even if it was woken since.
    halted : warps
        It is paused by an instruction after which issue waits for ``resume`` (of kind TRAP or
        BARRIER), so waking it must resume it. After errors of other instructions issue does not
        wait.
    masked : warps
        Its causes that can be masked wait.
    failed, trapped, stepped : warps, warps, warps
        They hold until the warp leaves, its status is cleared by S2R, or the slot gets another
        warp. ``failed``: it has had an error outside. ``trapped``: it has executed a BPT.TRAP
        outside. ``stepped``: it has entered after its single step.
    stepping, done : warps, warps
        It has one instruction until its step is done; it has issued that one, which is a cause.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "inside": params.warps,
            "bare": params.warps,
            "waits": params.warps,
            "leaving": params.warps,
            "paused": params.warps,
            "quiet": params.warps,
            "halted": params.warps,
            "masked": params.warps,
            "failed": params.warps,
            "trapped": params.warps,
            "stepped": params.warps,
            "stepping": params.warps,
            "done": params.warps,
        })


class WarpTrapChanges(data.StructLayout):
    """What this cycle changes, or is to change; a bit a warp of everything.

    Fields
    ------
    enters : warps
        It has to enter. A warp that waits at a barrier does not enter yet.
    entered : warps
        Its ENTER is dispatched.
    ended : warps
        It begins (a warp_launch), or ends (a flow result).
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "enters": params.warps,
            "entered": params.warps,
            "ended": params.warps,
        })


class WarpTrapView(wiring.Signature):
    """The states of the warps for the other parts of the unit; directions are those of WarpTraps.

    Members
    -------
    state : Out(WarpTrapState)
    changes : Out(WarpTrapChanges)
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "state": Out(WarpTrapState(params)),
            "changes": Out(WarpTrapChanges(params)),
        })


class WarpTrapEvents(data.Struct):
    """The TrapEvents that follow from the warps' states."""

    pause: unsigned(1)
    step: unsigned(1)
    error_in_trap: unsigned(1)


class SmTrapLink(wiring.Signature):
    """What WarpTraps and SmTrap exchange beside the states of the warps; directions are those of
    WarpTraps.

    Members
    -------
    cause : Out(1)
        Some warp has a cause for a trap.
    insisting : Out(1)
        The same, for a cause that warps cannot mask: all warps have to enter.
    trapping : In(1)
        The multiprocessor is trapped: from the cycle after a cause or the stop trigger on.
    urgent : In(1)
        This trap has had a cause that warps cannot mask: warps that mask causes enter as well.
    release : In(1)
        For one cycle: the warps that wait at RTT leave, and those without a frame that are not
        paused.
    """

    def __init__(self) -> None:
        super().__init__({
            "cause": Out(1),
            "insisting": Out(1),
            "trapping": In(1),
            "urgent": In(1),
            "release": In(1),
        })


def executed_operation(params: SmParams) -> data.StructLayout:
    """What an instruction, an ENTER or a LEAVE does to its warp.

    Fields
    ------
    warp : warp_bits
    outside, inside : TrapOperation
        What it does if its warp is outside the trap, and if it is inside; GO_ON for an instruction
        with an error. Both are known before it is known where the warp is.
    is_refused : 1
        The instruction has an error that is reported: its warp does not continue. Read with GO_ON
        alone, so that the report mask is on no path from the other operations.
    """
    return data.StructLayout({
        "warp": params.warp_bits,
        "outside": TrapOperation,
        "inside": TrapOperation,
        "is_refused": 1,
    })


def trap_reason(params: SmParams) -> data.StructLayout:
    """A BPT.TRAP outside the trap: its warp, and its reason as a bit."""
    return data.StructLayout({"warp": params.warp_bits, "reason": len(TRAP_REASONS)})


def trap_passage(params: SmParams) -> data.StructLayout:
    """A warp enters the trap, or, if not ``enters``, leaves it."""
    return data.StructLayout({"warp": params.warp_bits, "enters": 1})
