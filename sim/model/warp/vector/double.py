"""Double-precision arithmetic and comparisons, on vectors; the host computes them where it rounds
to nearest.

The host lacks fused multiply-add and the other rounding directions. There the result is the
quotient of two integers, which Python rounds to nearest; the other directions then differ from it
by at most one step. Choices where no public page has a rule are described in
:mod:`sim.model.thread.double`.
"""

from math import copysign, inf, nextafter

import numpy as np
from numpy.typing import NDArray

from rtl.isa.kinds import FloatRounding
from rtl.isa.syntax import Values

from .comparison import set_predicates, set_register
from .lanes import Doubles, LaneOutcome, Sources, bools_of, mask_of, pair
from .single import related

__all__ = ["dadd", "dfma", "dmnmx", "dmul", "dset", "dsetp"]

_SIGN, _NAN = np.uint64(1 << 63), np.uint64(0x7FF8 << 48)
_Numbers = NDArray[np.float64]


def _operand(sources: Sources, values: Values, name: str) -> _Numbers:
    """An operand with the instruction's negation and absolute value applied."""
    word = pair(getattr(sources, name), getattr(sources, f"{name}_high"))
    if values.get(f"absolute_{name}", 0):
        word = word & ~_SIGN
    return (word ^ _SIGN if values.get(f"negate_{name}", 0) else word).view(np.float64)


def _outcome(result: _Numbers) -> LaneOutcome:
    word: Doubles = np.where(np.isnan(result), _NAN, result.view(np.uint64))
    return LaneOutcome(word.astype(np.uint32), value_high=(word >> np.uint64(32)).astype(np.uint32))


def _zero(negative: bool, other: bool, rounding: FloatRounding) -> float:
    """Returns the zero that a sum of zeros of these signs gives."""
    return -0.0 if (negative if negative == other else rounding is FloatRounding.RM) else 0.0


def _exact(a: float, b: float, c: float, rounding: FloatRounding) -> float:
    """Computes a * b + c of finite numbers, rounded once."""
    (p, q), (r, s), (t, u) = a.as_integer_ratio(), b.as_integer_ratio(), c.as_integer_ratio()
    above, below = p * r * u + t * q * s, q * s * u
    if not above:
        return _zero(copysign(1, a) != copysign(1, b), copysign(1, c) < 0, rounding)
    sign = -1 if above < 0 else 1
    try:
        nearest = above / below
    except OverflowError:
        nearest = sign * inf
    if rounding is FloatRounding.RN:
        return nearest
    if nearest in (inf, -inf):
        inwards, exact = nextafter(nearest, 0), False
    else:
        top, bottom = nearest.as_integer_ratio()
        farther = sign * (top * below - above * bottom)
        inwards, exact = nextafter(nearest, 0) if farther > 0 else nearest, not farther
    outwards = rounding is (FloatRounding.RM if sign < 0 else FloatRounding.RP)
    result = nextafter(inwards, sign * inf) if outwards and not exact else inwards
    return copysign(result, sign)


def _fused(a: _Numbers, b: _Numbers, c: _Numbers, rounding: FloatRounding) -> _Numbers:
    """Computes a * b + c, rounded once."""
    if not isinstance(a, np.ndarray):
        return a.fused(
            b, c, rounding
        )  # A recorded vector becomes an FMA in C, equal to the code below.
    with np.errstate(all="ignore"):
        result = np.where(np.isfinite(a) & np.isfinite(b), c, a * b + c)
    for thread in np.flatnonzero(np.isfinite(a) & np.isfinite(b) & np.isfinite(c)):
        result[thread] = _exact(float(a[thread]), float(b[thread]), float(c[thread]), rounding)
    return result


def dadd(sources: Sources, values: Values) -> LaneOutcome:
    """DADD: a + b."""
    a, b, rounding = (
        _operand(sources, values, "a"),
        _operand(sources, values, "b"),
        FloatRounding(values["round"]),
    )
    if rounding is not FloatRounding.RN:
        return _outcome(_fused(a, np.ones_like(a), b, rounding))
    with np.errstate(all="ignore"):
        return _outcome(a + b)


def dmul(sources: Sources, values: Values) -> LaneOutcome:
    """DMUL: a * b."""
    a, b, rounding = (
        _operand(sources, values, "a"),
        _operand(sources, values, "b"),
        FloatRounding(values["round"]),
    )
    if rounding is not FloatRounding.RN:
        # Adding a zero of the product's sign changes nothing.
        return _outcome(_fused(a, b, np.copysign(0.0, a) * np.copysign(1.0, b), rounding))
    with np.errstate(all="ignore"):
        return _outcome(a * b)


def dfma(sources: Sources, values: Values) -> LaneOutcome:
    """DFMA: a * b + c."""
    a, b, c = (_operand(sources, values, name) for name in "abc")
    return _outcome(_fused(a, b, c, FloatRounding(values["round"])))


def dmnmx(sources: Sources, values: Values) -> LaneOutcome:
    """DMNMX: the minimum of a and b where the predicate holds, else the maximum."""
    x, y = _operand(sources, values, "a"), _operand(sources, values, "b")
    less = (x < y) | ((x == y) & np.signbit(x))
    chosen = np.where(less == bools_of(sources.x), x, y)
    return _outcome(np.where(np.isnan(y), x, np.where(np.isnan(x), y, chosen)))


def _relation(sources: Sources, values: Values) -> int:
    return mask_of(
        related(values["compare"], _operand(sources, values, "a"), _operand(sources, values, "b"))
    )


dsetp, dset = set_predicates(_relation), set_register(_relation)
