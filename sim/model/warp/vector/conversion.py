"""Conversions between integer and floating-point types."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtl.isa.kinds import FloatFormat
from rtl.isa.syntax import Values

from .bitwise import highest_bit
from .lanes import Bools, Doubles, LaneOutcome, Sources, pair

__all__ = ["f2f", "f2i", "i2f", "i2i"]

_BITS_OF_SIZE = (8, 16, 32, 64)
_WORD_BITS, _WIDE = 32, 64


class FloatBits(NamedTuple):
    """A floating-point format: widths in bits of the fraction and of the exponent."""

    fraction: int
    exponent: int

    @property
    def bias(self) -> int:
        """The bias of the stored exponent."""
        return (1 << self.exponent - 1) - 1

    @property
    def infinity(self) -> int:
        """The pattern of +infinity."""
        return (1 << self.exponent) - 1 << self.fraction

    @property
    def sign(self) -> int:
        """The sign bit."""
        return 1 << self.fraction + self.exponent


_FORMATS = {
    FloatFormat.F16: FloatBits(10, 5),
    FloatFormat.F32: FloatBits(23, 8),
    FloatFormat.F64: FloatBits(52, 11),
}
_NEAREST, _DOWN, _UP, _ZERO = range(4)
"""The rounding field of conversions: .RM is down, .RP up, .RZ toward zero; FLOOR, CEIL, TRUNC
likewise.
"""


def _u64(value: int) -> np.uint64:
    return np.uint64(value)


def _rounded(
    quotient: Doubles, rest: Doubles, half: Doubles, negative: Bools, mode: int
) -> Doubles:
    """Rounds a magnitude; ``rest``, out of twice ``half``, is the fraction that was cut off."""
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
    """Returns magnitude and sign of operand b: of the source type, made absolute, then negated.

    The part of a register is selected where the type is narrower than one; elsewhere the selection
    has no effect (ours).
    """
    size, signed = _BITS_OF_SIZE[values["source"] & 3], values["source"] >> 2
    shift = np.uint32(8 * values["part"] if size < _WORD_BITS else 0)
    absolute, negate = values["absolute_b"], values["negate_b"]
    wide = (
        pair(sources.b, sources.b_high) if size == _WIDE else (sources.b >> shift).astype(np.uint64)
    )
    spare = _u64(_WIDE - size)
    number = (wide << spare).view(np.int64) >> spare.view(np.int64)
    negative = number < 0 if signed else np.zeros(number.shape, np.bool_)
    magnitude = np.where(negative, _u64(0) - number.view(np.uint64), (wide << spare) >> spare)
    if absolute:
        negative = np.zeros_like(negative)
    if negate:
        negative = ~negative
    return magnitude, negative


def _to_type(
    magnitude: Doubles, negative: Bools, size: int, signed: int, saturate: bool
) -> Doubles:
    """Converts a number to an integer type: clamps it, or cuts it to the type's size."""
    if saturate:
        highest, lowest = ((1 << size - 1) - 1, 1 << size - 1) if signed else ((1 << size) - 1, 0)
        magnitude = np.minimum(magnitude, np.where(negative, _u64(lowest), _u64(highest)))
    number = np.where(negative, _u64(0) - magnitude, magnitude)
    spare = _u64(_WIDE - size)
    cut = number << spare
    return (cut.view(np.int64) >> spare.view(np.int64)).view(np.uint64) if signed else cut >> spare


def _words(number: Doubles, wide: bool) -> LaneOutcome:
    """Returns a result in one register or two."""
    high = (number >> _u64(32)).astype(np.uint32) if wide else None
    return LaneOutcome(number.astype(np.uint32), value_high=high)


class _Number(NamedTuple):
    """Floating-point numbers: significand * 2**power if finite."""

    negative: Bools
    significand: Doubles
    power: NDArray[np.int64]
    infinite: Bools
    none: Bools


def _float_source(sources: Sources, values: Values) -> _Number:
    """Returns operand b, made absolute, then negated.

    .FTZ flushes subnormal numbers of single precision only, as the PTX manual defines ``cvt``.
    """
    kind = FloatFormat(values["source"])
    form = _FORMATS[kind]
    # The instruction selects the upper half of a word only for 16-bit types.
    low = sources.b >> np.uint32(16 * values["part"]) if values.get("part", 0) else sources.b
    pattern = pair(low, sources.b_high) if kind is FloatFormat.F64 else low.astype(np.uint64)
    negative = pattern & _u64(form.sign) != 0
    exponent = (pattern >> _u64(form.fraction)) & _u64((1 << form.exponent) - 1)
    fraction = pattern & _u64((1 << form.fraction) - 1)
    if values["absolute_b"]:
        negative = np.zeros_like(negative)
    if values["negate_b"]:
        negative = ~negative
    special = exponent == (1 << form.exponent) - 1
    if values["flush"] and kind is FloatFormat.F32:
        fraction = np.where(exponent == 0, _u64(0), fraction)
    significand = np.where(exponent == 0, fraction, fraction | _u64(1 << form.fraction))
    power = np.maximum(exponent, _u64(1)).view(np.int64) - form.bias - form.fraction
    return _Number(
        negative, significand, power, special & (fraction == 0), special & (fraction != 0)
    )


