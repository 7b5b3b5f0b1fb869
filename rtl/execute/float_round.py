"""The third stage of single precision, before and after the lane's adder."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.kinds import FloatRounding

from .float_control import FloatControl
from .float_window import (
    BIAS,
    FRACTION_BITS,
    LARGEST_EXPONENT,
    MANTISSA_BITS,
    STEPS,
    FloatNormal,
    FloatPattern,
    FloatSum,
)

__all__ = ["FloatFinish", "FloatRound"]

_COMPLEMENTING_STEP = 2
"""The step after which a negative sum is complemented."""
_MIDDLE_EXPONENT_BITS = 6
"""Bits of an exponent between its lowest and its highest one. All are ones in the number 1, in the
largest number, in infinities and in NaNs."""


class FloatRound(wiring.Component):
    """Normalizes the sum and decides its rounding, before the lane's adder; combinational.

    Members
    -------
    control : In(FloatControl)
    sum : In(FloatSum)
    normal : Out(FloatNormal)
    """

    control: In(FloatControl)
    sum: In(FloatSum)
    normal: Out(FloatNormal)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        normalized, is_sticky = self._shift_up(m)
        half = normalized[0]
        mantissa = normalized[1:]
        m.d.comb += self.normal.mantissa.eq(mantissa)
        m.d.comb += self.normal.exponent.eq(self.sum.exponent)
        self._round(m, half, mantissa, is_sticky)
        return m

    def _shift_up(self, m: Module) -> tuple[Value, Value]:
        """The normalized sum, with one bit more than a mantissa, and whether there are ones below
        it.

        The largest step is first, so that bits which later steps cannot shift into the result are
        dropped early. If ``fill`` is 1, dropped bits count if they are 0."""
        total = self.sum
        kept: Value = total.total
        is_sticky: Value = total.sticky
        for place in reversed(range(STEPS - 1)):
            step = 1 << place
            moves = total.shift[place]
            width = MANTISSA_BITS + step
            unseen = len(kept) - width
            assert 0 < unseen <= step
            dropped = kept[:unseen] ^ total.fill.replicate(unseen)
            if step < _COMPLEMENTING_STEP:
                dropped = dropped ^ total.negative.replicate(unseen)
            is_sticky = is_sticky | (~moves & dropped.any())

            moved = Cat(total.fill.replicate(step - unseen), kept)[:width]
            word = Mux(moves, moved, kept[unseen:])
            if step == _COMPLEMENTING_STEP:
                word = word ^ total.negative.replicate(width)
            shifted = Signal(width, name=f"up{step}")
            m.d.comb += shifted.eq(word)
            kept = shifted
        return kept, is_sticky

    def _round(self, m: Module, half: Value, mantissa: Value, is_sticky: Value) -> None:
        """Whether one is added in the last place of the mantissa. In a difference that lacks one,
        the one carries up through the ones below the mantissa (unless one of them is 0, which sets
        ``is_sticky``): if ``half`` is 0 it becomes 1, if it is 1 the mantissa is incremented."""
        total = self.sum
        up = self.normal.up
        is_nearest = self.control.round == FloatRounding.RN
        lacks_one = (total.fill ^ total.negative) & ~total.sticky
        is_odd = mantissa[0]
        with m.If(lacks_one & half):
            m.d.comb += up.eq(~is_sticky | total.away)
        with m.Elif(lacks_one & is_nearest):
            m.d.comb += up.eq(~is_sticky & is_odd)
        with m.Elif(lacks_one):
            m.d.comb += up.eq(total.away)
        with m.Elif(is_nearest):
            m.d.comb += up.eq(half & (is_sticky | is_odd))
        with m.Else():
            m.d.comb += up.eq(total.away & (half | is_sticky))


class FloatFinish(wiring.Component):
    """The special results, after the lane's adder; combinational.

    Members
    -------
    control : In(FloatControl)
    sum : In(FloatSum)
    exponent : In(2)
        The lowest bits of the rounded exponent.
    pattern : Out(FloatPattern)
    """

    control: In(FloatControl)
    sum: In(FloatSum)
    exponent: In(2)
    pattern: Out(FloatPattern)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        control = self.control
        total = self.sum
        sign = Signal()
        is_too_large = Signal()
        is_flushed = Signal()
        is_one = Signal()
        is_special = Signal()
        is_below_zero = Signal()
        m.d.comb += sign.eq(Mux(total.cancelled, control.round == FloatRounding.RM, total.sign))
        m.d.comb += is_too_large.eq(total.infinite | self._reaches(LARGEST_EXPONENT))
        has_no_exponent = ~total.exponent.any() & ~self.exponent.any()
        m.d.comb += is_flushed.eq(
            control.real & control.flush & total.flushable & has_no_exponent)

        # With saturation a number is clamped to 0 to 1, and a NaN is 0; without it, infinities, the
        # largest number and NaNs have a word of their own.
        at_least_one = total.infinite | self._reaches(BIAS)
        m.d.comb += is_one.eq(control.saturate & ~sign & ~total.nan & at_least_one)
        m.d.comb += is_below_zero.eq(control.saturate & sign)
        m.d.comb += is_special.eq(~control.saturate & (is_too_large | total.nan))
        m.d.comb += self.pattern.keep.eq(
            ~(total.nan | is_too_large | is_flushed | is_one | is_below_zero))

        # An infinity has no fraction; the largest number has all ones but the lowest one of the
        # exponent; a NaN is all ones.
        fraction = is_special & (total.nan | ~total.away)
        lowest = is_one | (is_special & (total.nan | total.away))
        m.d.comb += self.pattern.word.eq(Cat(
            fraction.replicate(FRACTION_BITS),
            lowest,
            (is_one | is_special).replicate(_MIDDLE_EXPONENT_BITS),
            is_special,
            sign & ~control.saturate & control.real))
        return m

    def _reaches(self, bound: int) -> Value:
        """Whether the rounded exponent is at least ``bound``. The highest bit of the mantissa adds
        one to the exponent, and a carry of the rounded fraction another one."""
        assert bound % 2
        exponent = self.sum.exponent
        return (exponent >= bound - 1) | ((exponent == bound - 2) & self.exponent[0])
