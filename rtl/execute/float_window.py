"""Single precision: one fused multiply-add for all arithmetic, and comparisons, in a lane's stages.

The first stage unpacks the numbers, and performs the first steps of the addend's alignment shift.
The product is that of the lane's multipliers, and comparisons use the lane's difference of a and b.
The second stage adds, and counts leading zeros; the third normalizes and rounds, with the lane's
adder. ::

    S5  FloatPrepare ---> FloatAligned, factors, decision
    S6  FloatAdd -------> FloatSum
    S7  FloatRound -----> FloatNormal ---> the lane's sum ---> FloatFinish ---> FloatPattern

The sum is computed in a window of 52 bits, of which the highest one is for the carry. The addend
has its highest place below the carry, and is shifted down from there. The product has one of two
fixed places: near (its lowest bit is bit 2 of the window) or, if the addend would have to be above
its highest place then, far (25 bits further down). A product that should be even further down has
the far place as well, with the addend in its highest place: it is below the addend's lowest bit,
and for rounding only whether it is 0 matters. Ones of either that are below the window are combined
in ``sticky``::

    bit   51      50          27      26                    2    1 0
          carry   highest addend      |      near product   |  guard
                                          far product: 25 bits further down

``limit`` is the exponent of the bit below the highest one, as single precision stores it. The sum
is shifted up by at most that much, so that the result is subnormal if its highest bit is not on top
after the shift.

Differences avoid a second carry propagation for the negation of a negative sum. With product p and
addend a, p - a = p + ~a + 1.

- Far product: the one is added. The sum is p - a. It is usually negative, and its magnitude is
  ~sum + 1: the complement, which lacks one.
- Near product: the one is not added. The sum is p - a - 1. If it is negative, its magnitude is
  ~sum, exactly. Else the magnitude is sum + 1: it lacks one.

The missing one is added by rounding. The bits below the window are regarded as an endless row of
ones, to which a one is added at the end: it carries up to the window. So ones are shifted in
(``fill``, or zeros that are complemented later), and FloatRound adds the one. If ``sticky`` is set,
nothing is missing: bits below the window were lost, so that the exact magnitude is between the
number in the window and the next one, which is what ``sticky`` means in rounding.
"""

from amaranth.hdl import unsigned
from amaranth.lib import data

__all__ = [
    "BIAS",
    "EARLY_BITS",
    "EARLY_STEPS",
    "EXPONENT_BITS",
    "FAR_STEP",
    "FRACTION_BITS",
    "GUARD_BITS",
    "LARGEST_EXPONENT",
    "MANTISSA_BITS",
    "OFFSET",
    "PRODUCT_BITS",
    "SHIFT_BITS",
    "STEPS",
    "WINDOW_BITS",
    "FloatAligned",
    "FloatNormal",
    "FloatPattern",
    "FloatSum",
    "Number",
]

FRACTION_BITS = 23
EXPONENT_BITS = 8
BIAS = 127
LARGEST_EXPONENT = (1 << EXPONENT_BITS) - 1
"""The stored exponent of infinities and NaNs."""
MANTISSA_BITS = FRACTION_BITS + 1
PRODUCT_BITS = 2 * MANTISSA_BITS
GUARD_BITS = 2
"""Bits of the window below a near product."""
_CLEAR_BITS = 2
"""Bits that are clear between the highest addend and the product."""
FAR_STEP = _CLEAR_BITS + MANTISSA_BITS - 1
"""By how much the far place of a product is below the near place."""
WINDOW_BITS = GUARD_BITS + PRODUCT_BITS + _CLEAR_BITS
OFFSET = 2 * (BIAS + FRACTION_BITS) - (PRODUCT_BITS + _CLEAR_BITS + MANTISSA_BITS - 1) - BIAS
"""The sum of the factors' exponents, less the exponent of an addend in its highest place."""
SHIFT_BITS = 10
"""Width of the addend's shift, as a signed number."""
STEPS = 6
"""Steps of the addend's shift, by 1, 2, 4 and so on; larger shifts move it out of the window."""
EARLY_STEPS = 4
"""The steps in the first stage."""
EARLY_BITS = MANTISSA_BITS + (1 << EARLY_STEPS) - 1


class Number(data.Struct):
    """An operand, unpacked."""

    sign: unsigned(1)
    exponent: unsigned(EXPONENT_BITS)
    """As stored, but 1 for a subnormal number and for zero."""
    mantissa: unsigned(MANTISSA_BITS)
    tiny: unsigned(1)
    """Subnormal, or zero."""
    zero: unsigned(1)
    """Zero, or subnormal and flushed to zero. The mantissa is not cleared."""
    infinite: unsigned(1)
    nan: unsigned(1)


class FloatAligned(data.Struct):
    """The output of the first stage."""

    addend: unsigned(EARLY_BITS)
    """The addend's mantissa, shifted by the low EARLY_STEPS bits of ``shift``."""
    shift: unsigned(SHIFT_BITS)
    exponent: unsigned(EXPONENT_BITS)
    """The addend's."""
    present: unsigned(1)
    """The addend is not 0."""
    far: unsigned(1)
    """The product is far below the addend."""
    empty: unsigned(1)
    """The product is 0, or there is none."""
    sign: unsigned(1)
    """The sign of the product, or of an infinite result, or of a if a or b is chosen."""
    subtracts: unsigned(1)
    """The addend, which may be b, has the opposite sign: the sum is a difference."""
    tiny: unsigned(2)
    """a and b are zero or subnormal."""
    infinite: unsigned(1)
    nan: unsigned(1)


class FloatSum(data.Struct):
    """The output of the second stage."""

    total: unsigned(WINDOW_BITS)
    """The sum, shifted up by 32 if its shift is 32 or more."""
    negative: unsigned(1)
    """The sum is negative: its magnitude is the complement."""
    fill: unsigned(1)
    """The bit that is shifted in from below; see above."""
    sticky: unsigned(1)
    shift: unsigned(STEPS - 1)
    exponent: unsigned(EXPONENT_BITS + 1)
    """The exponent of the normalized sum, less one: the adder adds the highest bit of the mantissa
    to it."""
    sign: unsigned(1)
    cancelled: unsigned(1)
    """The sum is a difference of equal numbers."""
    away: unsigned(1)
    """A result that is too large becomes infinite. In a directed rounding mode: round away from
    0."""
    flushable: unsigned(1)
    """A result whose exponent is 0 is to be flushed if the instruction flushes."""
    infinite: unsigned(1)
    nan: unsigned(1)


class FloatNormal(data.Struct):
    """A normalized sum, for the lane's adder: the mantissa, plus the exponent shifted above the
    fraction, plus one if it is rounded up."""

    mantissa: unsigned(MANTISSA_BITS)
    exponent: unsigned(EXPONENT_BITS + 1)
    up: unsigned(1)


class FloatPattern(data.Struct):
    """The result, apart from the rounded sum."""

    keep: unsigned(1)
    """The result is the rounded sum, with the sign in ``word``; else it is ``word``."""
    word: unsigned(32)
    """The sign, and the other ones of a result that is not the sum."""
