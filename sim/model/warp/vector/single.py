"""Single-precision arithmetic and comparisons, on vectors, in double precision.

A product of two floats is exact as a double. Its sum with a third float is rounded to odd: if it is
inexact, the last bit is 1. A double has so many more bits than a float that rounding this sum again
equals rounding the exact sum. Choices where no public page has a rule are described in
:mod:`sim.model.thread.single`.
"""

import numpy as np
from numpy.typing import NDArray

from rtl.isa.kinds import FloatCompare, FloatFlush, FloatRounding, ProductScale, SwizzledSum
from rtl.isa.syntax import Values

from .comparison import set_predicates, set_register
from .lanes import Bools, LaneOutcome, Sources, Words, bools_of, mask_of, uniform

__all__ = [
    "fadd",
    "fchk",
    "fcmp",
    "ffma",
    "float_sum",
    "float_sums",
    "fmnmx",
    "fmul",
    "fset",
    "fsetp",
    "fswzadd",
    "related",
]

_SIGN, _MAGNITUDE, _INFINITY = (
    np.uint32(0x8000_0000),
    np.uint32(0x7FFF_FFFF),
    np.uint32(0x7F80_0000),
)
_NAN, _ONE, _SMALLEST = np.uint32(0x7FFF_FFFF), np.uint32(0x3F80_0000), np.uint32(0x0080_0000)
_SCALES = {
    ProductScale.D2.value: 0.5,
    ProductScale.D4.value: 0.25,
    ProductScale.D8.value: 0.125,
    ProductScale.M8.value: 8.0,
    ProductScale.M4.value: 4.0,
    ProductScale.M2.value: 2.0,
}
_FMZ = FloatFlush.FMZ.value
_ROUNDINGS = {rounding.value: rounding for rounding in FloatRounding}
_Numbers = NDArray[np.float64]
_Floats = NDArray[np.float32] | NDArray[np.float64]


def _flushed(words: Words, flush: int) -> Words:
    if not flush:
        return words
    return np.where((words & _MAGNITUDE) < _SMALLEST, words & _SIGN, words)


def _operand(sources: Sources, values: Values, name: str) -> Words:
    """Returns an operand with its absolute value and negation applied, flushed if the instruction
    flushes.
    """
    words = getattr(sources, name)
    if values.get(f"absolute_{name}", 0):
        words = words & _MAGNITUDE
    if values.get(f"negate_{name}", 0):
        words = words ^ _SIGN
    return _flushed(words, values.get("flush", 0))


def _numbers(words: Words) -> _Numbers:
    return words.view(np.float32).astype(np.float64)


def _sum_to_odd(x: _Numbers, y: _Numbers) -> _Numbers:
    """Computes x + y rounded to odd: the last bit is 1 if the sum is inexact. Infinities and NaN
    count as exact.
    """
    total = x + y
    part = total - x
    lost = (x - (total - part)) + (y - part)
    bits = total.view(np.int64)
    # Step toward zero if the sum was rounded away from it; then set the last bit.
    is_inexact = (lost != 0) & np.isfinite(total)
    outwards = is_inexact & ((lost < 0) == (total > 0))
    bits = np.where(outwards, bits - 1, bits)
    return np.where(is_inexact, bits | 1, bits).view(np.float64)


def _to_single(total: _Numbers, rounding: FloatRounding) -> Words:
    """Rounds to single precision; NaN stays NaN."""
    nearest = total.astype(np.float32)
    if rounding is FloatRounding.RN:
        result = nearest
    else:
        inwards = np.where(
            np.abs(nearest.astype(np.float64)) > np.abs(total),
            np.nextafter(nearest, np.float32(0)),
            nearest,
        )
        exact = (inwards.astype(np.float64) == total) | ~np.isfinite(total)
        outwards = np.where(
            exact, inwards, np.nextafter(inwards, np.copysign(np.float32(np.inf), inwards))
        )
        match rounding:
            case FloatRounding.RZ:
                result = inwards
            case FloatRounding.RM:
                result = np.where(np.signbit(total), outwards, inwards)
            case FloatRounding.RP:
                result = np.where(np.signbit(total), inwards, outwards)
    return np.where(np.isnan(total), _NAN, result.astype(np.float32).view(np.uint32))


def _fused(values: Values, a: Words, b: Words, c: Words | None) -> LaneOutcome:
    """Returns a product, plus the addend if there is one, rounded once."""
    rounding = _ROUNDINGS[values.get("round", 0)]
    scale = _SCALES.get(values.get("scale", 0))
    flush, saturate = values["flush"], values.get("saturate", 0)
    with np.errstate(all="ignore"):
        product = _numbers(a) * _numbers(b)
        if scale is not None:
            product = product * scale
        if flush == _FMZ:
            product = np.where(((a & _MAGNITUDE) == 0) | ((b & _MAGNITUDE) == 0), 0.0, product)
        total = product
        if c is not None:
            addend = _numbers(c)
            total = _sum_to_odd(product, addend)
            if rounding is FloatRounding.RM:
                cancels = (
                    np.isfinite(product)
                    & (product == -addend)
                    & ((product != 0) | (np.signbit(product) != np.signbit(addend)))
                )
                total = np.where(cancels, -0.0, total)
        result = _flushed(_to_single(total, rounding), flush)
    if saturate:
        result = np.where(
            ((result & _SIGN) != 0) | (result > _INFINITY), np.uint32(0), np.minimum(result, _ONE)
        )
    return LaneOutcome(result)


