"""The control signals of a lane, which all lanes share.

A lane computes two terms, x and y, in its first two stages; the third adds them, and selects the
result. The decoder sets these fields. A field that an instruction does not use is 0; if it has no
effect there (WITHOUT_EFFECT_UNLESS in rtl.execute.operations) it is undefined.
"""

from amaranth.hdl import unsigned
from amaranth.lib import data, enum

from rtl.isa.kinds import Boolean, Compare, PermuteMode, SumShift

from .float_control import FloatControl

__all__ = [
    "FirstTerm",
    "LaneControl",
    "LaneControls",
    "Part",
    "PredicateResult",
    "ProductPart",
    "ResultBits",
    "ShiftCount",
    "Truth",
]


class Part(enum.Enum, shape=3):
    """The part of a source word that is the operand; the first three are those of
    :class:`~rtl.isa.kinds.HalfSelect`. A part of a or b is extended with its sign if the operand is
    signed (``signed_a``, ``signed_b``), else with zeros."""

    WORD = 0
    LOW = 1
    HIGH = 2
    REVERSED = 3
    """The bits in reverse order; only of a."""
    BYTE_0 = 4
    BYTE_1 = 5
    BYTE_2 = 6
    BYTE_3 = 7


class ShiftCount(enum.Enum, shape=2):
    """The source of the shift count."""

    FIXED = 0
    """The constant ``shift`` of the instruction."""
    WORD = 1
    """Operand b."""
    BYTE = 2
    """The lowest byte of b; the next byte is the length of a field."""


class ProductPart(enum.Enum, shape=3):
    """The word of a product that is used."""

    LOW = 0
    HIGH = 1
    HALVES = 2
    """The product of two halves."""
    SCALED_7 = 3
    """The low word of the product after a shift to the right, by 7; likewise below, by 15."""
    SCALED_15 = 4


class FirstTerm(enum.Enum, shape=3):
    """The source of x, the first term of the final sum."""

    LOGIC = 0
    SHIFT = 1
    PERMUTATION = 2
    PRODUCT = 3
    SUM = 4
    """The sum of the first two operands."""
    DISTANCES = 5
    """The sum of four bytes' distances."""


class ResultBits(enum.Enum, shape=2):
    """The low bits of a video instruction's first result that are inserted into c, or all of
    them."""

    WORD = 0
    HALF = 1
    BYTE = 2


class Truth(enum.Enum, shape=2):
    """The source of a thread's decision, before it is combined with a predicate. The predicate is
    x, except with PREDICATES."""

    PREDICATES = 0
    """Predicates x and y, combined by ``combine_first``; the predicate is z."""
    RELATION = 1
    """A relation of a and b."""
    SIGN = 2
    """A relation of c and zero."""
    CONDITION = 3
    """A test of CC."""


class PredicateResult(enum.Enum, shape=3):
    """The first predicate result; the first four are those of
    :class:`~rtl.isa.kinds.PredicateTest`."""

    FALSE = 0
    TRUE = 1
    ZERO = 2
    NONZERO = 3
    DECISION = 4
    """The thread's decision. The second predicate result is always the opposite decision."""
    OUTSIDE = 5
    """The result, as a generic address, is in neither the shared nor the local window."""
    OUTSIDE_HIGH = 6
    """The same of an address whose high word is the result, and whose low word is that of the
    shifted pair."""


