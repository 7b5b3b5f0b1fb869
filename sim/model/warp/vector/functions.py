"""MUFU and RRO on vectors: the arithmetic of :mod:`rtl.isa.functions` in integers, step by step as
in the hardware.

Subnormal operands and results are zeros; compiled code scales both where it needs them. NaN is
0x7fffffff. ``.SAT`` makes +0 of negative numbers and of NaN (ours).
"""

import numpy as np
from numpy.typing import NDArray

from rtl.isa.functions import (
    DISTANCE_BITS,
    FIRST_ROWS,
    FRACTION_BITS,
    INTERVAL_BITS,
    OF_DOUBLES,
    TURN,
    UNIT,
    rows,
)
from rtl.isa.kinds import FloatRange, MultiFunction
from rtl.isa.syntax import Values

from .lanes import LaneOutcome, Sources, Words

__all__ = ["mufu", "rro"]

_Integers = NDArray[np.int64]
_SIGN, _NAN, _ONE = (np.uint32(word) for word in (0x8000_0000, 0x7FFF_FFFF, 0x3F80_0000))
_FRACTION, _BIAS = 23, 127
_UPPER_FRACTION, _UPPER_BIAS = 20, 1023
"""Width of the fraction and exponent bias of a double's upper word."""
_ROWS = np.array(rows(), np.int64)


def _value(function: MultiFunction, fraction: _Integers, half: _Integers | int = 0) -> _Integers:
    """Evaluates a function at a fraction of FRACTION_BITS; ``half`` of 1 selects the upper half of
    its rows.
    """
    low = FRACTION_BITS - INTERVAL_BITS[function]
    row = FIRST_ROWS[function] + (half << INTERVAL_BITS[function]) + (fraction >> low)
    c0, c1, c2 = _ROWS[row].T if isinstance(row, np.ndarray) else row.picked(_ROWS)
    d = ((fraction & (1 << low) - 1) << DISTANCE_BITS - low) - (1 << DISTANCE_BITS - 1)
    return c0 + (c1 * d + 2 * c2 * (d * d >> DISTANCE_BITS) >> DISTANCE_BITS - 1)


def _fixed(significand: _Integers, exponent: _Integers, places: int) -> _Integers:
    """Returns a number as a fixed-point integer with ``places`` fraction bits; lower bits are cut
    off.
    """
    up = exponent - _BIAS - _FRACTION + places
    return np.where(up >= 0, significand << np.clip(up, 0, 38), significand >> np.clip(-up, 0, 63))


def _approximated(function: MultiFunction, word: Words) -> Words:
    """Evaluates a function; ``word`` is the operand with the instruction's sign applied."""
    upper = function in OF_DOUBLES
    bits, bias = (_UPPER_FRACTION, _UPPER_BIAS) if upper else (_FRACTION, _BIAS)
    infinity = _infinity(function)
    negative, exponent = word & _SIGN != 0, (word & infinity).astype(np.int64) >> bits
    fraction = (word & np.uint32((1 << bits) - 1)).astype(np.int64)
    zero, infinite, none = exponent == 0, word & ~_SIGN == infinity, (word & ~_SIGN) > infinity
    significand, high = fraction | 1 << bits, fraction << FRACTION_BITS - bits
    power, empty, full = exponent - bias, np.zeros_like(zero), np.zeros_like(zero)
    sign, function = negative, OF_DOUBLES.get(function, function)
    match function:
        case MultiFunction.RCP:
            value, scale, empty, full = _value(function, high), -power, infinite, zero
        case MultiFunction.RSQ:
            value, scale, empty, full = (
                _value(function, high, power & 1),
                -(power >> 1),
                infinite,
                zero,
            )
            none = none | negative & ~zero
        case MultiFunction.LG2:
            value = _value(function, high)
            value = np.where(
                power < 0, ~power << UNIT | (1 << UNIT) - 1 - value, power << UNIT | value
            )
            scale, full, none = np.zeros_like(power), zero | infinite, none | negative & ~zero
            sign = np.where(zero, True, power < 0) & ~infinite
        case MultiFunction.EX2:
            beyond = exponent >= _BIAS + 7
            fixed = np.where(zero | beyond, 0, _fixed(significand, exponent, FRACTION_BITS))
            fixed = np.where(negative, -fixed, fixed)
            value, scale = (
                _value(function, fixed & (1 << FRACTION_BITS) - 1),
                (fixed >> FRACTION_BITS) + 1,
            )
            full, empty, sign = beyond & ~negative, beyond & negative, np.zeros_like(negative)
        case _:
            turned = np.where(
                zero | (exponent > _BIAS + _FRACTION),
                0,
                _fixed(significand, exponent, FRACTION_BITS + 2),
            )
            quarter = turned >> FRACTION_BITS & 3
            if function is MultiFunction.COS:
                quarter, sign = quarter + 1, np.zeros_like(negative)
            fraction = turned & (1 << FRACTION_BITS) - 1
            fraction = np.where(quarter & 1, (1 << FRACTION_BITS) - 1 - fraction, fraction)
            value, scale = _value(MultiFunction.SIN, fraction), np.zeros_like(power)
            none, sign = none | infinite, sign ^ (quarter & 2 != 0)
    number = np.ldexp(value.astype(np.float64), (scale - UNIT).astype(np.int32))
    result = _rounded(np.where(empty | (number < 2.0 ** (1 - bias)), 0.0, number), upper)
    return np.where(
        none, _NAN, np.where(full, infinity, result) | np.where(sign, _SIGN, np.uint32(0))
    )


def _infinity(function: MultiFunction) -> np.uint32:
    """Returns the bits of infinity in the function's number format."""
    return np.uint32(0x7FF0_0000 if function in OF_DOUBLES else 0x7F80_0000)


def _rounded(number: NDArray[np.float64], upper: bool) -> Words:
    """Rounds a number >= 0 to nearest: to a single, or to the ``upper`` word of a double."""
    if upper:
        word = number.view(np.uint64)
        rounding = np.uint64((1 << 31) - 1) + (word >> np.uint64(32) & np.uint64(1))
        return (word + rounding >> np.uint64(32)).astype(np.uint32)
    with np.errstate(over="ignore"):
        return number.astype(np.float32).view(np.uint32)


def mufu(sources: Sources, values: Values) -> LaneOutcome:
    """MUFU."""
    function = MultiFunction(values["function"])
    a = sources.a & ~_SIGN if values["absolute_a"] else sources.a
    result = _approximated(function, a ^ _SIGN if values["negate_a"] else a)
    if values["saturate"]:
        one = np.uint32(_UPPER_BIAS << _UPPER_FRACTION) if function in OF_DOUBLES else _ONE
        nothing = (result & _SIGN != 0) | (result > _infinity(function))
        result = np.where(nothing, np.uint32(0), np.minimum(result, one))
    return LaneOutcome(result)


def rro(sources: Sources, values: Values) -> LaneOutcome:
    """RRO: the operand of MUFU for b: revolutions for SIN and COS, the number itself for EX2
    (ours).
    """
    factor = np.array(
        [TURN if values["mode"] == FloatRange.SINCOS.value else _ONE], np.uint32
    ).view(np.float32)
    b = sources.b & ~_SIGN if values["absolute_b"] else sources.b
    with np.errstate(all="ignore"):
        product = (b ^ _SIGN if values["negate_b"] else b).view(np.float32) * factor
    return LaneOutcome(np.where(np.isnan(product), _NAN, product.view(np.uint32)))
