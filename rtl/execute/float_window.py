"""Single precision: one fused multiply-add for all arithmetic, and comparisons, in a lane's stages.

The first stage unpacks the numbers and begins to shift the addend to where the product is; the
lane's own multipliers make the product, and the difference of its words compares. The second adds
them and counts zeros; the third normalizes and rounds, with the lane's own sum. ::

    S5  FloatPrepare ---> FloatAligned, factors, decision
    S6  FloatAdd -------> FloatSum
    S7  FloatRound -----> FloatNormal ---> the lane's sum ---> FloatFinish ---> FloatPattern

A sum is a window of 52 bits, of which the highest one is for the carry of the sum. The addend is
shifted down from the bit below; the product has two places. Near the addend it is at bit 2; far
below it, where not even its highest bits matter but for rounding, 25 bits further down. A product
that would be even further down stays there: only that it is not 0 counts. What of either does not
fit into the window is ``sticky``::

    bit   51      50          27      26                    2    1 0
          carry   highest addend      |      near product   |  guard
                                          far product: 25 bits further down

The exponent of the bit below the highest one is ``limit``, as single precision would store it; it
limits how far the sum is shifted up, so that a number whose highest bit is not on top then is
subnormal.

A difference has no carry that would have to pass all bits once more. p - a is p + ~a and one more.
A far product is mostly below the addend: with that one, the result is the sum's complement, and one
more. A near one is mostly above: without it, the result is the sum, and one more. Wherever one more
is missing, it is as if it came up through ones below the window: these are what is shifted in, and
rounding adds it. A sticky bit, in these cases, takes its place.
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
"""Bits of the window below a product that is near."""
_CLEAR_BITS = 2
"""Bits that are clear between the highest addend and the product."""
FAR_STEP = _CLEAR_BITS + MANTISSA_BITS - 1
"""How much further down a product is that is far from the addend."""
WINDOW_BITS = GUARD_BITS + PRODUCT_BITS + _CLEAR_BITS
OFFSET = 2 * (BIAS + FRACTION_BITS) - (PRODUCT_BITS + _CLEAR_BITS + MANTISSA_BITS - 1) - BIAS
"""How much less than the sum of the factors' exponents the exponent of the highest addend is."""
SHIFT_BITS = 10
"""How far the addend is shifted down, as a number with a sign."""
STEPS = 6
"""Steps of the addend's shift that matter, by 1, 2, 4 and so on."""
EARLY_STEPS = 4
"""Those of the first stage."""
EARLY_BITS = MANTISSA_BITS + (1 << EARLY_STEPS) - 1


class Number(data.Struct):
    """An operand, unpacked."""

    sign: unsigned(1)
    exponent: unsigned(EXPONENT_BITS)
    """As stored, 1 for a subnormal number and for zero."""
    mantissa: unsigned(MANTISSA_BITS)
    tiny: unsigned(1)
    """Subnormal, or zero."""
    zero: unsigned(1)
    """Or flushed; the mantissa is not."""
    infinite: unsigned(1)
    nan: unsigned(1)


class FloatAligned(data.Struct):
    """After the first stage."""

    addend: unsigned(EARLY_BITS)
    """Shifted by the low bits of ``shift``."""
    shift: unsigned(SHIFT_BITS)
    exponent: unsigned(EXPONENT_BITS)
    """The addend's."""
    present: unsigned(1)
    """The addend is not 0."""
    far: unsigned(1)
    """The product is far below the addend."""
    empty: unsigned(1)
    """There is no product."""
    sign: unsigned(1)
    """Of the product; of an infinite result; of a."""
    subtracts: unsigned(1)
    """The addend, or b, has the other sign."""
    tiny: unsigned(2)
    """a and b are zero or subnormal."""
    infinite: unsigned(1)
    nan: unsigned(1)


class FloatSum(data.Struct):
    """After the second stage."""

    total: unsigned(WINDOW_BITS)
    """Shifted up by 32 if it has to be."""
    negative: unsigned(1)
    """The sum's complement counts."""
    fill: unsigned(1)
    """What is shifted in from below: ones that the missing one would come up through."""
    sticky: unsigned(1)
    shift: unsigned(STEPS - 1)
    exponent: unsigned(EXPONENT_BITS + 1)
    """Of the normalized sum without its highest bit, which is one more."""
    sign: unsigned(1)
    cancelled: unsigned(1)
    """The sum is a difference of equal numbers."""
    away: unsigned(1)
    """What is too large becomes infinite; what is not rounded to the nearest is rounded away from
    0."""
    flushable: unsigned(1)
    """A result without an exponent is subnormal, or zero."""
    infinite: unsigned(1)
    nan: unsigned(1)


class FloatNormal(data.Struct):
    """A normalized sum: mantissa, and exponent above the fraction, are added, and one if it is
    rounded up."""

    mantissa: unsigned(MANTISSA_BITS)
    exponent: unsigned(EXPONENT_BITS + 1)
    up: unsigned(1)


class FloatPattern(data.Struct):
    """What a result is but for the rounded sum."""

    keep: unsigned(1)
    """The sum counts."""
    word: unsigned(32)
    """The sign, and what else is one."""
