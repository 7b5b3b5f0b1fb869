"""Conversions by Python's own integers and fractions, one thread at a time, from the fields of a word."""

import math
from fractions import Fraction

from rtl.isa.kinds import FloatFormat
from rtl.isa.syntax import Values

_SIZES = (8, 16, 32, 64)
_WORD = (1 << 32) - 1
_FORMATS = {FloatFormat.F16.value: (10, 5), FloatFormat.F32.value: (23, 8), FloatFormat.F64.value: (52, 11)}
"""Bits of fraction and exponent."""


def typed(pattern: int, code: int) -> int:
    """The value of the low bits of a pattern in an integer type: bits 0 and 1 of its code are the size, 2 the sign."""
    size = _SIZES[code & 3]
    pattern &= (1 << size) - 1
    return pattern - (1 << size) if code >> 2 and pattern >> size - 1 else pattern


def _bounds(code: int) -> tuple[int, int]:
    """The lowest and the highest value of an integer type."""
    size = _SIZES[code & 3]
    return (-1 << size - 1, (1 << size - 1) - 1) if code >> 2 else (0, (1 << size) - 1)


def _adjusted(value: int, values: Values) -> int:
    """An integer made absolute, then negated."""
    value = abs(value) if values["absolute_b"] else value
    return -value if values["negate_b"] else value


def _rounded(value: Fraction | int, mode: int) -> int:
    """To nearest (ties to even), down, up, to zero."""
    match mode:
        case 0:
            return round(value)
        case 1:
            return math.floor(value)
        case 2:
            return math.ceil(value)
        case _:
            return math.trunc(value)


def packed(value: Fraction | int, form: int, mode: int) -> int:
    """The pattern of a number that is not 0, in a format: beyond the largest number that or the infinity."""
    fraction, exponent = _FORMATS[form]
    bias, infinity = (1 << exponent - 1) - 1, (1 << exponent) - 1 << fraction
    power = abs(Fraction(value)).numerator.bit_length() - Fraction(value).denominator.bit_length()
    if abs(value) < Fraction(2) ** power:
        power -= 1
    power = max(power, 1 - bias)
    steps = abs(_rounded(Fraction(value) / Fraction(2) ** (power - fraction), mode))
    pattern = steps + (power + bias - 1 << fraction)
    if pattern >= infinity:
        pattern = infinity if mode in (0, 1 if value < 0 else 2) else infinity - 1
    return (value < 0) << fraction + exponent | pattern


def unpacked(pattern: int, form: int) -> Fraction | float:
    """The value of a pattern: infinities and what is no number as Python's."""
    fraction, exponent = _FORMATS[form]
    power, rest = pattern >> fraction & (1 << exponent) - 1, pattern & (1 << fraction) - 1
    negative = pattern >> fraction + exponent & 1
    if power == (1 << exponent) - 1:
        return math.nan if rest else -math.inf if negative else math.inf
    value = Fraction(rest | (1 << fraction if power else 0))
    value *= Fraction(2) ** (max(power, 1) - (1 << exponent - 1) + 1 - fraction)
    return -value if negative else value


def _source(pattern: int, values: Values) -> tuple[bool, Fraction | float]:
    """The sign and the magnitude of a floating-point source, as the instruction wants them."""
    form = values["source"]
    pattern = pattern >> 16 * values.get("part", 0) & (1 << _SIZES[form]) - 1
    negative = bool(pattern >> _SIZES[form] - 1 and not values["absolute_b"]) != bool(values["negate_b"])
    magnitude = abs(unpacked(pattern, form))
    if values["flush"] and form == FloatFormat.F32.value and magnitude < Fraction(2) ** -126:
        magnitude = Fraction(0)
    return negative, magnitude


def _f2i(pattern: int, values: Values) -> int:
    form, code = values["source"], values["destination"]
    (negative, magnitude), (lowest, highest) = _source(pattern, values), _bounds(code)
    if isinstance(magnitude, float) and math.isnan(magnitude):
        size = _SIZES[code & 3]
        return typed(1 << size - 1, code) if size == 64 or form == FloatFormat.F64.value else 0
    if isinstance(magnitude, float):
        return lowest if negative else highest
    return min(max(_rounded(-magnitude if negative else magnitude, values["round"]), lowest), highest)


def _f2f(pattern: int, values: Values) -> int:
    form, (negative, magnitude) = values["destination"], _source(pattern, values)
    fraction, exponent = _FORMATS[form]
    sign, infinity = 1 << fraction + exponent, (1 << exponent) - 1 << fraction
    if math.isnan(magnitude):
        no_number = infinity | 1 << fraction - 1 if form == FloatFormat.F64.value else sign - 1
        return 0 if values["saturate"] else no_number
    if values.get("whole", 0) and isinstance(magnitude, Fraction):
        magnitude = Fraction(abs(_rounded(-magnitude if negative else magnitude, values["whole"] & 3)))
    if values["saturate"]:
        magnitude = Fraction(0) if negative else min(magnitude, Fraction(1))
        negative = False
    if not isinstance(magnitude, Fraction):
        result = infinity
    else:
        rounded = -magnitude if negative else magnitude
        result = packed(rounded, form, values.get("round", 0)) & ~sign if magnitude else 0
    if values["flush"] and form == FloatFormat.F32.value and result < 1 << fraction:
        result = 0
    return result | sign * negative


def is_wide(name: str, values: Values) -> bool:
    """Whether the result has two registers."""
    return name in ("I2F", "F2I", "F2F") and values["destination"] & 3 == 3


def formula(name: str, values: Values, pattern: int) -> int:
    """What an instruction makes of a source of 64 bits (its upper half counts only if the type is so wide), as the bits
    of one or two registers."""
    word = pattern & _WORD
    result = 0
    match name:
        case "POPC":
            result = (word ^ -values["invert_b"] & _WORD).bit_count()
        case "FLO":
            word ^= -values["invert_b"] & _WORD
            word ^= _WORD if values["signed"] and word >> 31 else 0
            result = word.bit_length() - 1
            result = 31 - result if values["shift"] and word else result
        case "I2I" | "I2F":
            narrow = values["source"] & 3 < 2
            value = typed(pattern >> 8 * values["part"] if narrow else pattern, values["source"])
            value = _adjusted(value, values)
            if name == "I2F":
                result = packed(value, values["destination"], values["round"]) if value else 0
            elif values["saturate"]:
                lowest, highest = _bounds(values["destination"])
                result = min(max(value, lowest), highest)
            else:
                result = typed(value, values["destination"])
        case "F2I":
            result = _f2i(pattern, values)
        case "F2F":
            result = _f2f(pattern, values)
    return result & ((1 << 64) - 1 if is_wide(name, values) else _WORD)


def condition_of(name: str, values: Values, result: int) -> int:
    """CC of a result: Z in bit 0, S in bit 1."""
    return (result == 0) | (result >> (63 if is_wide(name, values) else 31) & 1) << 1