def fadd(sources: Sources, values: Values) -> LaneOutcome:
    """FADD: a + b."""
    return _fused(
        values, _operand(sources, values, "a"), uniform(int(_ONE)), _operand(sources, values, "b")
    )


def float_sums(old: Words, operand: Words) -> Words:
    """Returns the new values of atomic float additions: rounded to nearest, flushed."""
    a, b = (_flushed(words, FloatFlush.FTZ.value) for words in (old, operand))
    with np.errstate(all="ignore"):
        total = _to_single(_sum_to_odd(_numbers(a), _numbers(b)), FloatRounding.RN)
    return _flushed(total, FloatFlush.FTZ.value)


def float_sum(old: int, operand: int) -> int:
    """Returns the new value of one atomic float addition; see :func:`float_sums`."""
    return int(float_sums(*(np.array([word], np.uint32) for word in (old, operand)))[0])


def fswzadd(sources: Sources, values: Values) -> LaneOutcome:
    """FSWZADD: a + b, b - a, a - b, or 0 + b, selected by the thread's position in its quad."""
    places = np.arange(len(sources.a)) % 4
    sums = values["swizzle"] >> 2 * (3 - places) & 3
    a = np.where(sums == SwizzledSum.NP.value, sources.a ^ _SIGN, sources.a)
    a = np.where(sums == SwizzledSum.ZP.value, np.uint32(0), a)
    b = np.where(sums == SwizzledSum.PN.value, sources.b ^ _SIGN, sources.b)
    return _fused(
        values, _flushed(a, values["flush"]), uniform(int(_ONE)), _flushed(b, values["flush"])
    )


def fmul(sources: Sources, values: Values) -> LaneOutcome:
    """FMUL: a * b, scaled by a power of two."""
    return _fused(values, _operand(sources, values, "a"), _operand(sources, values, "b"), None)


def ffma(sources: Sources, values: Values) -> LaneOutcome:
    """FFMA: a * b + c."""
    a, b, c = (_operand(sources, values, name) for name in "abc")
    return _fused(values, a, b, c)


def related(compare: int, left: _Floats, right: _Floats) -> Bools:
    """Returns where the relation of the left number to the right one holds."""
    unordered = np.isnan(left) | np.isnan(right)
    held = np.zeros_like(unordered)
    for bit, outcome in (
        (FloatCompare.LT, left < right),
        (FloatCompare.EQ, left == right),
        (FloatCompare.GT, left > right),
        (FloatCompare.NAN, unordered),
    ):
        if compare & bit.value:
            held = held | outcome
    return held


def _relation(sources: Sources, values: Values) -> int:
    a, b = _operand(sources, values, "a"), _operand(sources, values, "b")
    return mask_of(related(values["compare"], a.view(np.float32), b.view(np.float32)))


fsetp, fset = set_predicates(_relation), set_register(_relation)


def fcmp(sources: Sources, values: Values) -> LaneOutcome:
    """FCMP: a where the relation holds of c and 0, else b."""
    c = _operand(sources, values, "c").view(np.float32)
    holds = related(values["compare"], c, np.zeros_like(c))
    return LaneOutcome(np.where(holds, sources.a, sources.b))


def fmnmx(sources: Sources, values: Values) -> LaneOutcome:
    """FMNMX: the minimum of a and b where the predicate holds, else the maximum."""
    a, b = _operand(sources, values, "a"), _operand(sources, values, "b")
    x, y = a.view(np.float32), b.view(np.float32)
    less = (x < y) | ((x == y) & (a > b))
    chosen = np.where(less == bools_of(sources.x), a, b)
    chosen = np.where(np.isnan(y), a, np.where(np.isnan(x), b, chosen))
    return LaneOutcome(np.where(np.isnan(x) & np.isnan(y), _NAN, chosen))


def fchk(sources: Sources, values: Values) -> LaneOutcome:
    """FCHK: whether the division of a by b needs the slow path."""
    a, b = (
        (_operand(sources, values, name) >> np.uint32(23) & np.uint32(0xFF)).astype(np.int32)
        for name in "ab"
    )
    long = (a < 30) | (a > 254) | (b < 1) | (b > 252) | (a - b < -124) | (a - b > 125)
    return LaneOutcome(p=mask_of(long))
