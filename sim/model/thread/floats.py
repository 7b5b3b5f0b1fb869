"""Exact rounding between integers and binary floating point, in integers.

A finite number is (negative, mantissa, exponent), worth mantissa * 2**exponent.
"""

from dataclasses import dataclass
from enum import Enum

__all__ = [
    "DOUBLE",
    "HALF",
    "SINGLE",
    "Format",
    "Rounding",
    "Special",
    "decode",
    "encode",
    "fused",
    "infinity",
    "lesser_and_greater",
    "not_a_number",
    "order",
    "round_to_integer",
]


class Rounding(Enum):
    """Directions of rounding, as the conversions encode them."""

    NEAREST_EVEN = 0
    DOWN = 1
    UP = 2
    ZERO = 3


class Special(Enum):
    """Infinities and NaN."""

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
    """The NaN that operations make (ours): all bits but the sign, in double precision the quiet one that has no other
    bit.
    """
    return (
        infinity(False, form) | 1 << form.fraction - 1
        if form is DOUBLE
        else (1 << form.bits - 1) - 1
    )


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
        outwards = rounding is Rounding.NEAREST_EVEN or rounding is (
            Rounding.DOWN if negative else Rounding.UP
        )
        return infinity(negative, form) - (not outwards)
    return negative << form.bits - 1 | stored << form.fraction | kept & (1 << form.fraction) - 1


def fused(
    a: int,
    b: int,
    c: int,
    form: Format,
    rounding: Rounding,
    scale: int = 0,
    zero_wins: bool = False,
) -> int:
    """A * b * 2**scale + c, rounded once; with ``zero_wins`` a zero factor makes +0 of the product,
    with any other factor.
    """
    x, y, z = (decode(bits, form) for bits in (a, b, c))
    top, no_number = 1 << form.bits - 1, not_a_number(form)
    negative = x[0] ^ y[0]
    vanishes = zero_wins and not (a & ~top and b & ~top)
    if not vanishes and (
        Special.NAN in (x[1], y[1])
        or (Special.INFINITY in (x[1], y[1]) and not (a & ~top and b & ~top))
    ):
        return no_number
    if z[1] is Special.NAN:
        return no_number
    if not vanishes and Special.INFINITY in (x[1], y[1]):
        return (
            no_number if z[1] is Special.INFINITY and z[0] != negative else infinity(negative, form)
        )
    if len(z) == 2:
        return infinity(z[0], form)
    if vanishes or len(x) == 2 or len(y) == 2:
        negative, product, exponent = False, 0, 0
    else:
        product, exponent = x[1] * y[1], x[2] + y[2] + scale
    last = min(exponent, z[2])
    total = (-product if negative else product) << exponent - last
    total += (-z[1] if z[0] else z[1]) << z[2] - last
    if not total:
        below = negative if negative == z[0] else rounding is Rounding.DOWN
        return top if below else 0
    return encode(total < 0, abs(total), last, form, rounding)


def order(x: int, y: int, form: Format) -> str:
    """How two numbers relate: ``<``, ``=``, ``>``, or ``?`` where one is none."""
    top = 1 << form.bits - 1
    if max(x & ~top, y & ~top) > infinity(False, form):
        return "?"
    left, right = (-(bits & ~top) if bits & top else bits for bits in (x, y))
    return "<" if left < right else ">" if left > right else "="


def lesser_and_greater(x: int, y: int, form: Format) -> tuple[int, int]:
    """Both numbers in their order, in which -0 comes before +0; beside NaN the number twice."""
    top = 1 << form.bits - 1
    numbers = [bits for bits in (x, y) if bits & ~top <= infinity(False, form)] or [
        not_a_number(form)
    ]
    numbers.sort(key=lambda bits: ~(bits & ~top) if bits & top else bits)
    return numbers[0], numbers[-1]
