"""What issue keeps of an instruction."""

from amaranth.hdl import unsigned
from amaranth.lib import data, enum

from rtl.isa.control_code import GROUP_INSTRUCTIONS, SCOREBOARDS
from rtl.layouts import UNITS

__all__ = ["BUFFERED_GROUPS", "COMPLETE", "COUNTS", "NEEDS", "RESULTS", "TIME_BITS", "After", "Control", "Head", "Need",
           "Place"]

BUFFERED_GROUPS = 2
"""Groups of a warp that issue has room for."""
TIME_BITS = 4
"""Width of the time, which stall counts are compared with."""
COMPLETE, RESULTS = SCOREBOARDS, SCOREBOARDS + 1
"""Behind a warp's scoreboards: whether instructions are not complete, and whether flow results are to come."""
COUNTS = SCOREBOARDS + 2
"""What is counted of a warp."""


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


NEEDS = len(Need)
assert tuple(need.name.lower() for need in Need)[1:] == (*UNITS, "events")


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


class After(data.Struct):
    """What the instruction behind one waits for, beside what it says itself."""

    results: unsigned(1)
    """All flow results."""
    drain: unsigned(1)
    """That everything is complete and all flow results are there, since the cycle before."""
    resume: unsigned(1)
    """That a unit lets the warp go."""
    limit: unsigned(1)
    """That a scoreboard is as low as a DEPBAR.LE says."""


class Control(data.Struct):
    """What becomes of the warp when an instruction issues."""

    raises: unsigned(COUNTS)
    """What it raises."""
    rest: unsigned(TIME_BITS)
    """In the cycle after the selection: cycles until the next one may become ready."""
    after: After
    no_yield: unsigned(1)
