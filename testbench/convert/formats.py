"""Values of bit patterns as Python numbers: integers of a type, floating-point numbers of a
format.
"""

import math
from fractions import Fraction

from rtl.isa.kinds import FloatFormat

__all__ = ["typed", "unpacked"]

_SIZES = (8, 16, 32, 64)
_FORMATS = {
    FloatFormat.F16.value: (10, 5),
    FloatFormat.F32.value: (23, 8),
    FloatFormat.F64.value: (52, 11),
}
"""Bits of fraction and exponent."""


def typed(pattern: int, code: int) -> int:
    """The value of the low bits of a pattern in an integer type. Bits 1:0 of its code are the size,
    bit 2 the sign.
    """
    size = _SIZES[code & 3]
    pattern &= (1 << size) - 1
    return pattern - (1 << size) if code >> 2 and pattern >> size - 1 else pattern


def unpacked(pattern: int, form: int) -> Fraction | float:
    """The value of a floating-point pattern; infinities and NaN are Python's."""
    fraction, exponent = _FORMATS[form]
    power, rest = pattern >> fraction & (1 << exponent) - 1, pattern & (1 << fraction) - 1
    negative = pattern >> fraction + exponent & 1
    if power == (1 << exponent) - 1:
        return math.nan if rest else -math.inf if negative else math.inf
    value = Fraction(rest | (1 << fraction if power else 0))
    value *= Fraction(2) ** (max(power, 1) - (1 << exponent - 1) + 1 - fraction)
    return -value if negative else value
