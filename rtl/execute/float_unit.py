"""Single precision: one fused multiply-add for all arithmetic, and comparisons, in a lane's three stages.

The first stage takes the numbers apart, compares them and shifts the addend to where the product is; the lane's own
multipliers make the product. The second adds them, the third normalizes and rounds.

A sum is a field of 78 bits: the product's 48 from bit 4 on, the addend's 24 anywhere from bit 54 down. Below the
product are three bits of the addend and one for all that is lost. A product that is below a fourth of the addend's last
bit stays where it is: what counts of it is that it is not 0. The exponent of bit 77 is ``exponent``, as single
precision would store it, never below 1, so that a number without bit 77 at exponent 1 is subnormal.
"""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, enum, wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.kinds import FloatRounding, SwizzledSum
from rtl.leading_zeros import leading_zeros
from rtl.sums import sum_with_carry

from .float_control import FloatControl, FloatTerms
from .stages import Operands

__all__ = ["FloatAdd", "FloatAligned", "FloatPrepare", "FloatRound", "FloatSum"]

_NAN = 0x7FFF_FFFF
_ONE = 0x3F80_0000
_FRACTION, _EXPONENT, _BIAS = 23, 8, 127
_LARGEST = (1 << _EXPONENT) - 1
"""The stored exponent of infinities and NaNs."""
_MANTISSA = _FRACTION + 1
_BELOW, _GAP = 4, 2
"""Bits of the field below the product; bits between the product and an addend that is far above it."""
_FIELD = _BELOW + 2 * _MANTISSA + _GAP + _MANTISSA
_OFFSET = 2 * (_BIAS + _FRACTION) + _BELOW - (_FIELD - 1) - _BIAS
"""How much less than the sum of the factors' exponents the exponent of the field's highest bit is."""
_SHIFT_BITS = _FIELD.bit_length()
# The short way of a division is right for divisors whose reciprocal is a normal number, and for quotients and
# remainders that are.
_DIVISORS, _DIVIDENDS, _QUOTIENTS = (1, 252), (30, 254), (-124, 125)


class Outcome(enum.Enum, shape=2):
    """What the result is."""

    SUM = 0
    WORD = 1
    """A word that is known already."""


class Number(data.Struct):
    """An operand, taken apart."""

    sign: unsigned(1)
    exponent: unsigned(_EXPONENT)
    """As stored, 1 for a subnormal number and for zero."""
    mantissa: unsigned(_MANTISSA)
    zero: unsigned(1)
    infinite: unsigned(1)
    nan: unsigned(1)


class FloatAligned(data.Struct):
    """After the first stage."""

    addend: unsigned(_FIELD)
    exponent: unsigned(10)
    sign: unsigned(1)
    """Of the product."""
    subtracts: unsigned(1)
    """The addend has the other sign."""
    no_product: unsigned(1)
    outcome: Outcome
    word: unsigned(32)


class FloatSum(data.Struct):
    """After the second stage."""

    magnitude: unsigned(_FIELD)
    exponent: unsigned(10)
    sign: unsigned(1)
    outcome: Outcome
    word: unsigned(32)


