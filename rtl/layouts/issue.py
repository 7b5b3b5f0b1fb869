"""The issue unit's policy, its limits and its events."""

from amaranth.hdl import unsigned
from amaranth.lib import data, enum

from .kinds import UNITS

__all__ = ["COMPLETING", "UNDER_WAY", "IssueEvents", "Policy", "WaitReason", "unit_rooms"]

COMPLETING = ("conversion", "memory", "barrier")
"""Units that tell of completions beside the lanes. A conversion may complete every two cycles, a
memory instruction every three, one of the barrier unit every six."""
UNDER_WAY = 6
"""Instructions that may still come to a unit after it has told that it has no room: those between
selection and dispatch."""


def unit_rooms() -> data.StructLayout:
    """The room of each unit beside the lanes: it can take UNDER_WAY instructions more than it was
    given."""
    return data.StructLayout(dict.fromkeys(UNITS, 1))


class Policy(enum.Enum, shape=1):
    """Which of the ready warps issues first."""

    GREEDY_THEN_OLDEST = 0
    """The one that issued last, unless it offered its turn; else the one that began, or that
    offered its turn, the longest time ago; with more than 8 warps approximately so."""
    ROUND_ROBIN = 1
    """The one that has not issued for the longest time; with more than 8 warps approximately so."""


class WaitReason(enum.Enum, shape=4):
    """Why a warp does not issue."""

    NOT_LIVE = 0
    FLOW = 1
    """Its flow instruction, or its launch, has no result yet."""
    DRAIN = 2
    """Instructions have to be complete, and flow results there, before the next one."""
    RESUME = 3
    """The barrier unit or the trap unit has not resumed it."""
    FETCH = 4
    """Its next instruction is not there."""
    STALL = 5
    """The last instruction's stall count has not run out."""
    SCOREBOARD = 6
    """Scoreboards that it waits for are not down."""
    LANES = 7
    """Others have the lanes."""
    UNIT = 8
    """The unit that executes it has no room."""
    READY = 9
    """It can issue: it does, or another warp has priority."""
    TRAP = 10
    """The trap unit does not let it: it is to enter the trap, has done its single step, is paused
    by an error, or is in the trap without a frame. FLOW, DRAIN and RESUME are told first: RESUME of
    a warp at RTT or BPT.PAUSE, until it is woken or its LEAVE issues."""


class IssueEvents(data.Struct):
    """What happened in a cycle, for counters. The reasons are those of live warps when nothing was
    selected."""

    issued: unsigned(1)
    operation: unsigned(1)
    """An operation of a unit went to the lanes."""
    idle: unsigned(1)
    """Neither."""
    stall: unsigned(1)
    scoreboard: unsigned(1)
    lanes: unsigned(1)
    unit: unsigned(1)
    fetch: unsigned(1)
    held: unsigned(1)
