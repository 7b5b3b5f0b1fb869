"""What the parts of a lane that computes a byte in a cycle send each other."""

from amaranth.hdl import unsigned
from amaranth.lib import data

from rtl.execute.control import LaneControl
from rtl.execute.stages import Operands

__all__ = [
    "TERM_BITS",
    "ByteOperands",
    "Difference",
    "FirstTermResult",
    "ThreadDecision",
    "ThreadWork",
]

TERM_BITS = 34
"""A sum of three words, without its sign."""


class ThreadWork(data.Struct):
    """What is computed for a thread. It stays the same from the thread's first step until its
    result is valid."""

    control: LaneControl
    operands: Operands
    executes: unsigned(1)
    """The thread executes the instruction; otherwise the value of its result is 0."""


class ByteOperands(data.Struct):
    """In each step a byte of each operand: of its part, complemented where the control requires
    it."""

    a: unsigned(8)
    """Of a; of c where that is the low word of a pair; the byte that a permutation picks."""
    b: unsigned(8)
    """While operands are prepared 0, unless a and b are added or subtracted; while the first term
    is made b, as a factor or in logic; then what is added to c in the final sum."""
    c: unsigned(8)
    """Of the addend of a product or of the final sum, without the bytes that a video instruction
    replaces."""
    raw_b: unsigned(8)
    """Of b and c, unchanged."""
    raw_c: unsigned(8)
    b_is_inside: unsigned(1)
    """The byte is one of the part of b, not of its sign."""
    a_is_negative: unsigned(1)
    """The operand is signed, and its sign up to this byte; held after the last byte. Likewise
    below."""
    b_is_negative: unsigned(1)


class Difference(data.Struct):
    """The difference of a and b; or c, where that is compared with zero."""

    is_below_zero: unsigned(1)
    is_zero: unsigned(1)


class ThreadDecision(data.Struct):
    """The decision of a thread, as a lane makes it from the comparison of a and b, and from a
    predicate."""

    less: unsigned(1)
    """How a and b relate, with higher words of them where the comparison continues."""
    equal: unsigned(1)
    decision: unsigned(1)
    opposite: unsigned(1)
    """The opposite, joined with the same predicate."""


class FirstTermResult(data.Struct):
    """The first term of the final sum, when all its steps are done."""

    term: unsigned(TERM_BITS)
    low_byte: unsigned(8)
    """The byte below it."""
    is_negative: unsigned(1)
    """It was below zero before it was cut to a word."""
    exceeds_type: unsigned(1)
    """It had bits other than its sign above those of its type."""
    product_is_zero: unsigned(1)
    """The low word of the product is zero."""
