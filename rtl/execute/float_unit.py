"""Single precision: one fused multiply-add for all arithmetic, and comparisons, in a lane's three stages.

The first stage takes the numbers apart and begins to shift the addend to where the product is; the lane's own
multipliers make the product, and the difference of its words compares. The second adds them and counts zeros; the third
normalizes and rounds, with the lane's own sum.

A sum is a window of 52 bits, of which the highest one is for the carry of what is added. The addend goes down from the
bit below; the product has two places. Near the addend it is at bit 2; far below it, so that not even its highest bits
matter but for what they round, 25 bits further down. One that would be even further down stays there: what counts of it
is that it is not 0. What the window has no room for, of one of both, is ``sticky``.

The exponent of the bit below the highest one is ``limit``, as single precision would store it; how far the sum goes up
is limited by it, so that a number that has no highest bit then is subnormal.

A difference has no carry that would have to pass all bits once more. p - a is p + ~a and one more. A far product is
mostly below the addend: with that one, the result is the sum's complement, and one more. A near one is mostly above:
without it, the result is the sum, and one more. Wherever one more is missing, it is as if it came up through ones below
the window: these are what is shifted in, and rounding adds it. A sticky bit, in these cases, takes its place.
"""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.kinds import FloatRounding, SwizzledSum
from rtl.leading_zeros import leading_zeros
from rtl.sums import sum_with_carry

from .float_control import FloatControl, FloatTerms
from .stages import Operands

__all__ = ["FloatAdd", "FloatAligned", "FloatFinish", "FloatNormal", "FloatPattern", "FloatPrepare", "FloatRound",
           "FloatSum"]

FRACTION_BITS = 23
_FRACTION, _EXPONENT, _BIAS = FRACTION_BITS, 8, 127
_LARGEST = (1 << _EXPONENT) - 1
"""The stored exponent of infinities and NaNs."""
_MANTISSA = _FRACTION + 1
_PRODUCT = 2 * _MANTISSA
_GUARD, _CLEAR = 2, 2
"""Bits of the window below a product that is near; bits that are clear between the highest addend and the product."""
_STEP = _CLEAR + _MANTISSA - 1
"""How much further down a product is that is far from the addend."""
_WINDOW = _GUARD + _PRODUCT + _CLEAR
_OFFSET = 2 * (_BIAS + _FRACTION) - (_PRODUCT + _CLEAR + _MANTISSA - 1) - _BIAS
"""How much less than the sum of the factors' exponents the exponent of the highest addend is."""
_EARLY_STEPS, _STEPS = 4, 6
"""The shift of the addend: steps of the first stage; all that matter."""
_EARLY = _MANTISSA + (1 << _EARLY_STEPS) - 1
# The short way of a division is right for divisors whose reciprocal is a normal number, and for quotients and
# remainders that are.
_DIVISORS, _DIVIDENDS, _QUOTIENTS = (1, 252), (30, 254), (-124, 125)


class Number(data.Struct):
    """An operand, taken apart."""

    sign: unsigned(1)
    exponent: unsigned(_EXPONENT)
    """As stored, 1 for a subnormal number and for zero."""
    mantissa: unsigned(_MANTISSA)
    tiny: unsigned(1)
    """Subnormal, or zero."""
    zero: unsigned(1)
    """Or flushed; the mantissa is not."""
    infinite: unsigned(1)
    nan: unsigned(1)


class FloatAligned(data.Struct):
    """After the first stage."""

    addend: unsigned(_EARLY)
    """Shifted by the low bits of ``shift``."""
    shift: unsigned(10)
    exponent: unsigned(_EXPONENT)
    """The addend's."""
    present: unsigned(1)
    """The addend is not 0."""
    far: unsigned(1)
    """The product is far below the addend."""
    empty: unsigned(1)
    """There is no product."""
    sign: unsigned(1)
    """Of the product; of an infinite result; of a."""
    subtracts: unsigned(1)
    """The addend, or b, has the other sign."""
    tiny: unsigned(2)
    """a and b are zero or subnormal."""
    infinite: unsigned(1)
    nan: unsigned(1)