class FloatPrepare(wiring.Component):
    """The first stage; combinational.

    Members
    -------
    control : In(FloatControl)
    operands : In(Operands)
    swizzle : In(2)
        The SwizzledSum of the thread; PP of what is none.
    factors : Out(24 bits, of a and b)
        For the lane's multipliers.
    holds : Out(1)
        The relation, or the check.
    aligned : Out(FloatAligned)
    """

    control: In(FloatControl)
    operands: In(Operands)
    swizzle: In(2)
    factors: Out(data.ArrayLayout(_MANTISSA, 2))
    holds: Out(1)
    aligned: Out(FloatAligned)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        control, operands, aligned = self.control, self.operands, self.aligned
        adds = control.terms == FloatTerms.ADD
        words = [Signal(32, name=f"word_{name}") for name in "abc"]
        m.d.comb += [
            words[0].eq(_signed(operands.a, control.absolute_a,
                                control.negate_a ^ (self.swizzle == SwizzledSum.NP.value))),
            words[1].eq(_signed(operands.b, control.absolute_b,
                                control.negate_b ^ (self.swizzle == SwizzledSum.PN.value))),
            words[2].eq(_signed(operands.c, Const(0, 1), control.negate_c))]
        a, b, c = (self._number(m, name, word) for name, word in zip("abc", words, strict=True))

        # What is added up: factors, and an addend that is a zero of the product's sign where there is none.
        factor: Any = Signal(Number)
        addend: Any = Signal(Number)
        sign = Signal()
        multiplies = control.terms == FloatTerms.MULTIPLY
        m.d.comb += [factor.eq(b), addend.eq(Mux(adds, b.as_value(), c.as_value())), sign.eq(a.sign ^ b.sign)]
        with m.If(adds):
            m.d.comb += [factor.eq(0), factor.exponent.eq(_BIAS), factor.mantissa.eq(1 << _FRACTION), sign.eq(a.sign)]
        vanishes, empty = Signal(), Signal()
        m.d.comb += vanishes.eq(control.zero_wins & (a.zero | factor.zero) | (self.swizzle == SwizzledSum.ZP.value))
        with m.If(vanishes):
            m.d.comb += sign.eq(0)
        with m.If(multiplies):
            m.d.comb += [addend.eq(0), addend.sign.eq(sign), addend.exponent.eq(1), addend.zero.eq(1)]
        m.d.comb += empty.eq(vanishes | a.zero | factor.zero)
        m.d.comb += [self.factors[0].eq(a.mantissa), self.factors[1].eq(factor.mantissa)]

        # Alignment.
        exponent, distance, shift = Signal(signed(11)), Signal(signed(12)), Signal(_SHIFT_BITS)
        field = Signal(_FIELD + _MANTISSA)
        m.d.comb += [
            exponent.eq(Mux(empty, -_OFFSET, a.exponent + factor.exponent + control.scale - _OFFSET)),
            distance.eq(exponent - addend.exponent),
            shift.eq(Mux(distance < 0, 0, Mux(distance > _FIELD, _FIELD, distance))),
            field.eq(Cat(Const(0, _FIELD), addend.mantissa) >> shift),
            aligned.addend.eq(Cat(field[:_MANTISSA + 1].any(), field[_MANTISSA + 1:])),
            aligned.exponent.eq(Mux(distance < 0, addend.exponent, exponent)), aligned.sign.eq(sign),
            aligned.subtracts.eq(sign ^ addend.sign), aligned.no_product.eq(empty)]

        # What is no sum of finite numbers.
        infinite_product = (a.infinite | factor.infinite) & ~vanishes
        nan = (((a.nan | factor.nan | (a.infinite & factor.zero) | (a.zero & factor.infinite)) & ~vanishes)
               | addend.nan | (infinite_product & addend.infinite & (sign ^ addend.sign)))
        chosen = self._compare(m, a, b, c)
        with m.If(control.chooses):
            m.d.comb += [aligned.outcome.eq(Outcome.WORD), aligned.word.eq(chosen)]
        with m.Elif(nan):
            m.d.comb += [aligned.outcome.eq(Outcome.WORD), aligned.word.eq(_NAN)]
        with m.Elif(infinite_product | addend.infinite):
            infinity = Cat(Const(0, _FRACTION), Const(_LARGEST, _EXPONENT),
                           Mux(infinite_product, sign, addend.sign))
            m.d.comb += [aligned.outcome.eq(Outcome.WORD), aligned.word.eq(infinity)]
        return m

    def _number(self, m: Module, name: str, word: Value) -> Any:
        """An operand, flushed if it is to be."""
        number: Any = Signal(Number, name=f"number_{name}")
        exponent, fraction = word[_FRACTION:31], Signal(_FRACTION, name=f"fraction_{name}")
        tiny, largest = Signal(name=f"tiny_{name}"), Signal(name=f"largest_{name}")
        m.d.comb += [
            tiny.eq(~exponent.any()), largest.eq(exponent.all()),
            fraction.eq(word[:_FRACTION] & (~(tiny & self.control.flush)).replicate(_FRACTION)),
            number.sign.eq(word[31]), number.exponent.eq(Cat(exponent[0] | tiny, exponent[1:])),
            number.mantissa.eq(Cat(fraction, ~tiny)), number.zero.eq(tiny & ~fraction.any()),
            number.infinite.eq(largest & ~fraction.any()), number.nan.eq(largest & fraction.any())]
        return number

    def _compare(self, m: Module, a: data.View, b: data.View, c: data.View) -> Signal:
        """Relations and checks; the lesser or the greater of a and b."""
        control = self.control
        first: Any = Signal(Number)
        second: Any = Signal(Number)
        below, same = Signal(), Signal()
        less, equal, unordered = Signal(), Signal(), Signal()
        m.d.comb += [first.eq(Mux(control.of_c, c.as_value(), a.as_value())),
                     second.eq(Mux(control.of_c, 0, b.as_value()))]
        magnitudes = [Signal(31, name=f"magnitude_{index}") for index in range(2)]
        m.d.comb += [magnitude.eq(_magnitude(number)) for magnitude, number in zip(
            magnitudes, (first, second), strict=True)]
        m.d.comb += [
            below.eq(magnitudes[0] < magnitudes[1]), same.eq(magnitudes[0] == magnitudes[1]),
            unordered.eq(first.nan | second.nan),
            less.eq(Mux(first.sign, Mux(second.sign, ~below & ~same, 1), ~second.sign & below)),
            equal.eq(same & (first.sign == second.sign))]
        zeros = (magnitudes[0] | magnitudes[1]) == 0
        holds = Cat(less & ~zeros, equal | zeros, ~less & ~equal & ~zeros) & (~unordered).replicate(3)
        relation = (Cat(holds, unordered) & control.compare).any()

        quotient = Signal(signed(10))
        m.d.comb += quotient.eq(a.exponent - b.exponent)
        outside = ((a.exponent < _DIVIDENDS[0]) | (a.exponent > _DIVIDENDS[1]) | (b.exponent > _DIVISORS[1])
                   | ~b.mantissa[_FRACTION] | (quotient < _QUOTIENTS[0]) | (quotient > _QUOTIENTS[1]))
        m.d.comb += self.holds.eq(Mux(control.checks, outside, relation))

        chosen = Signal(32)
        takes_a = (less == self.operands.sources[0])
        with m.If(a.nan & b.nan):
            m.d.comb += chosen.eq(_NAN)
        with m.Elif(b.nan | (takes_a & ~a.nan)):
            m.d.comb += chosen.eq(Cat(_magnitude(a), a.sign))
        with m.Else():
            m.d.comb += chosen.eq(Cat(_magnitude(b), b.sign))
        return chosen


