"""What issue keeps of an instruction."""

from amaranth.hdl import unsigned
from amaranth.lib import data

from rtl.isa.control_code import GROUP_INSTRUCTIONS, SCOREBOARDS
from rtl.layouts import UNITS
from rtl.params import SmParams

__all__ = ["BUFFERED_GROUPS", "COMPLETE", "COUNTER_BITS", "COUNTS", "NEEDS", "RESULTS", "TIME_BITS", "After", "Control",
           "Head", "Place", "counted"]

BUFFERED_GROUPS = 2
"""Groups of a warp that issue has room for."""
TIME_BITS = 6
"""Width of the time, which stall counts are compared with, and what takes their place."""
COUNTER_BITS = 6
COMPLETE, RESULTS = SCOREBOARDS, SCOREBOARDS + 1
"""Behind a warp's scoreboards: whether instructions are not complete, and whether flow results are to come."""
COUNTS = SCOREBOARDS + 2
"""What is counted of a warp."""
NEEDS = (None, *UNITS, "events")
"""Of whom an instruction needs room: of nobody, of a unit beside the lanes, or of those who lower scoreboards for the
lanes."""


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
    need: range(len(NEEDS))
    lanes: unsigned(1)
    """It passes the lanes."""
    collected: unsigned(1)
    """Its operands are collected."""
    quarter: unsigned(1)
    """It passes the full lanes only."""
    short: unsigned(1)
    """The warp's next instruction may issue two cycles later."""


class After(data.Struct):
    """What the instruction behind one waits for, beside what it says itself: all flow ``results``; that all those are
    there and everything is complete, since the cycle before (``drain``); that a unit lets the warp go (``resume``);
    that a scoreboard is as low as a DEPBAR.LE says (``limit``)."""

    results: unsigned(1)
    drain: unsigned(1)
    resume: unsigned(1)
    limit: unsigned(1)


class Control(data.Struct):
    """What becomes of the warp when an instruction issues."""

    raises: unsigned(COUNTS)
    """What it raises."""
    rest: unsigned(TIME_BITS)
    """In the cycle after the selection: cycles until the next one may become ready."""
    after: After
    no_yield: unsigned(1)


def counted(params: SmParams) -> data.StructLayout:
    """An instruction that leaves: what it ``raises``; if it is a DEPBAR.LE (``limits``), its warp waits until a
    ``scoreboard`` is at ``most``."""
    return data.StructLayout({"warp": params.warp_bits, "raises": COUNTS, "limits": 1,
                              "scoreboard": range(SCOREBOARDS), "most": COUNTER_BITS})