class FloatSum(data.Struct):
    """After the second stage."""

    total: unsigned(_WINDOW)
    """Shifted up by 32 if that is to be."""
    negative: unsigned(1)
    """The sum's complement counts."""
    fill: unsigned(1)
    """What comes from below; it is for this one to go up that one more is missing."""
    sticky: unsigned(1)
    shift: unsigned(_STEPS - 1)
    exponent: unsigned(_EXPONENT + 1)
    """Of the normalized sum without its highest bit, which is one more."""
    sign: unsigned(1)
    cancelled: unsigned(1)
    """The sum is a difference of equal numbers."""
    away: unsigned(1)
    """What is too large becomes infinite; what is not rounded to the nearest goes away from 0."""
    flushable: unsigned(1)
    """A result without an exponent is subnormal, or zero."""
    infinite: unsigned(1)
    nan: unsigned(1)


class FloatNormal(data.Struct):
    """A normalized sum: mantissa, and exponent above the fraction, are added, and one if it is rounded up."""

    mantissa: unsigned(_MANTISSA)
    exponent: unsigned(_EXPONENT + 1)
    up: unsigned(1)


class FloatPattern(data.Struct):
    """What a result is but for the rounded sum."""

    keep: unsigned(1)
    """The sum counts."""
    word: unsigned(32)
    """The sign, and what else is one."""


