"""Operands of floating-point instructions: at the edges of single precision, near each other, and
sums that nearly cancel.
"""

from random import Random

import numpy as np

SINGLES = (
    0,
    1,
    2,
    0x0040_0000,
    0x007F_FFFF,
    0x0080_0000,
    0x0080_0001,
    0x00FF_FFFF,
    0x0100_0000,
    0x33FF_FFFF,
    0x3400_0000,
    0x3F7F_FFFF,
    0x3F80_0000,
    0x3F80_0001,
    0x4B80_0000,
    0x7E80_0000,
    0x7F7F_FFFF,
    0x7F80_0000,
    0x7F80_0001,
    0x7FC0_0000,
    0x7FFF_FFFF,
)
"""Zero, subnormal numbers, one and the largest numbers with their neighbours, infinity, NaNs."""
SIGN, ONE = 1 << 31, 0x3F80_0000
CORNERS = tuple(
    number | sign
    for number in (0, 1, 0x007F_FFFF, 0x0080_0000, ONE, 0x7F7F_FFFF, 0x7F80_0000, 0x7FC0_0000)
    for sign in (0, SIGN)
)
"""The ends of the ranges: few enough to test all pairs."""
EDGES = tuple(number | sign for number in SINGLES for sign in (0, 1 << 31))
"""The numbers of SINGLES and their negatives."""
_EXPONENTS = (0, 1, 2, 23, 24, 100, 126, 127, 128, 150, 200, 253, 254)
_FAR = (-127, -126, -125, -124, 124, 125, 126, 127)
"""Differences of exponents for which a quotient is near the ends of the range."""
_FEW = (0x7F_0000, 0x7F, 0x40_0000, 1, 0)
"""Masks of fractions with few bits."""


def single(source: Random) -> int:
    """A random number: an edge, one with an exponent near the edges or near that of 1, or any
    pattern.
    """
    sign = source.getrandbits(1) << 31
    match source.randrange(5):
        case 0:
            return sign | source.choice(SINGLES)
        case 1:
            return source.getrandbits(32)
        case 2:
            exponent = source.choice(_EXPONENTS)
        case _:
            exponent = source.randrange(110, 145)
    fraction = source.getrandbits(23)
    return (
        sign
        | exponent << 23
        | (fraction & source.choice(_FEW) if source.random() < 0.4 else fraction)
    )


def singles(source: Random, count: int) -> list[list[int]]:
    """``count`` numbers for each of three operands.

    Some of the third are nearly the negated product of the others. Some of the second are nearly
    the first, or so far from it that the quotient is near the ends of the range.
    """
    first, second, third = ([single(source) for _ in range(count)] for _ in range(3))
    with np.errstate(all="ignore"):
        products = np.array(first, np.uint32).view(np.float32) * np.array(second, np.uint32).view(
            np.float32
        )
    for place, product in enumerate((-products).view(np.uint32).tolist()):
        if source.random() < 0.4:
            third[place] = product + source.randrange(-3, 4) & 0xFFFF_FFFF
        elif source.random() < 0.2:
            second[place] = (
                first[place] + source.randrange(-1, 2) & 0xFFFF_FFFF ^ source.getrandbits(1) << 31
            )
        elif source.random() < 0.2:
            exponent = (first[place] >> 23 & 0xFF) - source.choice(_FAR)
            second[place] = second[place] & 0x807F_FFFF | max(0, min(exponent, 254)) << 23
    return [first, second, third]
