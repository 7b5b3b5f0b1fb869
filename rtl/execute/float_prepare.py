"""The first stage of single precision: unpacks and compares numbers, and begins to align the
addend."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.kinds import SwizzledSum
from rtl.structs import struct_value

from .float_control import FloatControl, FloatTerms
from .float_window import (
    BIAS,
    EARLY_STEPS,
    EXPONENT_BITS,
    FAR_STEP,
    FRACTION_BITS,
    MANTISSA_BITS,
    OFFSET,
    SHIFT_BITS,
    FloatAligned,
    Number,
)
from .stages import Operands

__all__ = ["FloatPrepare"]

# FCHK: the short sequence of a division is correct if the reciprocal of the divisor, the quotient
# and the remainder are normal numbers.
_DIVISORS = (1, 252)
_DIVIDENDS = (30, 254)
_QUOTIENTS = (-124, 125)


class FloatPrepare(wiring.Component):
    """Unpacks the operands, orders them, and prepares the sum; combinational.

    Members
    -------
    control : In(FloatControl)
    operands : In(Operands)
    swizzle : In(2)
        The SwizzledSum of the thread; PP for other instructions.
    below, same : In(1)
        Without their sign bits, the word a is less than b; the words are equal.
    factors : Out(24 bits, of a and b)
        For the lane's multipliers.
    holds : Out(1)
        The relation or the check. If ``control.chooses``, so that XOR with predicate x gives
        whether a is chosen: if x holds a has to be the lesser one, else the greater one.
    aligned : Out(FloatAligned)
    """

    control: In(FloatControl)
    operands: In(Operands)
    swizzle: In(2)
    below: In(1)
    same: In(1)
    factors: Out(data.ArrayLayout(MANTISSA_BITS, 2))
    holds: Out(1)
    aligned: Out(FloatAligned)

    def __init__(self) -> None:
        super().__init__()
        self._a: Any = Signal(Number, name="number_a")
        self._b: Any = Signal(Number, name="number_b")
        self._c: Any = Signal(Number, name="number_c")
        self._addend: Any = Signal(Number, name="addend")
        """What is added to the product: b, or c."""
        self._adds = Signal(name="adds")
        """The sum is a * 1 + b."""
        self._multiplies = Signal(name="multiplies")
        """There is no addend: it counts as a zero with the product's sign."""
        self._is_idle = Signal(name="is_idle")
        """There is no arithmetic."""
        self._vanishes = Signal(name="vanishes")
        """The product is +0, whatever the factors."""
        self._product_sign = Signal(name="product_sign")
        self._lead = Signal(signed(SHIFT_BITS), name="lead")
        """The exponent of a, less that of the addend."""
        self._is_less = Signal(name="is_less")
        """a is less than b, by their words: -0 is less than +0."""
        self._relation = Signal(name="relation")
        """The relation holds."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        control = self.control
        operands = self.operands
        negate_a = control.negate_a ^ (self.swizzle == SwizzledSum.NP.value)
        negate_b = control.negate_b ^ (self.swizzle == SwizzledSum.PN.value)
        self._unpack(m, self._a, operands.a, control.absolute_a, negate_a)
        self._unpack(m, self._b, operands.b, control.absolute_b, negate_b)
        self._unpack(m, self._c, operands.c, Const(0, 1), control.negate_c)
        self._choose_terms(m)
        self._find_product(m)
        self._align(m)
        self._find_special(m)
        self._order(m)
        self._relate(m)
        self._decide(m)
        return m

    def _unpack(self, m: Module, number: Any, word: Value, absolute: Value, negate: Value) -> None:
        """A number, with its sign cleared if ``absolute``, then inverted if ``negate``."""
        exponent = word[FRACTION_BITS:31]
        fraction = word[:FRACTION_BITS]
        is_tiny = ~exponent.any()
        is_largest = exponent.all()
        has_no_fraction = ~fraction.any()
        m.d.comb += number.eq(struct_value(
            Number,
            sign=(word[31] & ~absolute) ^ negate,
            exponent=Cat(exponent[0] | is_tiny, exponent[1:]),
            mantissa=Cat(fraction, ~is_tiny),
            tiny=is_tiny,
            zero=is_tiny & (has_no_fraction | self.control.flush),
            infinite=is_largest & has_no_fraction,
            nan=is_largest & ~has_no_fraction))

    def _choose_terms(self, m: Module) -> None:
        """The factors and the addend: a * b + c, a * 1 + b, or a * b + 0."""
        control = self.control
        m.d.comb += self._adds.eq(control.terms == FloatTerms.ADD)
        m.d.comb += self._multiplies.eq(control.terms == FloatTerms.MULTIPLY)
        m.d.comb += self._is_idle.eq(~control.real | control.chooses)
        m.d.comb += self.factors[0].eq(self._a.mantissa)
        with m.If(self._adds):
            m.d.comb += self.factors[1].eq(1 << FRACTION_BITS)
            m.d.comb += self._addend.eq(self._b)
        with m.Else():
            m.d.comb += self.factors[1].eq(self._b.mantissa)
            m.d.comb += self._addend.eq(self._c)

    def _find_product(self, m: Module) -> None:
        """The product's sign, and whether it is 0."""
        a = self._a
        b = self._b
        b_is_zero_factor = b.zero & ~self._adds
        some_factor_is_zero = a.zero | b_is_zero_factor
        m.d.comb += self._vanishes.eq(
            (self.control.zero_wins & some_factor_is_zero)
            | (self.swizzle == SwizzledSum.ZP.value))
        m.d.comb += self._product_sign.eq(
            (a.sign ^ (b.sign & ~self._adds)) & ~self._vanishes)
        m.d.comb += self.aligned.empty.eq(self._vanishes | some_factor_is_zero | self._is_idle)

    def _align(self, m: Module) -> None:
        """The shift of the addend, down from its highest place, and the first steps of it. Without
        an addend, its exponent is that of a subnormal number."""
        aligned = self.aligned
        adds = self._adds
        addend = self._addend
        with m.If(self._multiplies):
            m.d.comb += aligned.exponent.eq(1)
        with m.Else():
            m.d.comb += aligned.exponent.eq(addend.exponent)

        offset = Signal(signed(SHIFT_BITS))
        distance = Signal(signed(SHIFT_BITS))
        near_distance = Signal(signed(SHIFT_BITS))
        factor_exponent = self._b.exponent & (~adds).replicate(EXPONENT_BITS)
        m.d.comb += offset.eq(Mux(adds, BIAS - OFFSET, self.control.scale - OFFSET))
        m.d.comb += self._lead.eq(self._a.exponent - aligned.exponent)
        m.d.comb += distance.eq(
            self._lead + (factor_exponent + offset)[:SHIFT_BITS].as_signed())
        m.d.comb += near_distance.eq(distance - FAR_STEP)

        is_far = near_distance < 0
        is_highest = (distance < 0) | aligned.empty
        shift = Mux(is_far, distance, near_distance).as_unsigned()
        m.d.comb += aligned.far.eq(is_far | aligned.empty)
        m.d.comb += aligned.shift.eq(shift & (~is_highest).replicate(SHIFT_BITS))
        m.d.comb += aligned.present.eq(~(self._multiplies | addend.zero | self._is_idle))
        m.d.comb += aligned.tiny.eq(Cat(self._a.tiny, self._b.tiny))

        below = (1 << EARLY_STEPS) - 1
        mantissa = addend.mantissa & aligned.present.replicate(MANTISSA_BITS)
        word: Value = Cat(Const(0, below), mantissa)
        for place in range(EARLY_STEPS):
            step = 1 << place
            word = Mux(aligned.shift[place], Cat(word[step:], Const(0, step)), word)
        m.d.comb += aligned.addend.eq(word)

    def _find_special(self, m: Module) -> None:
        """Results that are no sums of finite numbers: infinities, and NaNs, of operands, of 0 *
        infinity, or of a sum of infinities of opposite signs."""
        control = self.control
        aligned = self.aligned
        a = self._a
        b = self._b
        addend = self._addend
        b_is_factor = ~self._adds
        has_addend = ~self._multiplies

        infinite_factor = a.infinite | (b.infinite & b_is_factor)
        infinite_product = infinite_factor & ~self._vanishes
        infinite_addend = addend.infinite & has_addend
        infinite_by_zero = (a.infinite & b.zero) | (a.zero & b.infinite)
        nan_factor = a.nan | (b.nan & b_is_factor) | (infinite_by_zero & b_is_factor)
        nan_product = nan_factor & ~self._vanishes
        nan_addend = addend.nan & has_addend

        addend_sign = Mux(self._multiplies, self._product_sign, addend.sign)
        m.d.comb += aligned.subtracts.eq(self._product_sign ^ addend_sign)
        opposite_infinities = infinite_product & infinite_addend & aligned.subtracts
        addend_alone_is_infinite = infinite_addend & ~infinite_product & ~self._is_idle
        addend_sign_counts = addend_alone_is_infinite & aligned.subtracts
        m.d.comb += aligned.sign.eq(self._product_sign ^ addend_sign_counts)
        m.d.comb += aligned.infinite.eq((infinite_product | infinite_addend) & ~self._is_idle)
        with m.If(control.chooses):
            m.d.comb += aligned.nan.eq(a.nan & b.nan)
        with m.Else():
            m.d.comb += aligned.nan.eq(
                (nan_product | nan_addend | opposite_infinities) & control.real)

    def _order(self, m: Module) -> None:
        """Whether a is less than b, by their signs and the rest of their words."""
        with m.If(self._a.sign & self._b.sign):
            m.d.comb += self._is_less.eq(~self.below & ~self.same)
        with m.Elif(self._a.sign):
            m.d.comb += self._is_less.eq(1)
        with m.Else():
            m.d.comb += self._is_less.eq(~self._b.sign & self.below)

    def _relate(self, m: Module) -> None:
        """The relation of a and b, or of c and zero."""
        a = self._a
        b = self._b
        c = self._c
        is_less = Signal()
        is_equal = Signal()
        is_unordered = Signal()
        with m.If(self.control.of_c):
            m.d.comb += is_less.eq(c.sign & ~c.zero)
            m.d.comb += is_equal.eq(c.zero)
            m.d.comb += is_unordered.eq(c.nan)
        with m.Else():
            both_are_zero = a.zero & b.zero
            m.d.comb += is_less.eq(self._is_less & ~both_are_zero)
            m.d.comb += is_equal.eq((self.same & (a.sign == b.sign)) | both_are_zero)
            m.d.comb += is_unordered.eq(a.nan | b.nan)
        compare = self.control.compare
        with m.If(is_unordered):
            m.d.comb += self._relation.eq(compare[3])
        with m.Elif(is_equal):
            m.d.comb += self._relation.eq(compare[1])
        with m.Elif(is_less):
            m.d.comb += self._relation.eq(compare[0])
        with m.Else():
            m.d.comb += self._relation.eq(compare[2])

    def _decide(self, m: Module) -> None:
        """The check of a division, the choice of a or b, or the relation. If one of a and b is a
        NaN, the other one is chosen."""
        x = self.operands.sources[0]
        with m.If(self.control.checks):
            m.d.comb += self.holds.eq(self._needs_long_division())
        with m.Elif(self.control.chooses):
            with m.If(self._b.nan):
                m.d.comb += self.holds.eq(~x)
            with m.Elif(self._a.nan):
                m.d.comb += self.holds.eq(x)
            with m.Else():
                m.d.comb += self.holds.eq(~self._is_less)
        with m.Else():
            m.d.comb += self.holds.eq(self._relation)

    def _needs_long_division(self) -> Value:
        """Whether the short sequence of a division is not correct for a / b."""
        a = self._a
        b = self._b
        wrong_dividend = (a.exponent < _DIVIDENDS[0]) | (a.exponent > _DIVIDENDS[1])
        wrong_divisor = (b.exponent > _DIVISORS[1]) | b.tiny
        wrong_quotient = (self._lead < _QUOTIENTS[0]) | (self._lead > _QUOTIENTS[1])
        return wrong_dividend | wrong_divisor | wrong_quotient
