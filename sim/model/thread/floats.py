"""Exact rounding between integers and binary floating point, in integers.

A finite number is the tuple (negative, mantissa, exponent) of magnitude mantissa * 2**exponent.
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
    """Rounding directions, with the encoding of the conversion instructions."""

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
    """A binary format: widths in bits of the stored mantissa and of the exponent."""

    fraction: int
    exponent: int

    @property
    def bits(self) -> int:
        """Width of the format in bits."""
        return 1 + self.exponent + self.fraction

    @property
    def bias(self) -> int:
        """The bias of the stored exponent."""
        return (1 << self.exponent - 1) - 1

    @property
    def smallest(self) -> int:
        """Exponent of the last bit of a subnormal number."""
        return 1 - self.bias - self.fraction


HALF = Format(10, 5)
SINGLE = Format(23, 8)
DOUBLE = Format(52, 11)


def decode(bits: int, form: Format) -> tuple[bool, int, int] | tuple[bool, Special]:
    """Returns (negative, mantissa, exponent) of a finite number, else (negative, Special)."""
    negative = bool(bits >> form.bits - 1 & 1)
    exponent = bits >> form.fraction & (1 << form.exponent) - 1
    fraction = bits & (1 << form.fraction) - 1
    if exponent == (1 << form.exponent) - 1:
        return negative, Special.NAN if fraction else Special.INFINITY
    if exponent == 0:
        return negative, fraction, form.smallest
    return negative, fraction | 1 << form.fraction, form.smallest + exponent - 1


def infinity(negative: bool, form: Format) -> int:
    """Returns the infinity of a sign."""
    return negative << form.bits - 1 | (1 << form.exponent) - 1 << form.fraction


def not_a_number(form: Format) -> int:
    """Returns the NaN that operations generate (ours): all bits but the sign set; in double
    precision the quiet NaN without payload.
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
    """Rounds mantissa * 2**exponent to an integer; the result is signed."""
    if exponent >= 0:
        magnitude = mantissa << exponent
    else:
        magnitude, dropped = mantissa >> -exponent, mantissa & (1 << -exponent) - 1
        magnitude += _rounds_up(magnitude, dropped, 1 << -exponent - 1, negative, rounding)
    return -magnitude if negative else magnitude


def encode(negative: bool, mantissa: int, exponent: int, form: Format, rounding: Rounding) -> int:
    """Rounds a number to a format and returns its bits. The mantissa may have any length.

    On overflow the result is infinity, or the largest finite number if the rounding direction is
    away from that infinity.
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
    """Computes a * b * 2**scale + c, rounded once.

    With ``zero_wins`` the product of a zero and any factor is +0.
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
    """Compares two numbers; returns ``<``, ``=``, ``>``, or ``?`` if one is NaN."""
    top = 1 << form.bits - 1
    if max(x & ~top, y & ~top) > infinity(False, form):
        return "?"
    left, right = (-(bits & ~top) if bits & top else bits for bits in (x, y))
    return "<" if left < right else ">" if left > right else "="


def lesser_and_greater(x: int, y: int, form: Format) -> tuple[int, int]:
    """Returns the smaller and the larger number, with -0 below +0. If one is NaN, returns the other
    one twice.
    """
    top = 1 << form.bits - 1
    numbers = [bits for bits in (x, y) if bits & ~top <= infinity(False, form)] or [
        not_a_number(form)
    ]
    numbers.sort(key=lambda bits: ~(bits & ~top) if bits & top else bits)
    return numbers[0], numbers[-1]
