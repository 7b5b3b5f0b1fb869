"""The datapath: three operands in, a result out, a thread every THREAD_CYCLES cycles."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.kinds import Boolean, FloatRounding

from .instruction import DOUBLE_BITS, WORD_BITS, DoubleInstruction, DoubleOperation
from .product import PRODUCT_BITS, PRODUCT_CYCLES, SIGNIFICAND_BITS, SignificandProduct
from .shifts import ALIGN_STAGES, DISTANCE_BITS, NORMAL_STAGES, Align, Normalize

__all__ = ["DATAPATH_CYCLES", "THREAD_CYCLES", "DoubleDatapath"]

THREAD_CYCLES = 8
"""From one thread to the next."""
_FRACTION, _EXPONENT = 52, 11
_BIAS, _SPECIAL = (1 << _EXPONENT - 1) - 1, (1 << _EXPONENT) - 1
_BELOW = 4
"""Places below a product's last one: what is shifted out of them counts for rounding alone, even where a sum
cancels."""
_POINT = _BELOW + PRODUCT_BITS - 2
"""The place of 1."""
_ABOVE = 2
"""Places above it: a sum of a product below 4 and a number below 2."""
_WIDTH = _POINT + 1 + _ABOVE
_POWER_BITS = _EXPONENT + 2
_NO_PRODUCT = -(1 << _EXPONENT)
"""The exponent of a product that is 0: below all others."""
_NAN = _SPECIAL << 1 | 1
"""The upper bits of what is not a number."""
_FLOAT_ONE = 0x3F80_0000

# Cycles from a thread's ``start`` to the one in which something is there.
_CHOSEN_AT = 3
_PRODUCT_AT = _CHOSEN_AT + PRODUCT_CYCLES
_TERMS_AT = _PRODUCT_AT + 1
_SUM_AT = _TERMS_AT + ALIGN_STAGES + 1
_MAGNITUDE_AT = _SUM_AT + 1
_ROUNDED_AT = _MAGNITUDE_AT + NORMAL_STAGES + 1
DATAPATH_CYCLES = _ROUNDED_AT + 1
"""From ``start`` to the result."""
assert _PRODUCT_AT < _CHOSEN_AT + THREAD_CYCLES and _SUM_AT < _TERMS_AT + THREAD_CYCLES
assert _ROUNDED_AT < _MAGNITUDE_AT + THREAD_CYCLES


class _Number(data.Struct):
    """A number that is not special: a subnormal one, or zero, has the exponent of the smallest normal ones."""

    significand: unsigned(SIGNIFICAND_BITS)
    exponent: unsigned(_EXPONENT)
    negative: unsigned(1)
    empty: unsigned(1)
    """It is zero."""


class _Outcome(data.Struct):
    """What is known of a result without its magnitude: it is none, or infinite; predicates p and q."""

    none: unsigned(1)
    infinite: unsigned(1)
    negative: unsigned(1)
    """Of an infinity."""
    p: unsigned(1)
    q: unsigned(1)


class _Chosen(data.Struct):
    """A product x * y and what is added to it, z; ``alone``: nothing is."""

    x: _Number
    y: _Number
    z: _Number
    alone: unsigned(1)
    outcome: _Outcome


class _Sum(data.Struct):
    """What goes with two terms: the greater exponent, the sign of its term, whether they are subtracted."""

    power: signed(_POWER_BITS)
    negative: unsigned(1)
    subtracts: unsigned(1)
    lost: unsigned(1)
    """Something was shifted out of the smaller one."""
    outcome: _Outcome


class DoubleDatapath(wiring.Component):
    """Computes a * b + c, rounded once, of which everything but comparisons is a case.

    ::

        start -> signs -> comparison -> choice -> product (6 cycles) -> terms -> align (4) -> sum (2) -> normalize (4)
              -> round -> result

    The term of the greater exponent stays, the other one is shifted to the right. As zeros and subnormal numbers have
    the exponent of the smallest normal ones, no sum has a lesser one, and subnormal results are nothing special. What
    stands beside a number on its way is kept until that of the next thread comes.

    Members
    -------
    instruction : In(DoubleInstruction)
        Stable from the first thread's ``start`` to the last one's ``done``.
    start, a, b, c, predicate : In
        A thread, every THREAD_CYCLES cycles at most.
    done, result : Out(1), Out(64)
        DATAPATH_CYCLES later; the result stays until the next one. Predicates are the lowest bits of its words; a
        result of one word is there twice.
    """

    instruction: In(DoubleInstruction)
    start: In(1)
    a: In(DOUBLE_BITS)
    b: In(DOUBLE_BITS)
    c: In(DOUBLE_BITS)
    predicate: In(1)
    done: Out(1)
    result: Out(DOUBLE_BITS)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        chosen: Any = Signal(_Chosen)
        first, second, distance, terms = (
            Signal(_WIDTH, name="first"), Signal(_WIDTH, name="second"), Signal(DISTANCE_BITS), Signal(_Sum))
        magnitude, total, past = Signal(_WIDTH), Signal(_Sum), Signal(DATAPATH_CYCLES + 1)
        m.d.comb += past[0].eq(self.start)
        m.d.sync += past[1:].eq(past)
        self._choose(m, past, chosen)
        self._multiply(m, past, chosen, (first, second, distance, terms))
        self._add(m, past, (first, second, distance, terms), magnitude, total)
        self._round(m, past, magnitude, total)
        m.d.comb += self.done.eq(past[DATAPATH_CYCLES])
        return m

    def _choose(self, m: Module, past: Signal, chosen: Any) -> None:
        """Signs, the comparison, and the operands of the product and the sum."""
        instruction, operation = self.instruction, self.instruction.operation
        a, b, c = (Signal(DOUBLE_BITS, name=name) for name in "abc")
        predicate = Signal()
        with m.If(past[0]):
            m.d.sync += [
                a.eq(_signed(self.a, instruction.negate_a, instruction.absolute_a)),
                b.eq(_signed(self.b, instruction.negate_b, instruction.absolute_b)),
                c.eq(_signed(self.c, instruction.negate_c, Const(0, 1))), predicate.eq(self.predicate)]

        # How a and b relate. Where one is chosen -0 comes before +0.
        below, equal, holds, takes_a = Signal(), Signal(), Signal(), Signal()
        none_a, none_b = _is_none(a), _is_none(b)
        m.d.comb += [
            equal.eq((a == b) | ~(a[:-1] | b[:-1]).any()),
            below.eq(Mux(a[-1] == b[-1], (a[:-1] < b[:-1]) ^ (a[-1] & (a != b)), a[-1]))]
        m.d.sync += [
            holds.eq(Mux(none_a | none_b, instruction.compare[3], Mux(equal, instruction.compare[1], Mux(
                below, instruction.compare[0], instruction.compare[2])))),
            takes_a.eq(~none_a & (none_b | (below == predicate)))]

        one, x, y, z = Const(_BIAS << _FRACTION, DOUBLE_BITS), *(Signal(DOUBLE_BITS, name=name) for name in "xyz")
        fuses, adds = operation == DoubleOperation.FUSED, operation == DoubleOperation.ADD
        m.d.comb += [
            x.eq(Mux((operation == DoubleOperation.CHOOSE) & ~takes_a, b, a)),
            y.eq(Mux(fuses | (operation == DoubleOperation.MULTIPLY), b, one)), z.eq(Mux(adds, b, Mux(fuses, c, 0)))]
        negative, alone, outcome = x[-1] ^ y[-1], ~(fuses | adds), chosen.outcome
        large, infinite, no_product = _is_special(x) | _is_special(y), Signal(), Signal()
        m.d.comb += [no_product.eq(~(x[:-1].any() & y[:-1].any())), infinite.eq(large & ~no_product)]
        with m.If(past[_CHOSEN_AT - 1]):
            m.d.sync += [
                *(statement for number, word in ((chosen.x, x), (chosen.y, y), (chosen.z, z))
                  for statement in _unpacked(number, word)),
                chosen.alone.eq(alone),
                outcome.none.eq(_is_none(x) | _is_none(y) | _is_none(z) | (large & no_product)
                                | (infinite & _is_special(z) & (negative ^ z[-1]))),
                outcome.infinite.eq(infinite | _is_special(z)), outcome.negative.eq(Mux(infinite, negative, z[-1])),
                outcome.p.eq(_combined(instruction.combine, holds, predicate)),
                outcome.q.eq(_combined(instruction.combine, ~holds, predicate))]

    def _multiply(self, m: Module, past: Signal, chosen: Any, terms: tuple[Any, ...]) -> None:
        """The product; and while it is made, which of the two terms is shifted how far."""
        m.submodules.product = product = SignificandProduct()
        first, second, distance, beside = terms
        x, y, z = chosen.x, chosen.y, chosen.z
        m.d.comb += [product.start.eq(past[_CHOSEN_AT]), product.a.eq(x.significand), product.b.eq(y.significand)]
        shape = signed(_POWER_BITS)
        power, more, less = Signal(shape), Signal(shape), Signal(shape)
        nothing, negative, added = Signal(), Signal(), Signal()
        m.d.comb += [nothing.eq(x.empty | y.empty), negative.eq(x.negative ^ y.negative),
                     added.eq(Mux(chosen.alone | (z.empty & ~nothing), negative, z.negative))]
        m.d.sync += [
            power.eq(Mux(nothing, _NO_PRODUCT, x.exponent + y.exponent - _BIAS)), more.eq(power - z.exponent),
            less.eq(z.exponent - power)]
        far, swaps = Mux(more[-1], less, more), more[-1]
        placed, addend = Cat(Const(0, _BELOW), product.product), Cat(Const(0, _POINT - _FRACTION), z.significand)
        with m.If(past[_PRODUCT_AT]):
            m.d.sync += [
                first.eq(Mux(swaps, addend, placed)), second.eq(Mux(swaps, placed, addend)),
                distance.eq(far[:DISTANCE_BITS] | far[DISTANCE_BITS:].any().replicate(DISTANCE_BITS)),
                beside.power.eq(Mux(swaps, z.exponent, power)), beside.negative.eq(Mux(swaps, added, negative)),
                beside.subtracts.eq(negative ^ added), beside.outcome.eq(chosen.outcome)]

    def _add(self, m: Module, past: Signal, terms: tuple[Any, ...], magnitude: Signal, total: Any) -> None:
        """The sum of the terms, or the amount of their difference: two less one and less what was lost."""
        m.submodules.align = align = Align(_WIDTH)
        first, second, distance, beside = terms
        added, lost, turns = Signal(_WIDTH + 1), Signal(), Signal()
        m.d.comb += [align.value.eq(second), align.distance.eq(distance), turns.eq(beside.subtracts & ~added[-1])]
        m.d.sync += [
            added.eq(first + (align.shifted ^ beside.subtracts.replicate(_WIDTH))), lost.eq(align.lost),
            magnitude.eq((added[:-1] ^ turns.replicate(_WIDTH)) + (beside.subtracts & added[-1] & ~lost))]
        with m.If(past[_SUM_AT]):
            m.d.sync += [total.eq(beside), total.negative.eq(beside.negative ^ turns), total.lost.eq(lost)]

    def _round(self, m: Module, past: Signal, magnitude: Signal, total: Any) -> None:
        """The result in its format."""
        m.submodules.normalize = normalize = Normalize(_WIDTH)
        instruction, operation, outcome = self.instruction, self.instruction.operation, total.outcome
        most = total.power + (_ABOVE - 1)
        m.d.comb += [
            normalize.value.eq(magnitude),
            normalize.most.eq(most[:DISTANCE_BITS] | most[DISTANCE_BITS:].any().replicate(DISTANCE_BITS))]
        number = normalize.shifted
        leads, fraction, half, rest = (
            number[-1], number[-SIGNIFICAND_BITS:-1], number[-SIGNIFICAND_BITS - 1],
            number[:-SIGNIFICAND_BITS - 1].any() | total.lost)
        zero = ~(leads | fraction.any() | half | rest)
        negative = Mux(zero & total.subtracts, instruction.round == FloatRounding.RM, total.negative)
        up, outwards = Signal(), Signal()
        with m.Switch(instruction.round):
            with m.Case(FloatRounding.RN):
                m.d.comb += [outwards.eq(1), up.eq(half & (rest | fraction[0]))]
            with m.Case(FloatRounding.RM):
                m.d.comb += [outwards.eq(negative), up.eq(negative & (half | rest))]
            with m.Case(FloatRounding.RP):
                m.d.comb += [outwards.eq(~negative), up.eq(~negative & (half | rest))]
        packed, sign, away = Signal(_FRACTION + _POWER_BITS), Signal(), Signal()
        exponent = Mux(leads, (total.power + _ABOVE - normalize.distance)[:_POWER_BITS], 0)
        m.d.sync += [packed.eq(Cat(fraction, exponent) + up), sign.eq(negative), away.eq(outwards)]

        top = packed[_FRACTION:]
        word, bits = Signal(WORD_BITS), DOUBLE_BITS - 1
        infinity, largest = Const(_SPECIAL << _FRACTION, bits), Const((_SPECIAL << _FRACTION) - 1, bits)
        with m.If(outcome.p):
            m.d.comb += word.eq(Mux(instruction.one, _FLOAT_ONE, (1 << WORD_BITS) - 1))
        with m.If(past[_ROUNDED_AT]):
            with m.If(operation == DoubleOperation.TEST):
                m.d.sync += self.result.eq(Cat(outcome.p, Const(0, WORD_BITS - 1), outcome.q))
            with m.Elif(operation == DoubleOperation.TEST_TO_REGISTER):
                m.d.sync += self.result.eq(Cat(word, word))
            with m.Elif(outcome.none):
                m.d.sync += self.result.eq(_NAN << _FRACTION - 1)
            with m.Elif(outcome.infinite):
                m.d.sync += self.result.eq(Cat(infinity, outcome.negative))
            with m.Elif(top[_EXPONENT:].any() | top[:_EXPONENT].all()):
                m.d.sync += self.result.eq(Cat(Mux(away, infinity, largest), sign))
            with m.Else():
                m.d.sync += self.result.eq(Cat(packed[:bits], sign))


def _signed(word: Value, negate: Value, absolute: Value) -> Value:
    """An operand with its sign as the instruction wants it."""
    return Cat(word[:-1], (word[-1] & ~absolute) ^ negate)


def _is_special(word: Value) -> Value:
    """No finite number."""
    return word[_FRACTION:-1].all()


def _is_none(word: Value) -> Value:
    """No number."""
    return _is_special(word) & word[:_FRACTION].any()


def _unpacked(number: Any, word: Value) -> tuple[Any, ...]:
    """A word as a number."""
    normal = word[_FRACTION:-1].any()
    return (number.significand.eq(Cat(word[:_FRACTION], normal)), number.negative.eq(word[-1]),
            number.exponent.eq(word[_FRACTION:-1] | ~normal), number.empty.eq(~word[:-1].any()))


def _combined(combine: Any, holds: Value, predicate: Value) -> Value:
    """A relation joined with a predicate."""
    return Mux(combine == Boolean.AND, holds & predicate, Mux(
        combine == Boolean.OR, holds | predicate, holds ^ predicate))
