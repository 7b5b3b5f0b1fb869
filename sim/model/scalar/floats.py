"""Exact rounding between integers and binary floating point, in integers.

A finite number is (negative, mantissa, exponent), worth mantissa * 2**exponent.
"""

from dataclasses import dataclass
from enum import Enum

__all__ = ["DOUBLE", "HALF", "SINGLE", "Format", "Rounding", "Special", "decode", "encode", "infinity", "not_a_number",
           "round_to_integer"]


class Rounding(Enum):
    """Directions of rounding, as the conversions encode them."""

    NEAREST_EVEN = 0
    DOWN = 1
    UP = 2
    ZERO = 3


class Special(Enum):
    """What is not a finite number."""

    INFINITY = 1
    NAN = 2


@dataclass(frozen=True)
class Format:
    """A binary format: bits of the stored mantissa, and of the exponent."""

    fraction: int
    exponent: int

    @property
    def bits(self) -> int:
        """Bits in all."""
        return 1 + self.exponent + self.fraction

    @property
    def bias(self) -> int:
        """What is added to an exponent to store it."""
        return (1 << self.exponent - 1) - 1

    @property
    def smallest(self) -> int:
        """Exponent of the last bit of a subnormal number."""
        return 1 - self.bias - self.fraction


HALF = Format(10, 5)
SINGLE = Format(23, 8)
DOUBLE = Format(52, 11)


def decode(bits: int, form: Format) -> tuple[bool, int, int] | tuple[bool, Special]:
    """Sign, mantissa and exponent; or sign and what else it is."""
    negative = bool(bits >> form.bits - 1 & 1)
    exponent = bits >> form.fraction & (1 << form.exponent) - 1
    fraction = bits & (1 << form.fraction) - 1
    if exponent == (1 << form.exponent) - 1:
        return negative, Special.NAN if fraction else Special.INFINITY
    if exponent == 0:
        return negative, fraction, form.smallest
    return negative, fraction | 1 << form.fraction, form.smallest + exponent - 1


def infinity(negative: bool, form: Format) -> int:
    """The infinity of that sign."""
    return negative << form.bits - 1 | (1 << form.exponent) - 1 << form.fraction


def not_a_number(form: Format) -> int:
    """The NaN that operations make: all bits but the sign."""
    return (1 << form.bits - 1) - 1


def _rounds_up(kept: int, dropped: int, half: int, negative: bool, rounding: Rounding) -> bool:
    match rounding:
        case Rounding.NEAREST_EVEN:
            return dropped > half or (dropped == half and kept & 1 == 1)
        case Rounding.UP:
            return dropped > 0 and not negative
        case Rounding.DOWN:
            return dropped > 0 and negative
        case Rounding.ZERO:
            return False


def round_to_integer(negative: bool, mantissa: int, exponent: int, rounding: Rounding) -> int:
    """The integer that the number rounds to."""
    if exponent >= 0:
        magnitude = mantissa << exponent
    else:
        magnitude, dropped = mantissa >> -exponent, mantissa & (1 << -exponent) - 1
        magnitude += _rounds_up(magnitude, dropped, 1 << -exponent - 1, negative, rounding)
    return -magnitude if negative else magnitude


def encode(negative: bool, mantissa: int, exponent: int, form: Format, rounding: Rounding) -> int:
    """The number, rounded, as bits of the format. A mantissa may be of any length. Beyond the largest number it is the
    infinity, or that number where rounding goes away from infinities.
    """
    last = max(exponent + mantissa.bit_length() - 1 - form.fraction, form.smallest)
    kept = abs(round_to_integer(negative, mantissa, exponent - last, rounding))
    if kept >> form.fraction + 1:
        kept, last = kept >> 1, last + 1
    stored = last - form.smallest + 1 if kept >> form.fraction else 0
    if stored >= (1 << form.exponent) - 1:
        outwards = rounding is Rounding.NEAREST_EVEN or rounding is (Rounding.DOWN if negative else Rounding.UP)
        return infinity(negative, form) - (not outwards)
    return negative << form.bits - 1 | stored << form.fraction | kept & (1 << form.fraction) - 1
