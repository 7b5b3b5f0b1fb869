"""The second stage of single precision: the sum, and its normalization shift."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.kinds import FloatRounding
from rtl.leading_zeros import leading_zeros
from rtl.sums import sum_with_carry

from .float_control import FloatControl
from .float_window import (
    EARLY_BITS,
    EARLY_STEPS,
    FAR_STEP,
    GUARD_BITS,
    PRODUCT_BITS,
    SHIFT_BITS,
    STEPS,
    WINDOW_BITS,
    FloatAligned,
    FloatSum,
)

__all__ = ["FloatAdd"]

_UNSEEN_BITS = FAR_STEP - GUARD_BITS
"""Bits of a far product that are below the window."""
_NEAR_BITS = GUARD_BITS + PRODUCT_BITS
_LEAP = 1 << STEPS - 1
"""The largest step of the normalization shift, which is done in this stage."""


class FloatAdd(wiring.Component):
    """The second stage of single precision: adds, and counts leading zeros; combinational.

    Members
    -------
    control : In(FloatControl)
    aligned : In(FloatAligned)
    product : In(48)
    decision : In(1)
        The lane's decision: a is chosen, not b.
    sum : Out(FloatSum)
    """

    control: In(FloatControl)
    aligned: In(FloatAligned)
    product: In(PRODUCT_BITS)
    decision: In(1)
    sum: Out(FloatSum)

    def __init__(self) -> None:
        super().__init__()
        self._addend = Signal(WINDOW_BITS - 1, name="addend")
        """In the window; complemented in a difference."""
        self._addend_is_lost = Signal(name="addend_is_lost")
        """Some ones of the addend are below the window."""
        self._placed_product = Signal(_NEAR_BITS, name="placed_product")
        """In the window."""
        self._total = Signal(WINDOW_BITS + 1, name="total")
        """The sum of both, with a carry."""
        self._zeros = Signal(STEPS, name="zeros")
        """How many zeros are above the highest one of the sum."""
        self._is_empty = Signal(name="is_empty")
        """The sum has no ones."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._place_addend(m)
        self._place_product(m)
        self._add(m)
        self._normalize(m)
        self._find_sign(m)
        m.d.comb += self.sum.infinite.eq(self.aligned.infinite)
        m.d.comb += self.sum.nan.eq(self.aligned.nan)
        return m

    def _place_addend(self, m: Module) -> None:
        """The other steps of the addend's shift. A large shift moves all of it out of the
        window."""
        aligned = self.aligned
        shift = aligned.shift
        is_shifted_out = shift[STEPS:].any()
        word: Value = Cat(Const(0, WINDOW_BITS - 1 - EARLY_BITS), aligned.addend)
        is_lost: Value = is_shifted_out & aligned.present
        for place in range(EARLY_STEPS, STEPS):
            step = 1 << place
            is_lost = is_lost | (shift[place] & word[:step].any())
            word = Mux(shift[place], word[step:], word)
        m.d.comb += self._addend_is_lost.eq(is_lost)
        m.d.comb += self._addend.eq(word & (~is_shifted_out).replicate(WINDOW_BITS - 1))

    def _place_product(self, m: Module) -> None:
        """The product in its near or its far place."""
        near = Cat(Const(0, GUARD_BITS), self.product)
        far = self.product[_UNSEEN_BITS:]
        with m.If(self.aligned.empty):
            m.d.comb += self._placed_product.eq(0)
        with m.Elif(self.aligned.far):
            m.d.comb += self._placed_product.eq(far)
        with m.Else():
            m.d.comb += self._placed_product.eq(near)

    def _add(self, m: Module) -> None:
        """The sum. In a difference the addend is complemented; the one that completes its negation
        is added only with a far product, see rtl.execute.float_window."""
        aligned = self.aligned
        minus = aligned.subtracts
        loses_product = aligned.far & ~aligned.empty & self.product[:_UNSEEN_BITS].any()
        addend = Cat(self._addend, Const(0, 1)) ^ minus.replicate(WINDOW_BITS)
        m.d.comb += self._total.eq(
            sum_with_carry(self._placed_product, addend, minus & aligned.far))
        m.d.comb += self.sum.negative.eq(minus & ~self._total[WINDOW_BITS])
        m.d.comb += self.sum.fill.eq(minus & ~aligned.far)
        m.d.comb += self.sum.sticky.eq(self._addend_is_lost | loses_product)

    def _normalize(self, m: Module) -> None:
        """The shift of the sum: until its highest one is on top, but at most by ``limit``. If it is
        32 or more, this stage performs the step by 32."""
        aligned = self.aligned
        result = self.sum
        magnitude = self._total[:WINDOW_BITS] ^ result.negative.replicate(WINDOW_BITS)
        limit = Signal(SHIFT_BITS)
        exponent = Signal(signed(SHIFT_BITS + 1))
        m.d.comb += limit.eq(aligned.exponent + aligned.shift)
        m.d.comb += self._zeros.eq(leading_zeros(magnitude))
        m.d.comb += self._is_empty.eq(self._zeros == WINDOW_BITS)
        m.d.comb += exponent.eq(limit - self._zeros)
        is_subnormal = exponent < 0

        leaps = ~magnitude[-_LEAP:].any() & limit[STEPS - 1:].any()
        with m.If(leaps):
            m.d.comb += result.total.eq(
                Cat(result.fill.replicate(_LEAP), self._total[:WINDOW_BITS - _LEAP]))
        with m.Else():
            m.d.comb += result.total.eq(self._total)
        m.d.comb += result.shift.eq(Mux(is_subnormal, limit, self._zeros))
        with m.If(~is_subnormal & ~self._is_empty):
            m.d.comb += result.exponent.eq(exponent)

    def _find_sign(self, m: Module) -> None:
        """The result's sign, and flags for rounding and flushing."""
        control = self.control
        aligned = self.aligned
        result = self.sum
        is_no_sum = control.chooses | aligned.infinite | aligned.nan
        chooses_opposite = control.chooses & ~self.decision & aligned.subtracts
        inverts = Mux(is_no_sum, chooses_opposite, result.negative)
        m.d.comb += result.sign.eq(~aligned.nan & (aligned.sign ^ inverts))

        is_difference_of_equals = (
            aligned.subtracts & self._is_empty & (result.negative == result.fill))
        m.d.comb += result.cancelled.eq(
            is_difference_of_equals & ~result.sticky & ~is_no_sum)

        is_away = Signal()
        with m.Switch(control.round):
            with m.Case(FloatRounding.RN):
                m.d.comb += is_away.eq(1)
            with m.Case(FloatRounding.RP):
                m.d.comb += is_away.eq(~result.sign)
            with m.Case(FloatRounding.RM):
                m.d.comb += is_away.eq(result.sign)
        m.d.comb += result.away.eq(aligned.infinite | is_away)

        chosen_is_tiny = Mux(self.decision, aligned.tiny[0], aligned.tiny[1])
        m.d.comb += result.flushable.eq(~control.chooses | chosen_is_tiny)