def _shifted(significand: Doubles, power: NDArray[np.int64], negative: Bools, mode: int) -> Doubles:
    """Rounds significand * 2**power, which must be below 2**64, to an integer."""
    up = np.clip(power, 0, _WIDE - 1).astype(np.uint64)
    # From 63 places on everything is cut off, and the highest integer has no half.
    down = np.clip(-power, 0, _WIDE - 1).astype(np.uint64)
    rest, half = significand & (_u64(1) << down) - _u64(1), (_u64(1) << down) >> _u64(1)
    return _rounded(significand << up >> down, rest, half, negative, mode)


def _packed(
    significand: Doubles, power: NDArray[np.int64], negative: Bools, form: FloatBits, mode: int
) -> Doubles:
    """Rounds significand * 2**power and returns its bits; on overflow, infinity or the largest
    finite number.
    """
    top = highest_bit(significand).view(np.int64) + power
    last = np.maximum(top, 1 - form.bias) - form.fraction
    fraction = _shifted(significand, power - last, negative, mode)
    # A normal number's top bit increments the exponent field by one, and so may a carry out of
    # rounding.
    bits = (
        (last + form.bias + form.fraction - 1).astype(np.uint64) << _u64(form.fraction)
    ) + fraction
    outwards = np.full(negative.shape, mode == _NEAREST)
    if mode in (_DOWN, _UP):
        outwards = negative == (mode == _DOWN)
    bits = np.where(
        bits < _u64(form.infinity),
        bits,
        np.where(outwards, _u64(form.infinity), _u64(form.infinity - 1)),
    )
    signs: Doubles = np.where(negative, _u64(form.sign), _u64(0))
    return np.where(significand == 0, _u64(0), bits) | signs


def i2i(sources: Sources, values: Values) -> LaneOutcome:
    """I2I: converts between integer types; results narrower than a word are extended to it."""
    magnitude, negative = _integer_source(sources, values)
    size, signed = _BITS_OF_SIZE[values["destination"] & 3], values["destination"] >> 2
    return _words(_to_type(magnitude, negative, size, signed, bool(values["saturate"])), wide=False)


def f2f(sources: Sources, values: Values) -> LaneOutcome:
    """F2F: converts a number to another format, or rounds it to an integer in its own format.

    A NaN is all ones but for its sign, in double precision 0x7ff8000000000000, or +0 with ``.SAT``
    (ours).
    """
    kind, number = FloatFormat(values["destination"]), _float_source(sources, values)
    form, (negative, significand, power, infinite, none) = _FORMATS[kind], number
    whole = values.get("whole", 0)
    if whole:
        integer = _shifted(significand, np.minimum(power, 0), negative, whole & 3)
        significand, power = np.where(power < 0, integer, significand), np.maximum(power, 0)
    bits = _packed(significand, power, negative, form, values.get("round", 0))
    sign = _u64(form.sign)
    if values["flush"] and kind is FloatFormat.F32:
        bits = np.where(bits & _u64(form.infinity) == 0, bits & sign, bits)
    bits = np.where(infinite, bits & sign | _u64(form.infinity), bits)
    if values["saturate"]:
        bits = np.where(
            negative | none, _u64(0), np.minimum(bits, _u64(form.bias << form.fraction))
        )
    else:
        no_number = (
            form.infinity | 1 << form.fraction - 1 if kind is FloatFormat.F64 else form.sign - 1
        )
        bits = np.where(none, _u64(no_number), bits)
    return _words(bits, kind is FloatFormat.F64)


def i2f(sources: Sources, values: Values) -> LaneOutcome:
    """I2F: rounds an integer to a floating-point format. Zero gives +0."""
    (magnitude, negative), kind = (
        _integer_source(sources, values),
        FloatFormat(values["destination"]),
    )
    bits = _packed(
        magnitude,
        np.zeros(magnitude.shape, np.int64),
        negative & (magnitude != 0),
        _FORMATS[kind],
        values["round"],
    )
    return _words(bits, kind is FloatFormat.F64)


def f2i(sources: Sources, values: Values) -> LaneOutcome:
    """F2I: rounds a floating-point number to an integer type, clamped to its range.

    NaN gives 0, or the top bit alone if the source or the destination has 64 bits, as the PTX
    manual defines ``cvt``.
    """
    negative, significand, power, infinite, none = _float_source(sources, values)
    source = FloatFormat(values["source"])
    size, signed = _BITS_OF_SIZE[values["destination"] & 3], values["destination"] >> 2
    is_wide = size == _WIDE or source is FloatFormat.F64
    top_bit = (-1 if signed else 1) << size - 1
    no_number = _u64(top_bit & (1 << _WIDE) - 1 if is_wide else 0)
    overflow = infinite | (power > _WIDE - 1 - _FORMATS[source].fraction)
    magnitude = np.where(
        overflow, _u64((1 << _WIDE) - 1), _shifted(significand, power, negative, values["round"])
    )
    number = _to_type(magnitude, negative, size, signed, saturate=True)
    return _words(np.where(none, no_number, number), size == _WIDE)