class FloatPrepare(wiring.Component):
    """The first stage; combinational.

    Members
    -------
    control : In(FloatControl)
    operands : In(Operands)
    swizzle : In(2)
        The SwizzledSum of the thread; PP of what is none.
    below, same : In(1)
        Without their signs, the word a is below b; they are the same.
    factors : Out(24 bits, of a and b)
        For the lane's multipliers.
    holds : Out(1)
        The relation, or the check; of the lesser or the greater of a and b whether it is a, inverted where predicate x
        does not hold.
    aligned : Out(FloatAligned)
    """

    control: In(FloatControl)
    operands: In(Operands)
    swizzle: In(2)
    below: In(1)
    same: In(1)
    factors: Out(data.ArrayLayout(_MANTISSA, 2))
    holds: Out(1)
    aligned: Out(FloatAligned)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        control, operands, aligned = self.control, self.operands, self.aligned
        adds, multiplies = control.terms == FloatTerms.ADD, control.terms == FloatTerms.MULTIPLY
        idle = ~control.real | control.chooses
        a = self._number(m, "a", operands.a, control.absolute_a,
                         control.negate_a ^ (self.swizzle == SwizzledSum.NP.value))
        b = self._number(m, "b", operands.b, control.absolute_b,
                         control.negate_b ^ (self.swizzle == SwizzledSum.PN.value))
        c = self._number(m, "c", operands.c, Const(0, 1), control.negate_c)

        # What is added up: factors, and an addend that is a zero of the product's sign where there is none.
        addend: Any = Signal(Number)
        m.d.comb += addend.eq(Mux(adds, b.as_value(), c.as_value()))
        sign, vanishes, empty = Signal(), Signal(), Signal()
        m.d.comb += [
            self.factors[0].eq(a.mantissa),
            self.factors[1].eq(Mux(adds, 1 << _FRACTION, b.mantissa)),
            vanishes.eq(control.zero_wins & (a.zero | (b.zero & ~adds)) | (self.swizzle == SwizzledSum.ZP.value)),
            empty.eq(vanishes | a.zero | (b.zero & ~adds) | idle),
            sign.eq((a.sign ^ (b.sign & ~adds)) & ~vanishes)]
        nothing = Signal()
        m.d.comb += nothing.eq(multiplies | addend.zero | idle)

        # How far the addend goes down from its highest place.
        least = Signal(_EXPONENT)
        ahead, distance, near = Signal(signed(10)), Signal(signed(10)), Signal(signed(10))
        offset = Signal(signed(10))
        m.d.comb += [
            least.eq(Cat((addend.exponent[0] | multiplies), addend.exponent[1:] & (~multiplies).replicate(7))),
            offset.eq(Mux(adds, _BIAS - _OFFSET, control.scale - _OFFSET)),
            ahead.eq(a.exponent - least),
            distance.eq(ahead + ((b.exponent & (~adds).replicate(_EXPONENT)) + offset)[:10].as_signed()),
            near.eq(distance - _STEP)]
        highest = Signal()
        m.d.comb += [
            highest.eq((distance < 0) | empty), aligned.far.eq((near < 0) | empty),
            aligned.shift.eq(Mux(near < 0, distance, near).as_unsigned() & (~highest).replicate(10)),
            aligned.exponent.eq(least), aligned.present.eq(~nothing), aligned.empty.eq(empty),
            aligned.tiny.eq(Cat(a.tiny, b.tiny))]
        word: Value = Cat(Const(0, (1 << _EARLY_STEPS) - 1), addend.mantissa & (~nothing).replicate(_MANTISSA))
        for place in range(_EARLY_STEPS):
            word = Mux(aligned.shift[place], Cat(word[1 << place:], Const(0, 1 << place)), word)
        m.d.comb += aligned.addend.eq(word)

        # What is no sum of finite numbers.
        subtracts, infinite, nan = Signal(), Signal(), Signal()
        infinite_product = (a.infinite | (b.infinite & ~adds)) & ~vanishes
        infinite_addend = addend.infinite & ~multiplies
        b_factor_nan = b.nan & ~adds
        m.d.comb += [
            subtracts.eq(sign ^ Mux(multiplies, sign, addend.sign)),
            infinite.eq(infinite_product | infinite_addend),
            nan.eq(((a.nan | b_factor_nan | (a.infinite & b.zero & ~adds) | (a.zero & b.infinite & ~adds)) & ~vanishes)
                   | (addend.nan & ~multiplies) | (infinite_product & infinite_addend & subtracts)),
            aligned.sign.eq(sign ^ (~infinite_product & infinite_addend & subtracts & ~idle)),
            aligned.subtracts.eq(subtracts), aligned.infinite.eq(infinite & ~idle),
            aligned.nan.eq(Mux(control.chooses, a.nan & b.nan, nan & control.real))]
        self._compare(m, a, b, c, ahead)
        return m

    def _number(self, m: Module, name: str, word: Value, absolute: Value, negate: Value) -> Any:
        """An operand, with its sign cleared, then inverted, if asked."""
        number: Any = Signal(Number, name=f"number_{name}")
        exponent, fraction = word[_FRACTION:31], word[:_FRACTION]
        tiny, largest, whole = (Signal(name=f"{what}_{name}") for what in ("tiny", "largest", "whole"))
        m.d.comb += [
            tiny.eq(~exponent.any()), largest.eq(exponent.all()), whole.eq(~fraction.any()),
            number.sign.eq((word[31] & ~absolute) ^ negate), number.exponent.eq(Cat(exponent[0] | tiny, exponent[1:])),
            number.mantissa.eq(Cat(fraction, ~tiny)), number.tiny.eq(tiny),
            number.zero.eq(tiny & (whole | self.control.flush)),
            number.infinite.eq(largest & whole), number.nan.eq(largest & ~whole)]
        return number

    def _compare(self, m: Module, a: data.View, b: data.View, c: data.View, quotient: Value) -> None:
        """Relations and checks. ``quotient`` is the difference of exponents of a and b."""
        control = self.control
        less, equal, unordered, relation = Signal(), Signal(), Signal(), Signal()
        ordered = Signal()
        with m.If(control.of_c):
            m.d.comb += [ordered.eq(c.sign & ~c.zero), equal.eq(c.zero), unordered.eq(c.nan)]
        with m.Else():
            zeros = a.zero & b.zero
            m.d.comb += [ordered.eq(less & ~zeros), equal.eq((self.same & (a.sign == b.sign)) | zeros),
                         unordered.eq(a.nan | b.nan)]
        m.d.comb += [
            less.eq(Mux(a.sign, Mux(b.sign, ~self.below & ~self.same, 1), ~b.sign & self.below)),
            relation.eq(Mux(unordered, control.compare[3], Mux(equal, control.compare[1], Mux(
                ordered, control.compare[0], control.compare[2]))))]

        outside = ((a.exponent < _DIVIDENDS[0]) | (a.exponent > _DIVIDENDS[1]) | (b.exponent > _DIVISORS[1]) | b.tiny
                   | (quotient < _QUOTIENTS[0]) | (quotient > _QUOTIENTS[1]))
        x = self.operands.sources[0]
        with m.If(control.checks):
            m.d.comb += self.holds.eq(outside)
        with m.Elif(control.chooses):
            m.d.comb += self.holds.eq(Mux(b.nan, ~x, Mux(a.nan, x, ~less)))
        with m.Else():
            m.d.comb += self.holds.eq(relation)


