"""The sum of two single-precision numbers for atomic operations: rounded to the nearest even,
subnormals flushed."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.leading_zeros import leading_zeros
from rtl.structs import struct_value
from rtl.sums import sum_with_carry

__all__ = ["FLOAT_ADDER_CYCLES", "FloatAdder"]

FLOAT_ADDER_CYCLES = 3
"""How many cycles after its operands a sum is there."""

_NAN = 0x7FFF_FFFF
_FRACTION = 23
_EXPONENT = 8
_WORD = 1 + _EXPONENT + _FRACTION
_MAGNITUDE = _EXPONENT + _FRACTION
_BELOW = 3
"""Bits of the sum below the last one of a number: two that normalization may need, one for all that
is lost."""
_FIELD = _FRACTION + 1 + _BELOW
"""Bits of a mantissa, with those below."""
_TOTAL = _FIELD + 1
"""Bits of the sum, with its carry."""
_DROPPED = _TOTAL - 1 - _FRACTION
"""Bits of a normalized sum that are rounded away."""
_SHIFT_BITS = (_TOTAL - 1).bit_length()
_RESULT_EXPONENT = _EXPONENT + 2
"""Bits of a result's exponent, which may be less than 0, or too great, before it is rounded."""


class _Number(data.Struct):
    """A number as it is stored."""

    fraction: unsigned(_FRACTION)
    exponent: unsigned(_EXPONENT)
    sign: unsigned(1)


class _Operands(data.Struct):
    """ORDER to ADD: the operands by magnitude, and how far their exponents are apart."""

    large: _Number
    small: _Number
    distance: unsigned(_EXPONENT)


class _Special(data.Struct):
    """What a sum is not computed for: the result is NaN, or else infinite."""

    is_nan: unsigned(1)
    is_infinite: unsigned(1)


class _Sum(data.Struct):
    """ADD to NORMALIZE: the sum of the magnitudes or their difference, and what is known of the
    result beside it."""

    total: unsigned(_TOTAL)
    exponent: unsigned(_EXPONENT)
    """The exponent of the larger operand."""
    sign: unsigned(1)
    """The same's."""
    subtracts: unsigned(1)
    """The other one has the other sign."""
    special: _Special


class _Normalized(data.Struct):
    """NORMALIZE to ROUND: the sum with its highest 1 in the highest place, unless it is 0."""

    total: unsigned(_TOTAL)
    exponent: signed(_RESULT_EXPONENT)
    sign: unsigned(1)
    special: _Special


