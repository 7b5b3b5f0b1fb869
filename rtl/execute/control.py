"""What the three stages of a lane do for an instruction: the control signals that all lanes share.

A lane makes two terms, X and Y, in two stages, adds them in the third and chooses what becomes of
the sum. The decoder sets these fields; a field that an instruction has no use for is 0, or anything
where it has no effect.
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
    """The part of a source word that counts; the first three are those of
    :class:`~rtl.isa.kinds.HalfSelect`. Of a and b, a part has a sign if the operand has one."""

    WORD = 0
    LOW = 1
    HIGH = 2
    REVERSED = 3
    """Of a: the bits in the opposite order."""
    BYTE_0 = 4
    BYTE_1 = 5
    BYTE_2 = 6
    BYTE_3 = 7


class ShiftCount(enum.Enum, shape=2):
    """How far the shifter shifts."""

    FIXED = 0
    """By the instruction's own number."""
    WORD = 1
    """By b."""
    BYTE = 2
    """By the lowest byte of b; the next one is the length of a field."""


class ProductPart(enum.Enum, shape=3):
    """The word of a product; of the last two, shifted by so much to the right."""

    LOW = 0
    HIGH = 1
    HALVES = 2
    """The product of two halves."""
    SCALED_7 = 3
    SCALED_15 = 4


class FirstTerm(enum.Enum, shape=3):
    """Where the first term of the final sum comes from."""

    LOGIC = 0
    SHIFT = 1
    PERMUTATION = 2
    PRODUCT = 3
    SUM = 4
    """The sum of the first two operands."""
    DISTANCES = 5
    """The sum of four bytes' distances."""


class ResultBits(enum.Enum, shape=2):
    """How much of a video instruction's first result counts."""

    WORD = 0
    HALF = 1
    BYTE = 2


class Truth(enum.Enum, shape=2):
    """What a thread's decision is made of, before a predicate is joined to it."""

    PREDICATES = 0
    """Predicates x and y joined; the predicate joined to them is z, elsewhere it is x."""
    RELATION = 1
    """A relation of a and b."""
    SIGN = 2
    """A relation of c to zero."""
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
    """The thread's decision. The second predicate result is always that of the opposite."""
    OUTSIDE = 5
    """The result, as a generic address, is in neither window."""
    OUTSIDE_HIGH = 6
    """The result, as the high word of a generic address, and the shifted pair's low word are in
    neither window."""


class LaneControl(data.Struct):
    """The control signals of a lane."""

    # The first stage: operands.
    part_a: Part
    part_b: Part
    part_c: Part
    negate_a: unsigned(1)
    """The part is complemented; likewise below."""
    negate_b: unsigned(1)
    negate_c: unsigned(1)
    one_a: unsigned(1)
    """One is added to a."""
    one_b: unsigned(1)
    """One is added to b, in the sum of the first two operands."""
    one_c: unsigned(1)
    """One is added to c."""
    pair_negative: unsigned(1)
    """One is added to c if a is zero: the pair of them is negated."""
    three: unsigned(1)
    """A sum of three: c keeps its carry, the overflow flag is one of its carries."""
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
    """A comparison continues that of lower words, which is in CC."""

    differs: unsigned(1)
    """The difference of a and b takes the place of a, and nothing that of b."""
    adds: unsigned(1)
    """It is their sum."""
    opposite: unsigned(1)
    """It is complemented."""
    distance: unsigned(1)
    """It is the distance of a and b."""
    bytes: unsigned(1)
    """It is four differences of bytes, each complemented where it is below zero; to the others one
    is added."""

    # The first stage: shifts.
    left: unsigned(1)
    pair: unsigned(1)
    """c is the high word of what is shifted."""
    count: ShiftCount
    wide: unsigned(1)
    """The count goes to 64, not 32."""
    wrap: unsigned(1)
    """The count is taken modulo that."""
    shift: unsigned(5)
    """The fixed count."""
    field: unsigned(1)
    """The result is cut to a field."""
    insert: unsigned(1)
    """The field goes into c."""
    pack: unsigned(1)
    """A byte of a, ``which_byte``, takes predicates where b says so."""
    of_condition: unsigned(1)
    """The flags of CC in place of predicates, here and in ``unpack``."""
    which_byte: unsigned(2)
    permute: PermuteMode

    # The first stage: what the thread decides.
    truth: Truth
    compare: Compare
    continues: unsigned(1)
    """The relation was decided by higher words if the zero flag is clear."""
    condition: unsigned(16)
    """The outcome of the test of CC, for each value of CC."""
    combine_first: Boolean
    combine: Boolean

    # The second stage: the terms.
    table: unsigned(8)
    """The logic function, by {a, b, c}, where the decision holds."""
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
    """c, and one if ``one_b`` says so, is added to the product."""
    bound: unsigned(1)
    """The first term is kept within the bounds of the result's type."""
    signed_result: unsigned(1)
    result_bits: ResultBits
    """If not all of them, these low bits of the first term go into c."""
    result_high: unsigned(1)
    """The first term's low half takes the place of its high one; its low one is 0."""
    add_b: unsigned(1)
    add_c: unsigned(1)
    plus_one: unsigned(1)
    add_carry: unsigned(1)
    """The carry flag is added, in a sum of three the overflow flag too."""

    # The third stage: the result.
    saturate: unsigned(1)
    """A signed overflow stays at the nearest bound."""
    merge: unsigned(1)
    """The high half of the result is b's low one."""
    smaller: unsigned(1)
    """The result is the smaller of the first term and c, which is subtracted."""
    larger: unsigned(1)
    carries: unsigned(1)
    """C and O are those of the sum; otherwise they are clear."""
    chain_zero: unsigned(1)
    """The result counts as zero only if the lower words did, by CC."""
    verdict: unsigned(1)
    """CC is how a and b relate, for the words below."""
    unpack: unsigned(1)
    """The result's low bits go to predicates where b says so."""
    predicate: PredicateResult

    floating: FloatControl


class LaneControls(data.Struct):
    """The control signals of the instruction in each of a lane's stages."""

    first: LaneControl
    second: LaneControl
    third: LaneControl
    bounds: unsigned(1)
    """A full lane has something in the stage between the second and the third one, by the control
    signals of the second. It wins over what is in the second stage."""