def _signed(word: Value, absolute: Value, negate: Value) -> Value:
    """The word with its sign cleared, then inverted, if asked."""
    return Cat(word[:31], (word[31] & ~absolute) ^ negate)


def _magnitude(number: data.View) -> Value:
    """The number without its sign, as stored."""
    return Cat(number.mantissa[:_FRACTION], number.exponent & number.mantissa[_FRACTION].replicate(_EXPONENT))


class FloatAdd(wiring.Component):
    """The second stage; combinational.

    Members
    -------
    aligned : In(FloatAligned)
    product : In(48)
    downwards : In(1)
        The sum is rounded down: a difference of equal numbers is -0.
    sum : Out(FloatSum)
    """

    aligned: In(FloatAligned)
    product: In(2 * _MANTISSA)
    downwards: In(1)
    sum: Out(FloatSum)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        aligned, result = self.aligned, self.sum
        total, negative = Signal(_FIELD + 1), Signal()
        product = self.product & (~aligned.no_product).replicate(2 * _MANTISSA)
        inverted = aligned.addend ^ aligned.subtracts.replicate(_FIELD)
        m.d.comb += [
            total.eq(sum_with_carry(Cat(Const(0, _BELOW), product, Const(0, _FIELD - _BELOW - 2 * _MANTISSA)),
                                    inverted, aligned.subtracts)),
            negative.eq(aligned.subtracts & ~total[_FIELD]),
            result.magnitude.eq((total[:_FIELD] ^ negative.replicate(_FIELD)) + negative),
            result.exponent.eq(aligned.exponent),
            result.sign.eq(Mux(aligned.subtracts & ~result.magnitude.any(), self.downwards, aligned.sign ^ negative)),
            result.outcome.eq(aligned.outcome), result.word.eq(aligned.word)]
        return m


