"""What issue keeps of an instruction, and what it tells of itself."""

from amaranth.hdl import unsigned
from amaranth.lib import data, enum

from rtl.isa.control_code import GROUP_INSTRUCTIONS, SCOREBOARDS
from rtl.layouts import UNITS

__all__ = ["BUFFERED_GROUPS", "COMPLETE", "COUNTS", "RESULTS", "TIME_BITS", "Control", "Head", "IssueEvents", "Need",
           "Place", "Policy", "WaitReason", "WarpState", "unit_rooms"]

BUFFERED_GROUPS = 2
"""Groups of a warp that issue has room for."""
TIME_BITS = 4
"""Width of the time, which stall counts are compared with."""
COMPLETE, RESULTS = SCOREBOARDS, SCOREBOARDS + 1
"""Behind a warp's scoreboards: whether instructions are not complete, and whether flow results are to come."""
COUNTS = SCOREBOARDS + 2
"""What is counted of a warp."""


def unit_rooms() -> data.StructLayout:
    """The room of each unit beside the lanes."""
    return data.StructLayout(dict.fromkeys(UNITS, 1))


class Policy(enum.Enum, shape=1):
    """Which of the warps that are ready goes first."""

    GREEDY_THEN_OLDEST = 0
    """The one that issued last, unless it offered its turn; else the one that was launched, or that offered its turn,
    the longest time ago."""
    ROUND_ROBIN = 1
    """The one that has not issued for the longest time."""


class WaitReason(enum.Enum, shape=4):
    """Why a warp does not issue."""

    NOT_LIVE = 0
    FLOW = 1
    """Its flow instruction, or its launch, has no result yet."""
    DRAIN = 2
    """Instructions have to be complete, and flow results there, before the next one."""
    RESUME = 3
    """The barrier or the trap unit has not let it go."""
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
    """It can issue: it does, or another warp goes first."""
    TRAP = 10
    """The trap unit does not let it: it enters the trap, leaves it, or is paused in it."""


class WarpState(enum.Enum, shape=3):
    """What a warp's next instruction waits for, beside what the instruction itself says. Where that is a reason of its
    own, it has the number of that reason."""

    DEAD = WaitReason.NOT_LIVE.value
    """It has ended, or was never launched."""
    RESULT = WaitReason.FLOW.value
    """The flow result of the instruction that issued last."""
    DRAIN = WaitReason.DRAIN.value
    """That everything is complete and all flow results are there."""
    RESUME = WaitReason.RESUME.value
    """That a unit lets it go."""
    RUNS = 4
    """Nothing."""
    BEGINS = 5
    """The result of its launch."""
    LIMIT = WaitReason.SCOREBOARD.value
    """That a scoreboard is as low as a DEPBAR.LE says."""


class Need(enum.Enum, shape=3):
    """Of whom an instruction needs room: of nobody, of a unit beside the lanes, or of those who lower scoreboards for
    the lanes."""

    NOTHING = 0
    FLOW = 1
    MEMORY = 2
    CONVERSION = 3
    BARRIER = 4
    TRAP = 5
    EVENTS = 6


assert tuple(need.name.lower() for need in Need)[1:-1] == UNITS


class Place(data.Struct):
    """Where an instruction is among those of its warp: in which group, and there."""

    entry: range(BUFFERED_GROUPS)
    number: range(GROUP_INSTRUCTIONS)


class Head(data.Struct):
    """What decides when an instruction can issue."""

    wait: unsigned(COUNTS)
    """Scoreboards that have to be zero, those of a DEPBAR too; what else of the warp has to be over."""
    waits: unsigned(1)
    """One of ``wait`` is 1."""
    need: Need
    lanes: unsigned(1)
    """It passes the lanes."""
    collected: unsigned(1)
    """Its operands are collected."""
    short: unsigned(1)
    """The warp's next instruction may issue two cycles later."""


class Control(data.Struct):
    """What becomes of the warp when an instruction issues."""

    raises: unsigned(COUNTS)
    """What it raises."""
    rest: unsigned(TIME_BITS)
    """In the cycle after the selection: cycles until the next one may become ready."""
    after: WarpState
    no_yield: unsigned(1)


class IssueEvents(data.Struct):
    """What happened in a cycle, for counters. The reasons are those of live warps when nothing was selected."""

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