class LaneControl(data.Struct):
    """The control signals of a lane."""

    # The first stage: operands.
    part_a: Part
    part_b: Part
    part_c: Part
    negate_a: unsigned(1)
    """The part of a is complemented; b and c likewise."""
    negate_b: unsigned(1)
    negate_c: unsigned(1)
    one_a: unsigned(1)
    """One is added to a."""
    one_b: unsigned(1)
    """One is added to the sum of a and b."""
    one_c: unsigned(1)
    """One is added to c."""
    pair_negative: unsigned(1)
    """One is added to c if a is zero: the 64-bit pair of c and a is negated."""
    three: unsigned(1)
    """A sum of three terms, with two carries: c keeps its carry, and O is the second carry."""
    correct: unsigned(1)
    """c is corrected for negative products of halves (CSFU)."""
    add_high_b: unsigned(1)
    """b is added to c's high half (CBCC)."""
    halves: unsigned(1)
    """The factors are halves."""
    signed_a: unsigned(1)
    """a is signed in comparisons, products and shifts; b likewise."""
    signed_b: unsigned(1)
    extended: unsigned(1)
    """A comparison of longer numbers: CC has the outcome of the comparison of the lower words."""

    differs: unsigned(1)
    """a is replaced by the difference of a and b, and b by 0. The next four fields modify it."""
    adds: unsigned(1)
    """The sum of a and b in place of the difference."""
    opposite: unsigned(1)
    """The difference is complemented."""
    distance: unsigned(1)
    """The absolute difference: it is negated if it is below zero."""
    bytes: unsigned(1)
    """Four absolute differences of bytes. The chain computes each difference less one; so one that
    is below zero is complemented, and one is added to the others."""

    # The first stage: shifts.
    left: unsigned(1)
    pair: unsigned(1)
    """c is the high word of what is shifted."""
    count: ShiftCount
    wide: unsigned(1)
    """The limit of the count is 64, not 32."""
    wrap: unsigned(1)
    """The count is modulo that limit."""
    shift: unsigned(5)
    """The fixed count."""
    field: unsigned(1)
    """The result is cut to a field."""
    insert: unsigned(1)
    """The field is inserted into c."""
    pack: unsigned(1)
    """P2R: in byte ``which_byte`` of a, predicates replace the bits selected by ones in b."""
    of_condition: unsigned(1)
    """The flags of CC in place of predicates, for ``pack`` and ``unpack``."""
    which_byte: unsigned(2)
    permute: PermuteMode

    # The first stage: the thread's decision.
    truth: Truth
    compare: Compare
    continues: unsigned(1)
    """CC has the outcome of the comparison of the higher words, which is decisive unless the zero
    flag is set."""
    condition: unsigned(16)
    """The outcome of the test of CC, a bit for each value of CC."""
    combine_first: Boolean
    combine: Boolean

    # The second stage: the terms.
    table: unsigned(8)
    """The truth table of the logic function, with index {a, b, c}, if the decision holds; the next
    one if it does not."""
    table_otherwise: unsigned(8)
    as_one: unsigned(1)
    """All ones become the floating-point number 1."""
    as_bit: unsigned(1)
    """All ones become 1."""
    sum_shift: SumShift
    product: ProductPart
    first: FirstTerm
    complement: unsigned(1)
    """The first term is complemented."""
    complete: unsigned(1)
    """One is added if the product's low word is zero."""
    add_to_product: unsigned(1)
    """c, and one if ``one_b`` is set, is added to the product."""
    bound: unsigned(1)
    """The first term is clamped to the bounds of the result's type."""
    signed_result: unsigned(1)
    result_bits: ResultBits
    """HALF, BYTE: these low bits of the first term are inserted into c."""
    result_high: unsigned(1)
    """The low half of the first term is moved to its high half; the low half becomes 0."""
    add_b: unsigned(1)
    add_c: unsigned(1)
    plus_one: unsigned(1)
    add_carry: unsigned(1)
    """The carry flag is added; in a sum of three, the overflow flag as well."""

    # The third stage: the result.
    saturate: unsigned(1)
    """A sum with a signed overflow is clamped to the nearest bound."""
    merge: unsigned(1)
    """The high half of the result is the low half of b."""
    smaller: unsigned(1)
    """The result is the smaller of the first term and c; c is subtracted for the comparison."""
    larger: unsigned(1)
    """The same, the larger."""
    carries: unsigned(1)
    """C and O are those of the sum; otherwise they are clear."""
    chain_zero: unsigned(1)
    """The zero flag is set only if the zero flag of the lower words in CC is set as well."""
    verdict: unsigned(1)
    """CC has the relation of a and b, for the comparison of the lower words (``continues``)."""
    unpack: unsigned(1)
    """R2P: low bits of the result are written to the predicates selected by ones in b."""
    predicate: PredicateResult

    floating: FloatControl


class LaneControls(data.Struct):
    """The control signals of each of a lane's stages, for the instruction in it."""

    first: LaneControl
    second: LaneControl
    third: LaneControl
    bounds: unsigned(1)
    """BoundStage of the full lanes has a part, and uses the control signals ``second``. Its terms
    have priority over those of the second stage."""