class FloatAdder(wiring.Component):
    """A sum every cycle, in four steps with registers between them. ::

        a, b --> ORDER --> ADD --> NORMALIZE --> ROUND --> sum

    =========  ===============================================================================
    step       what is computed
    =========  ===============================================================================
    ORDER      the operand of the greater magnitude becomes the first
    ADD        the other one's mantissa is shifted to its place, and added or subtracted
    NORMALIZE  the sum is shifted until its highest 1 is in front
    ROUND      the word of the result, ``FLOAT_ADDER_CYCLES`` after the operands
    =========  ===============================================================================

    Subnormal operands and results are zeros of their sign; every NaN that is a result is
    0x7fffffff; a difference of equal numbers is +0. So is FADD.FTZ.

    Members
    -------
    a, b : In(32)
    sum : Out(32)
    """

    a: In(_WORD)
    b: In(_WORD)
    sum: Out(_WORD)

    def __init__(self) -> None:
        super().__init__()
        self._operands: Any = Signal(_Operands, name="operands")
        self._added: Any = Signal(_Sum, name="added")
        self._normalized: Any = Signal(_Normalized, name="normalized")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._order(m)
        self._add(m)
        self._normalize(m)
        self._round(m)
        return m

    def _order(self, m: Module) -> None:
        """ORDER: a word without its sign is ordered as its magnitude is."""
        operands = self._operands
        exponent_a = self.a[_FRACTION:_MAGNITUDE]
        exponent_b = self.b[_FRACTION:_MAGNITUDE]
        with m.If(self.a[:_MAGNITUDE] < self.b[:_MAGNITUDE]):
            m.d.sync += operands.eq(struct_value(
                _Operands, large=self.b, small=self.a, distance=exponent_b - exponent_a))
        with m.Else():
            m.d.sync += operands.eq(struct_value(
                _Operands, large=self.a, small=self.b, distance=exponent_a - exponent_b))

    def _add(self, m: Module) -> None:
        """ADD: nothing is subtracted from less, so a difference has no carry. Beside a subnormal
        number, which is 0, the distance does not matter."""
        large = self._operands.large
        small = self._operands.small
        subtracts = large.sign ^ small.sign
        aligned = Signal(_FIELD)
        total = Signal(_TOTAL)
        shifted = _shifted(_mantissa(small), self._operands.distance)
        m.d.comb += aligned.eq(shifted ^ subtracts.replicate(_FIELD))
        m.d.comb += total.eq(sum_with_carry(_mantissa(large), aligned, subtracts))
        carry = total[_FIELD] & ~subtracts

        is_special = large.exponent.all()
        has_nan = large.fraction.any()
        differs_from_infinity = small.exponent.all() & subtracts
        special = struct_value(
            _Special,
            is_nan=is_special & (has_nan | differs_from_infinity),
            is_infinite=is_special)
        m.d.sync += self._added.eq(struct_value(
            _Sum,
            total=Cat(total[:_FIELD], carry),
            exponent=large.exponent,
            sign=large.sign,
            subtracts=subtracts,
            special=special))

    def _normalize(self, m: Module) -> None:
        """NORMALIZE: the highest 1 is moved to the carry's place. A difference of 0 is +0."""
        added = self._added
        zeros = Signal(_SHIFT_BITS)
        total = Signal(_TOTAL)
        m.d.comb += zeros.eq(leading_zeros(added.total))
        m.d.comb += total.eq(added.total << zeros)
        is_zero = ~total[-1]
        m.d.sync += self._normalized.eq(struct_value(
            _Normalized,
            total=total,
            exponent=added.exponent + 1 - zeros,
            sign=added.sign & ~(is_zero & added.subtracts),
            special=added.special))

    def _round(self, m: Module) -> None:
        """ROUND: a carry out of the fraction increments the exponent."""
        normalized = self._normalized
        total = normalized.total
        is_zero = ~total[-1]
        is_odd = total[_DROPPED]
        half = total[_DROPPED - 1]
        more_than_half = total[:_DROPPED - 1].any()
        rounds_up = half & (more_than_half | is_odd)
        rounded = Signal(_FRACTION + _RESULT_EXPONENT)
        m.d.comb += rounded.eq(
            Cat(total[_DROPPED:-1], normalized.exponent.as_unsigned()) + rounds_up)

        exponent = rounded[_FRACTION:]
        is_negative = exponent[-1]
        overflows = ~is_negative & (exponent[_EXPONENT] | exponent[:_EXPONENT].all())
        underflows = is_zero | is_negative | ~exponent.any()
        infinity = Cat(Const(0, _FRACTION), Const(-1, _EXPONENT))
        with m.If(normalized.special.is_nan):
            m.d.comb += self.sum.eq(_NAN)
        with m.Elif(normalized.special.is_infinite | overflows):
            m.d.comb += self.sum.eq(Cat(infinity, normalized.sign))
        with m.Elif(underflows):
            m.d.comb += self.sum.eq(Cat(Const(0, _MAGNITUDE), normalized.sign))
        with m.Else():
            m.d.comb += self.sum.eq(Cat(rounded[:_MAGNITUDE], normalized.sign))


def _mantissa(number: data.View) -> Value:
    """With the highest bit and room below; 0 of a subnormal number."""
    is_normal = number.exponent.any()
    fraction = number.fraction & is_normal.replicate(_FRACTION)
    return Cat(Const(0, _BELOW), fraction, is_normal)


def _shifted(field: Value, distance: Value) -> Value:
    """The field, 0 or with a highest bit of 1, shifted down; its last bit is 1 if anything was
    lost."""
    is_far = distance[_SHIFT_BITS:].any()
    is_lost = is_far & field[-1]
    for level in reversed(range(_SHIFT_BITS)):
        step = 1 << level
        is_lost |= distance[level] & field[:step].any()
        field = Mux(distance[level], field[step:], field)
    return Cat(field[0] & ~is_far | is_lost, field[1:] & (~is_far).replicate(_FIELD - 1))