class FloatAdd(wiring.Component):
    """The second stage; combinational.

    Members
    -------
    control : In(FloatControl)
    aligned : In(FloatAligned)
    product : In(48)
    decision : In(1)
        a is chosen, not b.
    sum : Out(FloatSum)
    """

    control: In(FloatControl)
    aligned: In(FloatAligned)
    product: In(_PRODUCT)
    decision: In(1)
    sum: Out(FloatSum)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        control, aligned, result = self.control, self.aligned, self.sum
        shift, minus, far = aligned.shift, aligned.subtracts, aligned.far

        # The addend, in the window.
        beyond = Signal()
        word: Value = Cat(Const(0, _WINDOW - 1 - _EARLY), aligned.addend)
        m.d.comb += beyond.eq(shift[_STEPS:].any())
        missing: Value = beyond & aligned.present
        for place in range(_EARLY_STEPS, _STEPS):
            step = 1 << place
            missing = missing | (shift[place] & word[:step].any())
            word = Mux(shift[place], word[step:], word)
        addend = (word & (~beyond).replicate(_WINDOW - 1)) ^ minus.replicate(_WINDOW)

        # The product, at one of its places.
        near, unseen = Cat(Const(0, _GUARD), self.product), _STEP - _GUARD
        product = Mux(far, self.product[unseen:], near) & (~aligned.empty).replicate(len(near))

        # Their sum, how far it goes up, and the first step of that.
        total, negative, limit = Signal(_WINDOW + 1), Signal(), Signal(10)
        zeros, none, difference, leaps = Signal(_STEPS), Signal(), Signal(signed(11)), Signal()
        step = 1 << _STEPS - 1
        magnitude = total[:_WINDOW] ^ negative.replicate(_WINDOW)
        m.d.comb += [
            total.eq(sum_with_carry(Cat(product, Const(0, _WINDOW - len(near))), addend, minus & far)),
            negative.eq(minus & ~total[_WINDOW]), limit.eq(aligned.exponent + shift),
            zeros.eq(leading_zeros(magnitude)), none.eq(zeros == _WINDOW), difference.eq(limit - zeros),
            leaps.eq(~magnitude[-step:].any() & limit[_STEPS - 1:].any()),
            result.total.eq(Mux(leaps, Cat(result.fill.replicate(step), total[:_WINDOW - step]), total[:_WINDOW])),
            result.negative.eq(negative), result.fill.eq(minus & ~far),
            result.sticky.eq(missing | (far & ~aligned.empty & self.product[:unseen].any())),
            result.shift.eq(Mux(difference[-1], limit, zeros)),
            result.exponent.eq(difference[:9] & ~(difference[-1] | none).replicate(9)),
            result.flushable.eq(~control.chooses | Mux(self.decision, aligned.tiny[0], aligned.tiny[1])),
            result.infinite.eq(aligned.infinite), result.nan.eq(aligned.nan)]

        sign, given = Signal(), Signal()
        m.d.comb += [
            given.eq(control.chooses | aligned.infinite | aligned.nan),
            sign.eq(~aligned.nan & (aligned.sign ^ Mux(given, control.chooses & ~self.decision & minus, negative))),
            result.sign.eq(sign),
            result.cancelled.eq(minus & none & (negative == result.fill) & ~result.sticky & ~given),
            result.away.eq(aligned.infinite | (control.round == FloatRounding.RN)
                           | ((control.round == FloatRounding.RP) & ~sign)
                           | ((control.round == FloatRounding.RM) & sign))]
        return m


