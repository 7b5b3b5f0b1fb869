"""MUFU and RRO in fractions: table look-up and quadratic interpolation.

Choices of this project where no public page has a rule: the table and its arithmetic
(:mod:`rtl.isa.functions`). Subnormal operands and results are zeros of their sign; compiled code
scales both to avoid them. A NaN is 0x7fffffff; with .SAT, a NaN or a negative result is +0.
RRO.SINCOS divides by 2 * pi; RRO.EX2 returns its operand.
"""

from fractions import Fraction
from math import floor

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

from .decode import Result, ThreadInstruction, result_of
from .floats import SINGLE, Format, Rounding, Special, decode, encode, infinity, not_a_number
from .integers import TOP
from .state import Thread

__all__: list[str] = []

_TABLE = rows()
_NAN, _INFINITY, _ONE = not_a_number(SINGLE), infinity(False, SINGLE), 0x3F80_0000
_UPPER = Format(20, 11)
"""The format of a double's upper word."""
_RESOLUTION = Fraction(1, 1 << FRACTION_BITS)


def _interpolated(function: MultiFunction, fraction: Fraction, more_rows: int = 0) -> Fraction:
    """Interpolates a function at a fraction in [0, 1), from the table's row ``more_rows`` behind
    its first on.
    """
    intervals = 1 << INTERVAL_BITS[function]
    interval = floor(fraction * intervals)
    c0, c1, c2 = _TABLE[FIRST_ROWS[function] + more_rows + interval]
    u = 2 * (fraction * intervals - interval) - 1
    square = Fraction(floor(u * u * (1 << DISTANCE_BITS - 2)), 1 << DISTANCE_BITS - 2)
    return Fraction(c0 + floor(c1 * u + c2 * square), 1 << UNIT)


def _power(number: Fraction) -> int:
    """Returns the exponent of the highest bit of a positive number whose denominator is a power of
    two.
    """
    return number.numerator.bit_length() - number.denominator.bit_length()


def _cut(number: Fraction, step: Fraction) -> Fraction:
    return floor(number / step) * step


def _of_power(function: MultiFunction, number: Fraction) -> Fraction:
    """Computes a reciprocal, a reciprocal square root, or a logarithm of a positive number."""
    power = _power(number)
    fraction = number / Fraction(2) ** power - 1
    match function:
        case MultiFunction.RCP:
            return _interpolated(function, fraction) / Fraction(2) ** power
        case MultiFunction.RSQ:
            odd = power % 2
            return _interpolated(function, fraction, odd << INTERVAL_BITS[function]) / Fraction(
                2
            ) ** (power // 2)
    logarithm = power + _interpolated(function, fraction)
    # Below 1 all bits of the fraction are inverted, which replaces a subtraction.
    return logarithm if power >= 0 else logarithm + Fraction(1, 1 << UNIT)


def _of_turns(function: MultiFunction, number: Fraction, negative: bool) -> tuple[bool, Fraction]:
    quarters = _cut(4 * number, _RESOLUTION) if number < 1 << SINGLE.fraction + 1 else Fraction(0)
    if function is MultiFunction.COS:
        quarters, negative = quarters + 1, False
    quarter, fraction = divmod(quarters, 1)
    if quarter % 2:
        fraction = 1 - _RESOLUTION - fraction
    return negative != (quarter % 4 >= 2), _interpolated(MultiFunction.SIN, fraction)


def _result(negative: bool, value: Fraction, form: Format = SINGLE) -> int:
    sign = TOP if negative else 0
    if value < Fraction(1, 1 << form.bias - 1):
        return sign
    return encode(
        negative, value.numerator, -_power(Fraction(value.denominator)), form, Rounding.NEAREST_EVEN
    )


def _special(function: MultiFunction, negative: bool, infinite: bool, form: Format = SINGLE) -> int:
    """Returns the result for an infinity or a zero."""
    sign = TOP if negative else 0
    match function:
        case MultiFunction.RCP:
            return sign if infinite else infinity(negative, form)
        case MultiFunction.RSQ:
            return infinity(negative, form) if not infinite else _NAN if negative else 0
        case MultiFunction.LG2:
            return TOP | _INFINITY if not infinite else _NAN if negative else _INFINITY
        case MultiFunction.EX2:
            return _ONE if not infinite else 0 if negative else _INFINITY
        case MultiFunction.SIN:
            return _NAN if infinite else sign
    return _NAN if infinite else _ONE


def _form(function: MultiFunction) -> Format:
    """Returns the number format of a function."""
    return _UPPER if function in OF_DOUBLES else SINGLE


def _calculated(function: MultiFunction, bits: int) -> int:
    form, function = _form(function), OF_DOUBLES.get(function, function)
    number = decode(bits, form)
    negative = number[0]
    if number[1] is Special.NAN:
        return _NAN
    if len(number) == 2 or not bits & infinity(False, form):
        return _special(function, negative, len(number) == 2, form)
    value = number[1] * Fraction(2) ** number[2]
    match function:
        case MultiFunction.SIN | MultiFunction.COS:
            return _result(*_of_turns(function, value, negative))
        case MultiFunction.EX2:
            if value >= SINGLE.bias + 1:
                return _special(function, negative, True)
            value = _cut(value, _RESOLUTION)
            whole, fraction = divmod(-value if negative else value, 1)
            return _result(False, _interpolated(function, fraction) * Fraction(2) ** (whole + 1))
        case MultiFunction.RSQ | MultiFunction.LG2 if negative:
            return _NAN
        case MultiFunction.LG2:
            logarithm = _of_power(function, value)
            return _result(value < 1, abs(logarithm))
    return _result(negative, _of_power(function, value), form)


@result_of("MUFU")
def _function(i: ThreadInstruction) -> Result:
    a, function = i.source("a"), MultiFunction(i["function"])
    absolute, negate, saturate = i["absolute_a"], i["negate_a"], i["saturate"]

    def compute(thread: Thread) -> int:
        bits = thread.values[a]
        if absolute:
            bits &= ~TOP
        if negate:
            bits ^= TOP
        result = _calculated(function, bits)
        if saturate:
            form = _form(function)
            result = (
                0 if result > infinity(False, form) else min(result, form.bias << form.fraction)
            )
        return result

    return compute


@result_of("RRO")
def _prepared(i: ThreadInstruction) -> Result:
    """Returns the operand in revolutions for SIN and COS, or unchanged for EX2."""
    b, absolute, negate = i.source("b"), i["absolute_b"], i["negate_b"]
    factor = decode(TURN if i["mode"] == FloatRange.SINCOS.value else _ONE, SINGLE)
    assert len(factor) == 3

    def compute(thread: Thread) -> int:
        number = decode(thread.values[b], SINGLE)
        negative = (number[0] and not absolute) != bool(negate)
        if len(number) == 3:
            result = encode(
                negative,
                number[1] * factor[1],
                number[2] + factor[2],
                SINGLE,
                Rounding.NEAREST_EVEN,
            )
        else:
            result = _NAN if number[1] is Special.NAN else infinity(negative, SINGLE)
        return result

    return compute
