"""Conversions between integer and floating-point types."""

from typing import NamedTuple

import numpy as np

from rtl.isa.kinds import FloatFormat
from rtl.isa.syntax import Values

from .bitwise import highest_bit
from .lanes import Bools, Doubles, Outcome, Sources, pair

__all__ = ["f2f", "f2i", "i2f", "i2i"]

_BITS_OF_SIZE = (8, 16, 32, 64)
_WORD_BITS, _WIDE = 32, 64


class Format(NamedTuple):
    """A floating-point format: bits of the fraction and of the exponent."""

    fraction: int
    exponent: int

    @property
    def bias(self) -> int:
        """What is added to an exponent."""
        return (1 << self.exponent - 1) - 1

    @property
    def infinity(self) -> int:
        """The pattern of +infinity."""
        return (1 << self.exponent) - 1 << self.fraction

    @property
    def sign(self) -> int:
        """The sign bit."""
        return 1 << self.fraction + self.exponent


_FORMATS = {FloatFormat.F32: Format(23, 8), FloatFormat.F64: Format(52, 11)}
_NEAREST, _DOWN, _UP, _ZERO = range(4)
"""The rounding field of both conversions: .RM is down, .RP up, .RZ to zero; FLOOR, CEIL, TRUNC likewise."""


def _u64(value: int) -> np.uint64:
    return np.uint64(value)


def _rounded(quotient: Doubles, rest: Doubles, half: Doubles, negative: Bools, mode: int) -> Doubles:
    """A magnitude rounded: ``rest`` of twice ``half`` was cut off below it."""
    if mode == _NEAREST:
        up = (rest > half) | ((rest == half) & (rest != 0) & (quotient & _u64(1) != 0))
    elif mode == _DOWN:
        up = negative & (rest != 0)
    elif mode == _UP:
        up = ~negative & (rest != 0)
    else:
        up = np.zeros_like(negative)
    return quotient + up.astype(np.uint64)


def _integer_source(sources: Sources, values: Values) -> tuple[Doubles, Bools]:
    """Magnitude and sign of operand b: of the source type, made absolute, then negated.

    The part of a register is selected where the type is narrower than one (elsewhere the selection has no
    effect: ours).
    """
    size, signed = _BITS_OF_SIZE[values["source"] & 3], values["source"] >> 2
    shift = np.uint32(8 * values["part"] if size < _WORD_BITS else 0)
    absolute, negate = values["absolute_b"], values["negate_b"]
    wide = pair(sources.b, sources.b_high) if size == _WIDE else (sources.b >> shift).astype(np.uint64)
    spare = _u64(_WIDE - size)
    number = (wide << spare).view(np.int64) >> spare.view(np.int64)
    negative = number < 0 if signed else np.zeros(number.shape, np.bool_)
    magnitude = np.where(negative, _u64(0) - number.view(np.uint64), (wide << spare) >> spare)
    if absolute:
        negative = np.zeros_like(negative)
    if negate:
        negative = ~negative
    return magnitude, negative


def _to_type(magnitude: Doubles, negative: Bools, size: int, signed: int, saturate: bool) -> Doubles:
    """A number in an integer type, kept at its nearest bound or cut to its size."""
    if saturate:
        highest, lowest = ((1 << size - 1) - 1, 1 << size - 1) if signed else ((1 << size) - 1, 0)
        magnitude = np.minimum(magnitude, np.where(negative, _u64(lowest), _u64(highest)))
    number = np.where(negative, _u64(0) - magnitude, magnitude)
    spare = _u64(_WIDE - size)
    cut = number << spare
    return (cut.view(np.int64) >> spare.view(np.int64)).view(np.uint64) if signed else cut >> spare


def _words(number: Doubles, wide: bool) -> Outcome:
    """A result in one register or two."""
    high = (number >> _u64(32)).astype(np.uint32) if wide else None
    return Outcome(number.astype(np.uint32), value_high=high)


def i2i(sources: Sources, values: Values) -> Outcome:
    """I2I: from one integer type to another; results narrower than a word are extended to it."""
    magnitude, negative = _integer_source(sources, values)
    size, signed = _BITS_OF_SIZE[values["destination"] & 3], values["destination"] >> 2
    return _words(_to_type(magnitude, negative, size, signed, bool(values["saturate"])), wide=False)


_WHOLE = {4: np.rint, 5: np.floor, 6: np.ceil, 7: np.trunc}
"""What F2F's rounding field does with a number."""


