"""Operands for tests of double precision, and what MPFR makes of them."""

import random
from importlib import import_module
from typing import Any

import numpy as np

from rtl.isa.kinds import FloatRounding

__all__ = ["EDGES", "NAN", "SIGN", "as_double", "doubles", "fused"]

gmpy2: Any = import_module("gmpy2")       # it does not say of what types its functions are
_ROUNDINGS = {FloatRounding.RN: gmpy2.RoundToNearest, FloatRounding.RM: gmpy2.RoundDown,
              FloatRounding.RP: gmpy2.RoundUp, FloatRounding.RZ: gmpy2.RoundToZero}
NAN, SIGN = 0x7FF8 << 48, 1 << 63
_ONE, _INFINITY, _FRACTION = 0x3FF << 52, 0x7FF << 52, (1 << 52) - 1
EDGES = (0, 1, 2, 3, _FRACTION >> 1, _FRACTION, _FRACTION + 1, _FRACTION + 2, 1 << 53, _ONE - 1, _ONE, _ONE + 1,
         0x3FF8 << 48, 0x4000 << 48, 0x0340 << 48, 0x7CA0 << 48, _INFINITY - 1, _INFINITY - 2, _INFINITY, _INFINITY + 1,
         NAN, SIGN - 1)
"""Of each kind some, and those next to another kind; without their signs."""


def _near(source: random.Random, a: int, b: int) -> int:
    """A number about the size of a product, or a little beside it."""
    product = (a >> 52 & 0x7FF) + (b >> 52 & 0x7FF) - 0x3FF
    exponent = product + source.choice((-108, -55, -54, -53, -2, -1, 0, 1, 53, 54))
    return min(max(exponent, 0), 0x7FE) << 52


def _any(source: random.Random) -> int:
    kind = source.random()
    if kind < 0.2:
        return source.choice(EDGES)
    exponent = source.choice((source.getrandbits(11), 0x3FF + source.randrange(-3, 4), source.randrange(4),
                              0x3FF - 537))
    fraction = source.choice((source.getrandbits(52), source.getrandbits(52) & source.getrandbits(52)
                              & source.getrandbits(52), 0, _FRACTION, source.getrandbits(26) << 26,
                              1 << source.randrange(52)))
    return (exponent << 52 | fraction) & SIGN - 1


def doubles(source: random.Random, count: int) -> list[list[int]]:
    """Three operands of so many threads: edges, ties, sums that cancel, results beyond the ends of the range."""
    rows = []
    for _ in range(count):
        a, b, c = (_any(source) for _ in range(3))
        kind = source.random()
        if kind < 0.3:
            c = _near(source, a, b) | source.choice((source.getrandbits(52), 0, 1, _FRACTION))
        elif kind < 0.5:
            with gmpy2.context(precision=53, emin=-1073, emax=1024, subnormalize=True):
                c = (bits_of(gmpy2.mpfr(as_double(a)) * as_double(b)) + source.randrange(-1, 2)) % SIGN
        elif kind < 0.7:
            b = (a + source.randrange(-2, 3)) % SIGN if source.random() < 0.5 else a
        rows.append([number ^ SIGN * source.getrandbits(1) for number in (a, b, c)])
    return [list(column) for column in zip(*rows, strict=True)]


def as_double(bits: int) -> float:
    """The number that has these bits."""
    return float(np.array(bits, np.uint64).view(np.float64))


def bits_of(number: Any) -> int:
    """The bits of a number that double precision has."""
    return NAN if gmpy2.is_nan(number) else int(np.array(float(number), np.float64).view(np.uint64))


def fused(a: int, b: int, c: int, rounding: FloatRounding) -> int:
    """What MPFR, as wide as double precision is, makes of a * b + c."""
    with gmpy2.context(precision=53, emin=-1073, emax=1024, subnormalize=True, round=_ROUNDINGS[rounding]):
        return bits_of(gmpy2.fma(*(gmpy2.mpfr(as_double(bits)) for bits in (a, b, c))))
