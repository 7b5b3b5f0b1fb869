"""What a lane's stages hand to each other, for one thread.

===========  ===========  ==========================================
from         to           struct
===========  ===========  ==========================================
operands     prepare      :class:`Operands`
prepare      combine      :class:`Prepared`, with a :class:`ShiftPlan`
combine      conclude     :class:`Terms`
combine      bounds       :class:`Unbounded`; those hand on Terms
conclude     write-back   :class:`LaneResult`
===========  ===========  ==========================================
"""

from amaranth.hdl import Cat, Value, signed, unsigned
from amaranth.lib import data

from rtl.isa.condition import Flags
from rtl.isa.syntax import PT
from rtl.params import QUARTERS

from .float_window import FloatAligned

__all__ = [
    "FACTOR_BITS",
    "PREPARED_SUM_BITS",
    "WORD_BYTES",
    "LanePart",
    "LaneResult",
    "Operands",
    "Prepared",
    "Relation",
    "ShiftPlan",
    "Terms",
    "Unbounded",
    "Verdict",
    "without_gaps",
]

FACTOR_BITS = 17
"""A half word with a sign bit."""
PREPARED_SUM_BITS = 34
"""A sum of three words; a difference of two, one of them signed."""
WORD_BYTES = 4


def without_gaps(spread: Value, pitch: int) -> Value:
    """A sum's 34 bits without the gaps between its bytes, of which one begins every ``pitch``
    places."""
    last = pitch * (WORD_BYTES - 1)
    lower = (spread[at:at + 8] for at in range(0, last, pitch))
    return Cat(*lower, spread[last:last + 10])


class Operands(data.Struct):
    """What a thread's instruction computes with."""

    a: unsigned(32)
    b: unsigned(32)
    c: unsigned(32)
    conditions: Flags
    sources: unsigned(3)
    """Predicates x, y and z, negated where the instruction says so."""
    predicates: unsigned(PT)
    """P0 to P6."""


class ShiftPlan(data.Struct):
    """A shift to come.

    In a full lane ``pair`` is shifted to the right by ``amount``, by one more in shifts to the
    left. The result is the low word of that where ``mask`` has ones, ``other`` elsewhere.
    """

    pair: unsigned(64)
    amount: unsigned(5)
    mask: unsigned(32)
    other: unsigned(32)
    outside: unsigned(1)
    """Nothing of the word remains."""
    fill: unsigned(1)
    """Of an ordinary lane, which shifts a as it is prepared: what is shifted in."""
    counts: unsigned(1)
    """Of an ordinary lane: the outcome is not 0."""


class Relation(data.Struct):
    """How a and b compare; neither: a is greater."""

    less: unsigned(1)
    """a is less than b, or c less than 0."""
    equal: unsigned(1)
    """a equals b, or c equals 0."""


class Verdict(data.Struct):
    """What is true where a is less than b, where they are equal, and elsewhere."""

    less: unsigned(1)
    equal: unsigned(1)
    greater: unsigned(1)


class Prepared(data.Struct):
    """After the first stage."""

    a: unsigned(PREPARED_SUM_BITS)
    b: unsigned(32)
    opposite: unsigned(WORD_BYTES)
    """Of a full lane: the bytes of a that are still to be complemented, of the last one with all
    that is above it."""
    between: unsigned(WORD_BYTES - 1)
    """Of a full lane: what stands between the bytes of a in a chain of carries. Ones let carries
    pass; of four differences it is their ninth bits, complemented as they are, the last of which is
    a's 32nd."""
    low_b: unsigned(16)
    """Of a full lane: the low half of operand b, whatever part of it is selected."""
    c: unsigned(33)
    addend: unsigned(33)
    """Of a full lane: what is added to the product of words, with its sign."""
    one_more: unsigned(1)
    """One is added to the sum of a and b."""
    negative_a: unsigned(1)
    """The operand is signed and below zero; b likewise."""
    negative_b: unsigned(1)
    shift: ShiftPlan
    picks: data.ArrayLayout(4, 4)
    """For each byte of a permutation, the number of its source; bit 3 repeats its sign."""
    products: data.ArrayLayout(signed(2 * FACTOR_BITS), 4)
    """Low by low half, low half of a by high of b, high by low, high by high."""
    relation: Relation
    decision: Verdict
    """What the thread decides."""
    opposite_decision: Verdict
    """The opposite, joined with the same predicate."""
    conditions: Flags
    aligned: FloatAligned
    """Of the floating-point unit."""


class Terms(data.Struct):
    """After the second stage: the result is a sum of ``x``, ``y`` and ``plus``, or one of both."""

    x: unsigned(PREPARED_SUM_BITS)
    y: unsigned(33)
    plus: unsigned(1)
    low_byte: unsigned(8)
    """The highest byte of the low word of a shifted pair."""
    b: unsigned(16)
    decision: unsigned(1)
    opposite: unsigned(1)
    relation: Relation
    conditions: Flags


class Unbounded(data.Struct):
    """Of a full lane, for what passes such lanes only: the terms, whose x is not within its bounds
    yet, and not in its place."""

    terms: Terms
    is_negative: unsigned(1)
    """x is below zero."""
    exceeds_word: unsigned(1)
    """x has more than 32 bits and a sign."""


class LanePart(data.Struct):
    """What the full lanes do in a cycle: if ``valid``, thread ``number`` of each four."""

    valid: unsigned(1)
    number: range(QUARTERS)


class LaneResult(data.Struct):
    """What an instruction gives for a thread."""

    value: unsigned(32)
    p: unsigned(1)
    q: unsigned(1)
    conditions: Flags
    predicates_written: unsigned(PT)
    """Those that take the low bits of the value."""
