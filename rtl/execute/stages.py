"""The structs between a lane's stages, for one thread.

===========  ===========  ==========================================
from         to           struct
===========  ===========  ==========================================
operands     prepare      :class:`Operands`
prepare      combine      :class:`Prepared`, with a :class:`ShiftPlan`
combine      conclude     :class:`Terms`
combine      bounds       :class:`Unbounded`, of a full lane
bounds       conclude     :class:`Terms`, in place of those of combine
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
    """The operands of a thread."""

    a: unsigned(32)
    b: unsigned(32)
    c: unsigned(32)
    conditions: Flags
    sources: unsigned(3)
    """Predicates x, y and z, negated where the instruction negates them."""
    predicates: unsigned(PT)
    """P0 to P6."""


class ShiftPlan(data.Struct):
    """The shift that the second stage performs.

    In a full lane ``pair`` is shifted to the right by ``amount``; for a shift to the left, by
    ``amount`` + 1. In each bit of the result, the low word of that counts where ``mask`` has a one,
    ``other`` elsewhere. An ordinary lane uses only ``amount``, ``fill`` and ``counts``, see
    word_shift_plan.
    """

    pair: unsigned(64)
    amount: unsigned(5)
    mask: unsigned(32)
    other: unsigned(32)
    outside: unsigned(1)
    """All bits of the word are shifted out: ``mask`` counts as 0."""
    fill: unsigned(1)
    """Of an ordinary lane: the bit that is shifted in."""
    counts: unsigned(1)
    """Of an ordinary lane: the outcome counts; if 0, the result of the shift is 0."""


class Relation(data.Struct):
    """The relation of a and b. If neither is set, a is greater than b."""

    less: unsigned(1)
    """a is less than b, or c less than 0."""
    equal: unsigned(1)
    """a equals b, or c equals 0."""


class Verdict(data.Struct):
    """A decision for each outcome of the comparison of a and b, which is not known yet."""

    less: unsigned(1)
    equal: unsigned(1)
    greater: unsigned(1)


class Prepared(data.Struct):
    """The output of the first stage."""

    a: unsigned(PREPARED_SUM_BITS)
    b: unsigned(32)
    opposite: unsigned(WORD_BYTES)
    """Of a full lane: the bytes of a that the second stage complements; the last one includes the
    bits above it."""
    between: unsigned(WORD_BYTES - 1)
    """Of a full lane: the bits between the bytes of a in the second stage's carry chain. Ones
    propagate the carries of a sum of words. For four differences of bytes they are the ninth bits
    of the lower three, complemented with their bytes; that of the last one is bit 32 of a."""
    low_b: unsigned(16)
    """Of a full lane: the low half of operand b, of which ``b`` may be another part."""
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
    """The thread's decision."""
    opposite_decision: Verdict
    """The opposite decision, joined with the same predicate: the second predicate result."""
    conditions: Flags
    aligned: FloatAligned
    """Of the floating-point unit."""


class Terms(data.Struct):
    """The output of the second stage: the result is the sum of ``x``, ``y`` and ``plus``, or a
    choice of ``x`` and the complement of ``y``."""

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
    """Of a full lane, for instructions of a quarter of the rate: the terms, before BoundStage
    limits x to the bounds of its type and moves it to its place."""

    terms: Terms
    is_negative: unsigned(1)
    """x is below zero."""
    exceeds_word: unsigned(1)
    """x does not fit into 32 bits and a sign."""


class LanePart(data.Struct):
    """The part that the full lanes compute in a cycle: if ``valid``, the thread of lane ``number``
    of each group of lanes."""

    valid: unsigned(1)
    number: range(QUARTERS)


class LaneResult(data.Struct):
    """The results of an instruction for a thread."""

    value: unsigned(32)
    p: unsigned(1)
    q: unsigned(1)
    conditions: Flags
    predicates_written: unsigned(PT)
    """The predicates that are written with the low bits of the value (R2P)."""
