"""The issue unit's policy, its limits and its events."""

from amaranth.hdl import unsigned
from amaranth.lib import data, enum

from .kinds import UNITS

__all__ = ["COMPLETING", "UNDER_WAY", "IssueEvents", "Policy", "WaitReason", "unit_rooms"]

COMPLETING = ("conversion", "memory", "barrier")
"""Units beside the lanes whose completions release scoreboards. The conversion unit has at most one
every two cycles, the memory unit one every three, the barrier unit one every six."""
UNDER_WAY = 6
"""Instructions that may still be dispatched to a unit after it has cleared its ``room``: those that
are between selection and dispatch."""


def unit_rooms() -> data.StructLayout:
    """The room of each unit beside the lanes: it can accept UNDER_WAY more instructions."""
    return data.StructLayout(dict.fromkeys(UNITS, 1))


class Policy(enum.Enum, shape=1):
    """Which of the ready warps has priority. A warp offers its turn by an instruction whose control
    code lets the scheduler switch warps (``no_yield`` is 0)."""

    GREEDY_THEN_OLDEST = 0
    """The one that issued last, unless it offered its turn; else the one that started, or that
    offered its turn, the longest time ago. With more than 8 warps the order is approximate."""
    ROUND_ROBIN = 1
    """The one that has not issued for the longest time. With more than 8 warps the order is
    approximate."""


class WaitReason(enum.Enum, shape=4):
    """Why a warp does not issue."""

    NOT_LIVE = 0
    FLOW = 1
    """Its flow instruction, or its launch, has no result yet."""
    DRAIN = 2
    """Earlier instructions have to be complete, and their flow results to arrive, before the next
    instruction."""
    RESUME = 3
    """The barrier unit or the trap unit has not resumed it."""
    FETCH = 4
    """Its next instruction has not been fetched."""
    STALL = 5
    """The last instruction's stall count has not run out; or the warp has issued in the cycle
    before, since it issues at most every second cycle. Goes before FETCH: an instruction that came
    sooner would wait as well."""
    SCOREBOARD = 6
    """Scoreboards that it waits for are not 0."""
    LANES = 7
    """Another instruction or operation occupies the lanes."""
    UNIT = 8
    """The unit that executes it has no room."""
    READY = 9
    """It can issue: it does, or another warp has priority."""
    TRAP = 10
    """The trap unit holds it: it is to enter the trap, has done its single step, is paused by an
    error, or is in the trap without a frame. FLOW, DRAIN and RESUME have precedence: a warp at RTT
    or BPT.PAUSE has RESUME until it is woken or its LEAVE issues."""


class IssueEvents(data.Struct):
    """What happened in a cycle, for counters. The flags from ``stall`` on are set, in a cycle in
    which nothing was selected, if some live warp has that WaitReason."""

    issued: unsigned(1)
    operation: unsigned(1)
    """An operation of a unit was granted the lanes."""
    idle: unsigned(1)
    """Neither."""
    stall: unsigned(1)
    scoreboard: unsigned(1)
    lanes: unsigned(1)
    unit: unsigned(1)
    fetch: unsigned(1)
    held: unsigned(1)