class FloatRound(wiring.Component):
    """The third stage, up to the lane's sum; combinational.

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
        control, total, normal = self.control, self.sum, self.normal
        kept: Value = total.total
        more: Value = total.sticky
        # By the largest step first, so that what the smaller ones cannot bring up needs no way there.
        for place in reversed(range(_STEPS - 1)):
            step, moves = 1 << place, total.shift[place]
            width = _MANTISSA + step
            unseen = len(kept) - width
            assert 0 < unseen <= step
            shifted, lost = Signal(width, name=f"up{step}"), kept[:unseen] ^ total.fill.replicate(unseen)
            word = Mux(moves, Cat(total.fill.replicate(step - unseen), kept)[:width], kept[unseen:])
            if step == 2:
                word = word ^ total.negative.replicate(width)
            elif step == 1:
                lost = lost ^ total.negative
            more = more | (~moves & lost.any())
            m.d.comb += shifted.eq(word)
            kept = shifted
        half, mantissa, nearest = kept[0], kept[1:], control.round == FloatRounding.RN
        m.d.comb += [normal.mantissa.eq(mantissa), normal.exponent.eq(total.exponent)]
        # The one that is missing makes half of a bit of ones, and a whole one of that and of another half.
        with m.If((total.fill ^ total.negative) & ~total.sticky):
            m.d.comb += normal.up.eq(Mux(
                half, ~more | total.away, Mux(nearest, ~more & mantissa[0], total.away)))
        with m.Else():
            m.d.comb += normal.up.eq(Mux(nearest, half & (more | mantissa[0]), total.away & (half | more)))
        return m


class FloatFinish(wiring.Component):
    """The third stage, from the lane's sum on; combinational.

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
        control, of, before, after, pattern = self.control, self.sum, self.sum.exponent, self.exponent, self.pattern
        sign, huge, one, flushed, special = Signal(), Signal(), Signal(), Signal(), Signal()

        def reaches(bound: int) -> Value:
            """The rounded exponent does, by the highest bit of the sum and perhaps by the carry of its fraction."""
            assert bound % 2
            return (before >= bound - 1) | ((before == bound - 2) & after[0])

        m.d.comb += [
            sign.eq(Mux(of.cancelled, control.round == FloatRounding.RM, of.sign)),
            huge.eq(of.infinite | reaches(_LARGEST)),
            flushed.eq(control.real & control.flush & of.flushable & ~before.any() & ~after.any()),
            one.eq(control.saturate & ~sign & ~of.nan & (of.infinite | reaches(_BIAS))),
            special.eq(~control.saturate & (huge | of.nan)),
            pattern.keep.eq(~(of.nan | huge | flushed | one | (control.saturate & sign))),
            pattern.word.eq(Cat(
                (special & (of.nan | ~of.away)).replicate(_FRACTION), one | (special & (of.nan | of.away)),
                (one | special).replicate(6), special, sign & ~control.saturate & control.real))]
        return m