def f2f(sources: Sources, values: Values) -> Outcome:
    """F2F.F32.F32: the number, or an integer beside it. A NaN is 0x7fffffff, or +0 with ``.SAT`` (ours)."""
    sign, infinity = (np.uint32(getattr(_FORMATS[FloatFormat.F32], name)) for name in ("sign", "infinity"))
    whole = _WHOLE.get(values["round"])
    word = sources.b & ~sign if values["absolute_b"] else sources.b
    word = word ^ sign if values["negate_b"] else word
    if values["flush"]:
        word = np.where(word & infinity == 0, word & sign, word)
    nan = (word & ~sign) > infinity
    if whole is not None:
        with np.errstate(invalid="ignore"):
            word = whole(word.view(np.float32)).view(np.uint32)
    if values["saturate"]:
        one = np.float32(1).view(np.uint32)
        return Outcome(np.where(nan | (word & sign != 0), np.uint32(0), np.minimum(word, one)))
    return Outcome(np.where(nan, ~sign, word))


def i2f(sources: Sources, values: Values) -> Outcome:
    """I2F: an integer rounded to a floating-point format, of which even F32 has no integer of 64 bits as infinity."""
    (magnitude, negative), kind = _integer_source(sources, values), FloatFormat(values["destination"])
    target = _FORMATS[kind]
    top = highest_bit(magnitude)
    up = np.where(top < target.fraction, _u64(target.fraction) - top, _u64(0))
    down = np.where(top > target.fraction, top - _u64(target.fraction), _u64(0))
    rest = magnitude & (_u64(1) << down) - _u64(1)
    half = (_u64(1) << down) >> _u64(1)
    fraction = _rounded(magnitude << up >> down, rest, half, negative, values["round"])
    # The fraction's own top bit raises the exponent by one, a carry out of rounding by another.
    bits = ((top + _u64(target.bias - 1)) << _u64(target.fraction)) + fraction
    bits = np.where(magnitude == 0, _u64(0), bits | np.where(negative, _u64(target.sign), _u64(0)))
    return _words(bits, kind is FloatFormat.F64)


def _float_source(sources: Sources, values: Values) -> Doubles:
    """The pattern of operand b: a word or two."""
    is_long = FloatFormat(values["source"]) is FloatFormat.F64
    return pair(sources.b, sources.b_high) if is_long else sources.b.astype(np.uint64)


def f2i(sources: Sources, values: Values) -> Outcome:
    """F2I: a floating-point number rounded to an integer type, kept at its nearest bound. What is not a number
    gives 0, or the top bit alone where 64 bits are on either side, as the PTX manual has it for ``cvt``.
    """
    pattern, mode, source = _float_source(sources, values), values["round"], _FORMATS[FloatFormat(values["source"])]
    size, signed = _BITS_OF_SIZE[values["destination"] & 3], values["destination"] >> 2
    is_wide = size == _WIDE or source is _FORMATS[FloatFormat.F64]
    top_bit = (-1 if signed else 1) << size - 1
    no_number = _u64(top_bit & (1 << _WIDE) - 1 if is_wide else 0)
    negative = pattern & _u64(source.sign) != 0
    exponent = (pattern >> _u64(source.fraction)) & _u64((1 << source.exponent) - 1)
    fraction = pattern & _u64((1 << source.fraction) - 1)
    if values["absolute_b"]:
        negative = np.zeros_like(negative)
    if values["negate_b"]:
        negative = ~negative
    special = exponent == (1 << source.exponent) - 1
    if values["flush"]:
        fraction = np.where(exponent == 0, _u64(0), fraction)
    significand = np.where(exponent == 0, fraction, fraction | _u64(1 << source.fraction))
    power = np.maximum(exponent, _u64(1)).view(np.int64) - source.bias - source.fraction
    up = np.clip(power, 0, _WIDE - 1).astype(np.uint64)
    overflow = special | (power > _WIDE - 1 - source.fraction)
    # Beyond 62 places everything is cut off, and less than half of one.
    down = np.clip(-power, 0, _WIDE - 2).astype(np.uint64)
    rest, half = significand & (_u64(1) << down) - _u64(1), (_u64(1) << down) >> _u64(1)
    magnitude = _rounded(significand << up >> down, rest, half, negative, mode)
    magnitude = np.where(overflow, _u64((1 << _WIDE) - 1), magnitude)
    number = _to_type(magnitude, negative, size, signed, saturate=True)
    return _words(np.where(special & (fraction != 0), no_number, number), size == _WIDE)
