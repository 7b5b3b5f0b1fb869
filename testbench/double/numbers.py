"""Operands for tests of double precision, and results of exact arithmetic, rounded once.

The arithmetic is that of Python's rational numbers. A test compares it with MPFR, which is not in
the smallest installation.
"""

import random
from fractions import Fraction
from math import isinf, isnan

import numpy as np

from rtl.isa.kinds import FloatRounding

__all__ = ["EDGES", "NAN", "SIGN", "as_double", "doubles", "fused"]

NAN, SIGN = 0x7FF8 << 48, 1 << 63
_ONE, _INFINITY, _FRACTION = 0x3FF << 52, 0x7FF << 52, (1 << 52) - 1
_FRACTION_BITS, _LEAST = 52, -1074
"""Bits of a fraction, and the exponent of the smallest number."""
_HALF = Fraction(1, 2)
EDGES = (
    0,
    1,
    2,
    3,
    _FRACTION >> 1,
    _FRACTION,
    _FRACTION + 1,
    _FRACTION + 2,
    1 << 53,
    _ONE - 1,
    _ONE,
    _ONE + 1,
    0x3FF8 << 48,
    0x4000 << 48,
    0x0340 << 48,
    0x7CA0 << 48,
    _INFINITY - 1,
    _INFINITY - 2,
    _INFINITY,
    _INFINITY + 1,
    NAN,
    SIGN - 1,
)
"""Numbers of each class, and their neighbours in the next class, without signs."""


def _near(source: random.Random, a: int, b: int) -> int:
    """A number near the product of a and b."""
    product = (a >> 52 & 0x7FF) + (b >> 52 & 0x7FF) - 0x3FF
    exponent = product + source.choice((-108, -55, -54, -53, -2, -1, 0, 1, 53, 54))
    return min(max(exponent, 0), 0x7FE) << 52


def _any(source: random.Random) -> int:
    kind = source.random()
    if kind < 0.2:
        return source.choice(EDGES)
    exponent = source.choice(
        (source.getrandbits(11), 0x3FF + source.randrange(-3, 4), source.randrange(4), 0x3FF - 537)
    )
    fraction = source.choice(
        (
            source.getrandbits(52),
            source.getrandbits(52) & source.getrandbits(52) & source.getrandbits(52),
            0,
            _FRACTION,
            source.getrandbits(26) << 26,
            1 << source.randrange(52),
        )
    )
    return (exponent << 52 | fraction) & SIGN - 1


def doubles(source: random.Random, count: int) -> list[list[int]]:
    """Three random operands for ``count`` threads: edges, ties, sums that cancel, results outside
    of the range.
    """
    rows = []
    for _ in range(count):
        a, b, c = (_any(source) for _ in range(3))
        kind = source.random()
        if kind < 0.3:
            c = _near(source, a, b) | source.choice((source.getrandbits(52), 0, 1, _FRACTION))
        elif kind < 0.5:
            c = (fused(a, b, 0, FloatRounding.RN) + source.randrange(-1, 2)) % SIGN
        elif kind < 0.7:
            b = (a + source.randrange(-2, 3)) % SIGN if source.random() < 0.5 else a
        rows.append([number ^ SIGN * source.getrandbits(1) for number in (a, b, c)])
    return [list(column) for column in zip(*rows, strict=True)]


def as_double(bits: int) -> float:
    """The number of a bit pattern."""
    return float(np.array(bits, np.uint64).view(np.float64))


def fused(a: int, b: int, c: int, rounding: FloatRounding) -> int:
    """The bits of ``a * b + c``, rounded once."""
    x, y, z = (as_double(bits) for bits in (a, b, c))
    negative_product, negative_sum = bool((a ^ b) & SIGN), bool(c & SIGN)
    if isnan(x) or isnan(y) or isnan(z):
        return NAN
    if isinf(x) or isinf(y):
        if x == 0 or y == 0 or (isinf(z) and negative_product != negative_sum):
            return NAN
        return _INFINITY | SIGN * negative_product
    if isinf(z):
        return c
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if exact:
        return rounded(exact, rounding)
    both_zero = x * y == 0 and (x == 0 or y == 0) and z == 0
    if both_zero and negative_product == negative_sum:
        return SIGN * negative_sum
    return SIGN * (rounding is FloatRounding.RM)


def rounded(number: Fraction, rounding: FloatRounding) -> int:
    """The bits of a number other than 0, rounded."""
    size, is_negative = abs(number), number < 0
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if size < Fraction(2) ** exponent:
        exponent -= 1
    place = max(exponent - _FRACTION_BITS, _LEAST)  # exponent of the last bit of the fraction
    count, rest = divmod(size / Fraction(2) ** place, 1)
    away = {
        FloatRounding.RN: rest > _HALF or (rest == _HALF and count % 2 == 1),
        FloatRounding.RZ: False,
        FloatRounding.RM: bool(rest) and is_negative,
        FloatRounding.RP: bool(rest) and not is_negative,
    }[rounding]
    # A carry out of the fraction increments the exponent, or leads from the largest number to
    # infinity.
    bits = int(count) + away
    if place > _LEAST:
        bits += (place - _LEAST) << _FRACTION_BITS
    if bits >= _INFINITY:
        to_infinity = {
            FloatRounding.RN: True,
            FloatRounding.RZ: False,
            FloatRounding.RM: is_negative,
            FloatRounding.RP: not is_negative,
        }[rounding]
        bits = _INFINITY if to_infinity else _INFINITY - 1
    return bits | SIGN * is_negative
