"""The sum of two single-precision numbers for atomic operations: rounded to the nearest even, subnormals flushed."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.leading_zeros import leading_zeros
from rtl.sums import sum_with_carry

__all__ = ["FLOAT_ADDER_CYCLES", "FloatAdder"]

FLOAT_ADDER_CYCLES = 3
"""How many cycles after its operands a sum is there."""

_NAN = 0x7FFF_FFFF
_FRACTION, _EXPONENT = 23, 8
_BELOW = 3
"""Bits of the sum below the last one of a number: two that normalization may need, one for all that is lost."""
_FIELD = _FRACTION + 1 + _BELOW
_TOTAL = _FIELD + 1
"""Bits of the sum, with its carry."""
_SHIFT_BITS = (_TOTAL - 1).bit_length()


class _Number(data.Struct):
    """A number as it is stored."""

    fraction: unsigned(_FRACTION)
    exponent: unsigned(_EXPONENT)
    sign: unsigned(1)


class _Outcome(data.Struct):
    """What is known beside the sum, of the number with the greater magnitude."""

    exponent: unsigned(_EXPONENT)
    sign: unsigned(1)
    subtracts: unsigned(1)
    """The other one has the other sign."""
    nan: unsigned(1)
    infinite: unsigned(1)


class FloatAdder(wiring.Component):
    """Four steps with registers between them: a sum every cycle, ``FLOAT_ADDER_CYCLES`` after its operands.

    The greater magnitude is put first; the other one's mantissa is shifted to its place and added or subtracted; the
    sum is normalized; it is rounded. Subnormal operands and results are zeros of their sign; every NaN that comes out
    is 0x7fffffff; a difference of equal numbers is +0. So is FADD.FTZ.

    Members
    -------
    a, b : In(32)
    sum : Out(32)
    """

    a: In(32)
    b: In(32)
    sum: Out(32)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        swaps, distance = Signal(), Signal(_EXPONENT)
        large: Any = Signal(_Number)
        small: Any = Signal(_Number)
        first, second = (number[_FRACTION:-1] for number in (self.a, self.b))
        m.d.comb += swaps.eq(self.a[:31] < self.b[:31])
        m.d.sync += [large.eq(Mux(swaps, self.b, self.a)), small.eq(Mux(swaps, self.a, self.b)),
                     distance.eq(Mux(swaps, second - first, first - second))]

        # The sum: nothing is subtracted from less. Beside a subnormal number, which is 0, no distance counts.
        aligned, total, subtracts = Signal(_FIELD), Signal(_TOTAL), large.sign ^ small.sign
        summed: Any = Signal(_Outcome)
        most = large.exponent.all()
        m.d.comb += aligned.eq(_shifted(_mantissa(small), distance) ^ subtracts.replicate(_FIELD))
        m.d.sync += [
            total.eq(sum_with_carry(_mantissa(large), aligned, subtracts) & Cat(Const(-1, _FIELD), ~subtracts)),
            summed.exponent.eq(large.exponent), summed.sign.eq(large.sign), summed.subtracts.eq(subtracts),
            summed.infinite.eq(most),
            summed.nan.eq(most & (large.fraction.any() | small.exponent.all() & subtracts))]

        # Normalization: the highest 1 goes to the carry's place. A difference of 0 is +0.
        zeros, left = Signal(_SHIFT_BITS), Signal(_TOTAL)
        exponent, normal, rounds = Signal(_EXPONENT + 2), Signal(_TOTAL), Signal.like(summed)
        m.d.comb += [zeros.eq(leading_zeros(total)), left.eq(total << zeros)]
        m.d.sync += [
            normal.eq(left), exponent.eq(summed.exponent + 1 - zeros), rounds.eq(summed),
            rounds.sign.eq(summed.sign & (left[-1] | ~summed.subtracts))]

        # Rounding: a carry out of the fraction goes to the exponent.
        dropped = _TOTAL - 1 - _FRACTION
        last, half, more = normal[dropped], normal[dropped - 1], normal[:dropped - 1].any()
        rounded, word = Signal(_FRACTION + _EXPONENT + 2), self.sum
        m.d.comb += rounded.eq(Cat(normal[dropped:-1], exponent) + (half & (more | last)))
        stored = rounded[_FRACTION:]
        with m.If(rounds.nan):
            m.d.comb += word.eq(_NAN)
        with m.Elif(rounds.infinite | (~stored[-1] & (stored[_EXPONENT] | stored[:_EXPONENT].all()))):
            m.d.comb += word.eq(Cat(Const(0, _FRACTION), Const(-1, _EXPONENT), rounds.sign))
        with m.Elif(~normal[-1] | stored[-1] | ~stored.any()):
            m.d.comb += word.eq(Cat(Const(0, 31), rounds.sign))
        with m.Else():
            m.d.comb += word.eq(Cat(rounded[:31], rounds.sign))
        return m


def _mantissa(number: data.View) -> Value:
    """With the highest bit and room below; 0 of a subnormal number."""
    normal = number.exponent.any()
    return Cat(Const(0, _BELOW), number.fraction & normal.replicate(_FRACTION), normal)


def _shifted(field: Value, distance: Value) -> Value:
    """The field, 0 or with a highest bit of 1, shifted down; its last bit is 1 if anything was lost."""
    far, lost = distance[_SHIFT_BITS:].any(), distance[_SHIFT_BITS:].any() & field[-1]
    for level in reversed(range(_SHIFT_BITS)):
        step = 1 << level
        lost |= distance[level] & field[:step].any()
        field = Mux(distance[level], field[step:], field)
    return Cat(field[0] & ~far | lost, field[1:] & (~far).replicate(_FIELD - 1))