class FloatRound(wiring.Component):
    """The third stage; combinational.

    Members
    -------
    control : In(FloatControl)
    sum : In(FloatSum)
    result : Out(32)
    """

    control: In(FloatControl)
    sum: In(FloatSum)
    result: Out(32)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        control, total = self.control, self.sum
        zeros, shift = Signal(_SHIFT_BITS), Signal(_SHIFT_BITS)
        limit, exponent = Signal(10), Signal(10)
        field, more = self._normal(m, total.magnitude, shift)
        mantissa = field[1:]
        m.d.comb += [
            zeros.eq(leading_zeros(total.magnitude)), limit.eq(total.exponent - 1),
            shift.eq(Mux(limit < zeros, limit, zeros)), exponent.eq((limit - shift) & mantissa[-1].replicate(10))]

        # Rounding: a carry out of the fraction goes to the exponent.
        last, half, up = mantissa[0], field[0], Signal()
        with m.Switch(control.round):
            with m.Case(FloatRounding.RN):
                m.d.comb += up.eq(half & (more | last))
            with m.Case(FloatRounding.RM):
                m.d.comb += up.eq(total.sign & (half | more))
            with m.Case(FloatRounding.RP):
                m.d.comb += up.eq(~total.sign & (half | more))
        rounded = Signal(_FRACTION + 11)
        m.d.comb += rounded.eq(sum_with_carry(
            Cat(mantissa[:_FRACTION], exponent), Cat(Const(0, _FRACTION), mantissa[_FRACTION], Const(0, 9)), up))
        stored, overflows, word = rounded[_FRACTION:], Signal(), Signal(32)
        away = ((control.round == FloatRounding.RN) | ((control.round == FloatRounding.RP) & ~total.sign)
                | ((control.round == FloatRounding.RM) & total.sign))
        m.d.comb += overflows.eq(stored >= _LARGEST)
        with m.If(total.outcome == Outcome.WORD):
            m.d.comb += word.eq(total.word)
        with m.Elif(overflows):
            m.d.comb += word.eq(Cat((~away).replicate(_FRACTION), away, Const(_LARGEST >> 1, 7), total.sign))
        with m.Elif(control.flush & ~stored.any()):
            m.d.comb += word.eq(Cat(Const(0, 31), total.sign))
        with m.Else():
            m.d.comb += word.eq(Cat(rounded[:31], total.sign))

        m.d.comb += self.result.eq(word)
        nan = word[_FRACTION:31].all() & word[:_FRACTION].any()
        with m.If(control.saturate & (word[31] | nan)):
            m.d.comb += self.result.eq(0)
        with m.Elif(control.saturate & (word[_FRACTION:31] >= _ONE >> _FRACTION)):
            m.d.comb += self.result.eq(_ONE)
        return m

    def _normal(self, m: Module, magnitude: Value, shift: Value) -> tuple[Value, Value]:
        """The magnitude shifted up: its highest _MANTISSA + 1 bits, and whether any below is 1.

        By the largest step first, so that what the smaller ones cannot bring up needs no way there.
        """
        kept: Value = magnitude
        lost: Value = Const(0, 1)
        for place in reversed(range(_SHIFT_BITS)):
            step, moves = 1 << place, shift[place]
            width = min(_FIELD, _MANTISSA + step)
            unseen = len(kept) - width
            assert unseen <= step
            shifted = Signal(width, name=f"up{step}")
            m.d.comb += shifted.eq(Mux(moves, Cat(Const(0, step - unseen), kept)[:width], kept[unseen:]))
            if unseen:
                lost |= ~moves & kept[:unseen].any()
            kept = shifted
        return kept, lost
