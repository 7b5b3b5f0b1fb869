"""How MUFU's functions are approximated (ours): the tables and the arithmetic in integers, for
hardware and models.

The argument's range is divided into intervals. In each of them the function is approximated by
C0 + C1 * u + C2 * u**2, where u is from -1 to 1; u is ``d`` in units of 2**-(DISTANCE_BITS - 1).
The coefficients are integers in units of 2**-UNIT, and so is the value::

    square = d * d >> DISTANCE_BITS
    value = C0 + (C1 * d + 2 * C2 * square >> DISTANCE_BITS - 1)

``>>`` rounds down. A number is reduced to FRACTION_BITS bits, of which the highest are the interval
and those below it, their first one inverted, are ``d``. The values, which are rounded to nearest
only when they become a result:

=========  =============================================================  ==========
function   of a fraction f                                                intervals
=========  =============================================================  ==========
RCP        1 / (1 + f)                                                    256
RSQ        1 / sqrt(1 + f), and from row 128 on 1 / sqrt(2 * (1 + f))     2 * 128
LG2        log2(1 + f)                                                    128
EX2        2**f / 2                                                       128
SIN        sin(pi / 2 * f); COS, too                                      128
=========  =============================================================  ==========

LG2 adds the exponent; EX2 splits its operand into an integer and f. The operands of SIN and
COS are in turns (of 2 * pi), and are split into quarters and f. RRO.SINCOS makes turns: it is a
multiplication by TURN.
RRO.EX2 changes nothing.

RCP64H and RSQ64H are RCP and RSQ of a double's upper word, its lower one taken for 0, and give an
upper word: numbers with 11 bits of exponent and 20 of fraction, everything else is the same.
"""

from rtl.isa.function_table import TABLE
from rtl.isa.kinds import MultiFunction

__all__ = [
    "COEFFICIENT_BITS",
    "DISTANCE_BITS",
    "FIRST_ROWS",
    "FRACTION_BITS",
    "INTERVAL_BITS",
    "OF_DOUBLES",
    "ONE",
    "ROWS",
    "TURN",
    "UNIT",
    "pack_row",
    "rows",
]

UNIT = 29
DISTANCE_BITS = 18
FRACTION_BITS = 25
COEFFICIENT_BITS = (29, 23, 15)
"""Of C0, which is not negative, and of C1 and C2, which have a sign."""
INTERVAL_BITS = {
    MultiFunction.RCP: 8,
    MultiFunction.RSQ: 7,
    MultiFunction.LG2: 7,
    MultiFunction.EX2: 7,
    MultiFunction.SIN: 7,
}
"""Bits of a fraction that are the interval."""
FIRST_ROWS = {
    MultiFunction.RCP: 0,
    MultiFunction.RSQ: 256,
    MultiFunction.LG2: 512,
    MultiFunction.EX2: 640,
    MultiFunction.SIN: 768,
}
"""The first row of each function."""
ROWS = 896
OF_DOUBLES = {MultiFunction.RCP64H: MultiFunction.RCP, MultiFunction.RSQ64H: MultiFunction.RSQ}
"""The functions of upper words of doubles, and their names in single precision."""
ONE = 0x3F80_0000
"""The number 1."""
TURN = 0x3E22_F983
"""The number nearest to 1 / (2 * pi)."""


def pack_row(coefficients: tuple[int, int, int]) -> int:
    """A row of the table as one word, C0 lowest."""
    word, place = 0, 0
    for value, width in zip(coefficients, COEFFICIENT_BITS, strict=True):
        word |= (value & (1 << width) - 1) << place
        place += width
    return word


def rows() -> list[tuple[int, int, int]]:
    """C0, C1 and C2 of every row."""
    return list(TABLE)
