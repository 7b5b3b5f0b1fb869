"""The datapath: three operands in, a result out, a thread every THREAD_CYCLES cycles."""

from typing import Any

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.kinds import Boolean, FloatRounding
from rtl.structs import struct_value

from .instruction import DOUBLE_BITS, WORD_BITS, DoubleInstruction, DoubleOperation
from .product import PRODUCT_BITS, PRODUCT_CYCLES, SIGNIFICAND_BITS, SignificandProduct
from .shifts import ALIGN_STAGES, DISTANCE_BITS, NORMAL_STAGES, Align, Normalize, saturated

__all__ = ["DATAPATH_CYCLES", "THREAD_CYCLES", "DoubleDatapath"]

THREAD_CYCLES = 8
"""From one thread to the next."""
_FRACTION = 52
_EXPONENT = 11
_BIAS = (1 << _EXPONENT - 1) - 1
_SPECIAL = (1 << _EXPONENT) - 1
"""The exponent of infinities and NaNs."""
_BELOW = 4
"""Places below a product's last one: what is shifted out of them counts for rounding alone, even
where a sum cancels."""
_POINT = _BELOW + PRODUCT_BITS - 2
"""The place of 1."""
_ABOVE = 2
"""Places above it: a sum of a product below 4 and a number below 2."""
_WIDTH = _POINT + 1 + _ABOVE
_POWER_BITS = _EXPONENT + 2
_NO_PRODUCT = -(1 << _EXPONENT)
"""The exponent of a product that is 0: below all others."""
_NAN = _SPECIAL << 1 | 1
"""The upper bits of the NaN that is a result."""
_ONE = _BIAS << _FRACTION
_FLOAT_ONE = 0x3F80_0000
_ALL_ONES = (1 << WORD_BITS) - 1

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
    """A number that is finite: a subnormal one, or zero, has the exponent of the smallest normal
    ones."""

    significand: unsigned(SIGNIFICAND_BITS)
    exponent: unsigned(_EXPONENT)
    is_negative: unsigned(1)
    is_zero: unsigned(1)


class _Outcome(data.Struct):
    """What is known of a result without its magnitude: whether it is a NaN or infinite; predicates
    p and q."""

    is_nan: unsigned(1)
    is_infinite: unsigned(1)
    is_negative: unsigned(1)
    """Of an infinity."""
    p: unsigned(1)
    q: unsigned(1)


class _Chosen(data.Struct):
    """Choice to terms: a product x * y, and what is added to it, z."""

    x: _Number
    y: _Number
    z: _Number
    is_product_only: unsigned(1)
    """Nothing is added."""
    outcome: _Outcome


class _Beside(data.Struct):
    """What is known beside two terms, and beside their sum."""

    power: signed(_POWER_BITS)
    """The greater exponent."""
    is_negative: unsigned(1)
    """The sign of its term; then of the sum."""
    subtracts: unsigned(1)
    """The terms have different signs."""
    outcome: _Outcome


class _Terms(data.Struct):
    """Terms to sum: that of the greater exponent, and the other one with the distance by which it
    is to be shifted."""

    large: unsigned(_WIDTH)
    small: unsigned(_WIDTH)
    distance: unsigned(DISTANCE_BITS)
    beside: _Beside


class _Rounded(data.Struct):
    """Rounding to result: the number rounded, as if its exponent had no bounds."""

    packed: unsigned(_FRACTION + _POWER_BITS)
    """Fraction and exponent."""
    is_negative: unsigned(1)
    overflows_to_infinity: unsigned(1)
    """If its exponent is too great; else to the largest number."""


class DoubleDatapath(wiring.Component):
    """Computes a * b + c, rounded once, of which everything but comparisons is a case.

    ::

        start -> signs -> comparison -> choice -> product (6 cycles) -> terms -> align (4)
              -> sum (2) -> normalize (4) -> round -> result

    The term of the greater exponent stays, the other one is shifted to the right. As zeros and
    subnormal numbers have the exponent of the smallest normal ones, no sum has a lesser one, and
    subnormal results are nothing special. What is known beside a number on its way is kept until
    that of the next thread arrives.

    Members
    -------
    instruction : In(DoubleInstruction)
        Stable from the first thread's ``start`` to the last one's ``done``.
    start, a, b, c, predicate : In
        A thread, every THREAD_CYCLES cycles at most.
    done, result : Out(1), Out(64)
        DATAPATH_CYCLES later; the result stays until the next one. Predicates are the lowest bits
        of its words; a result of one word is there twice.
    """

    instruction: In(DoubleInstruction)
    start: In(1)
    a: In(DOUBLE_BITS)
    b: In(DOUBLE_BITS)
    c: In(DOUBLE_BITS)
    predicate: In(1)
    done: Out(1)
    result: Out(DOUBLE_BITS)

    def __init__(self) -> None:
        super().__init__()
        self._cycles = Signal(DATAPATH_CYCLES + 1, name="cycles")
        """A bit for each cycle since a thread's ``start``."""
        self._a = Signal(DOUBLE_BITS, name="signed_a")
        self._b = Signal(DOUBLE_BITS, name="signed_b")
        self._c = Signal(DOUBLE_BITS, name="signed_c")
        self._predicate = Signal(name="thread_predicate")
        self._holds = Signal(name="holds")
        """The relation of a and b is the instruction's."""
        self._takes_a = Signal(name="takes_a")
        """DMNMX: a is the result, not b."""
        self._x = Signal(DOUBLE_BITS, name="x")
        self._y = Signal(DOUBLE_BITS, name="y")
        self._z = Signal(DOUBLE_BITS, name="z")
        self._chosen: Any = Signal(_Chosen, name="chosen")
        self._product = SignificandProduct()
        self._terms: Any = Signal(_Terms, name="terms")
        self._magnitude = Signal(_WIDTH, name="magnitude")
        self._sum: Any = Signal(_Beside, name="sum")
        """What is known beside the magnitude of the sum."""
        self._is_inexact = Signal(name="is_inexact")
        """A 1 was shifted out of the term of the lesser exponent."""
        self._normalize = Normalize(_WIDTH)
        self._rounded: Any = Signal(_Rounded, name="rounded")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self._cycles[0].eq(self.start)
        m.d.sync += self._cycles[1:].eq(self._cycles)
        m.d.comb += self.done.eq(self._at(DATAPATH_CYCLES))
        too_early = self.start & self._cycles[1:THREAD_CYCLES].any()
        m.d.sync += Assert(~too_early, "a thread begins before the one before has left its place")
        self._apply_signs(m)
        self._compare(m)
        self._select_operands(m)
        self._choose(m)
        self._multiply(m)
        self._order_terms(m)
        self._add(m)
        self._round(m)
        self._give_result(m)
        return m

    def _at(self, cycle: int) -> Value:
        """Whether a thread has had its ``start`` so many cycles ago."""
        return self._cycles[cycle]

    def _apply_signs(self, m: Module) -> None:
        """The operands with the signs that the instruction gives them."""
        instruction = self.instruction
        with m.If(self._at(0)):
            m.d.sync += self._a.eq(_signed(self.a, instruction.negate_a, instruction.absolute_a))
            m.d.sync += self._b.eq(_signed(self.b, instruction.negate_b, instruction.absolute_b))
            m.d.sync += self._c.eq(_signed(self.c, instruction.negate_c, Const(0, 1)))
            m.d.sync += self._predicate.eq(self.predicate)

    def _compare(self, m: Module) -> None:
        """How a and b relate. Where one of them is chosen -0 comes before +0."""
        a = self._a
        b = self._b
        compare = self.instruction.compare
        magnitude_a = a[:-1]
        magnitude_b = b[:-1]
        is_equal = Signal()
        is_less = Signal()
        both_are_zero = ~(magnitude_a | magnitude_b).any()
        m.d.comb += is_equal.eq((a == b) | both_are_zero)
        with m.If(a[-1] == b[-1]):
            are_negative_and_differ = a[-1] & (a != b)
            m.d.comb += is_less.eq((magnitude_a < magnitude_b) ^ are_negative_and_differ)
        with m.Else():
            m.d.comb += is_less.eq(a[-1])

        with m.If(_is_nan(a) | _is_nan(b)):
            m.d.sync += self._holds.eq(compare[3])
        with m.Elif(is_equal):
            m.d.sync += self._holds.eq(compare[1])
        with m.Elif(is_less):
            m.d.sync += self._holds.eq(compare[0])
        with m.Else():
            m.d.sync += self._holds.eq(compare[2])

        with m.If(_is_nan(a)):
            m.d.sync += self._takes_a.eq(0)
        with m.Elif(_is_nan(b)):
            m.d.sync += self._takes_a.eq(1)
        with m.Else():
            m.d.sync += self._takes_a.eq(is_less == self._predicate)

    def _select_operands(self, m: Module) -> None:
        """What is multiplied and added: x * y + z."""
        operation = self.instruction.operation
        m.d.comb += self._x.eq(self._a)
        m.d.comb += self._y.eq(_ONE)
        with m.If((operation == DoubleOperation.CHOOSE) & ~self._takes_a):
            m.d.comb += self._x.eq(self._b)
        with m.Switch(operation):
            with m.Case(DoubleOperation.ADD):
                m.d.comb += self._z.eq(self._b)
            with m.Case(DoubleOperation.MULTIPLY):
                m.d.comb += self._y.eq(self._b)
            with m.Case(DoubleOperation.FUSED):
                m.d.comb += self._y.eq(self._b)
                m.d.comb += self._z.eq(self._c)

    def _choose(self, m: Module) -> None:
        """The operands as numbers, and what is known of the result by them."""
        operation = self.instruction.operation
        combine = self.instruction.combine
        x = self._x
        y = self._y
        z = self._z
        chosen = self._chosen
        outcome = chosen.outcome
        adds = (operation == DoubleOperation.FUSED) | (operation == DoubleOperation.ADD)
        is_zero = Signal()
        is_infinite = Signal()
        has_special = _is_special(x) | _is_special(y)
        is_negative = x[-1] ^ y[-1]
        m.d.comb += is_zero.eq(~(x[:-1].any() & y[:-1].any()))
        m.d.comb += is_infinite.eq(has_special & ~is_zero)
        zero_times_infinity = has_special & is_zero
        infinities_cancel = is_infinite & _is_special(z) & (is_negative ^ z[-1])
        has_nan = _is_nan(x) | _is_nan(y) | _is_nan(z)
        with m.If(self._at(_CHOSEN_AT - 1)):
            _unpack(m, chosen.x, x)
            _unpack(m, chosen.y, y)
            _unpack(m, chosen.z, z)
            m.d.sync += chosen.is_product_only.eq(~adds)
            m.d.sync += outcome.is_nan.eq(has_nan | zero_times_infinity | infinities_cancel)
            m.d.sync += outcome.is_infinite.eq(is_infinite | _is_special(z))
            m.d.sync += outcome.is_negative.eq(Mux(is_infinite, is_negative, z[-1]))
            m.d.sync += outcome.p.eq(_combined(combine, self._holds, self._predicate))
            m.d.sync += outcome.q.eq(_combined(combine, ~self._holds, self._predicate))

    def _multiply(self, m: Module) -> None:
        """The product of the significands."""
        m.submodules.product = product = self._product
        m.d.comb += product.start.eq(self._at(_CHOSEN_AT))
        m.d.comb += product.a.eq(self._chosen.x.significand)
        m.d.comb += product.b.eq(self._chosen.y.significand)

    def _order_terms(self, m: Module) -> None:
        """While the product is made: which of the two terms is shifted, and how far. The product of
        a zero counts as the lesser term; if nothing is added to it, its sign stays."""
        x = self._chosen.x
        y = self._chosen.y
        z = self._chosen.z
        outcome = self._chosen.outcome
        shape = signed(_POWER_BITS)
        power = Signal(shape)
        power_less_z = Signal(shape)
        z_less_power = Signal(shape)
        is_zero = x.is_zero | y.is_zero
        m.d.sync += power.eq(Mux(is_zero, _NO_PRODUCT, x.exponent + y.exponent - _BIAS))
        m.d.sync += power_less_z.eq(power - z.exponent)
        m.d.sync += z_less_power.eq(z.exponent - power)

        product_is_negative = Signal()
        z_is_negative = Signal()
        subtracts = Signal()
        adds_nothing = self._chosen.is_product_only | (z.is_zero & ~is_zero)
        m.d.comb += product_is_negative.eq(x.is_negative ^ y.is_negative)
        m.d.comb += z_is_negative.eq(Mux(adds_nothing, product_is_negative, z.is_negative))
        m.d.comb += subtracts.eq(product_is_negative ^ z_is_negative)

        product = Cat(Const(0, _BELOW), self._product.product)
        addend = Cat(Const(0, _POINT - _FRACTION), z.significand)
        beside_addend = struct_value(
            _Beside,
            power=z.exponent,
            is_negative=z_is_negative,
            subtracts=subtracts,
            outcome=outcome)
        beside_product = struct_value(
            _Beside,
            power=power,
            is_negative=product_is_negative,
            subtracts=subtracts,
            outcome=outcome)
        with m.If(self._at(_PRODUCT_AT)):
            with m.If(power_less_z[-1]):
                m.d.sync += self._terms.eq(struct_value(
                    _Terms,
                    large=addend,
                    small=product,
                    distance=saturated(z_less_power),
                    beside=beside_addend))
            with m.Else():
                m.d.sync += self._terms.eq(struct_value(
                    _Terms,
                    large=product,
                    small=addend,
                    distance=saturated(power_less_z),
                    beside=beside_product))

    def _add(self, m: Module) -> None:
        """The sum of the terms, or the amount of their difference.

        A difference is large + ~small, which is one less than large - small. If that has no carry,
        it is negative, or 0 less one: its amount is its complement, small - large. Else one is
        added, but not if bits of the smaller term were lost: it was more than what is subtracted.
        """
        m.submodules.align = align = Align(_WIDTH)
        terms = self._terms
        subtracts = terms.beside.subtracts
        added = Signal(_WIDTH + 1)
        lost = Signal()
        is_complemented = Signal()
        m.d.comb += align.value.eq(terms.small)
        m.d.comb += align.distance.eq(terms.distance)
        m.d.sync += added.eq(terms.large + (align.shifted ^ subtracts.replicate(_WIDTH)))
        m.d.sync += lost.eq(align.lost)
        m.d.comb += is_complemented.eq(subtracts & ~added[-1])
        adds_one = subtracts & added[-1] & ~lost
        m.d.sync += self._magnitude.eq(
            (added[:-1] ^ is_complemented.replicate(_WIDTH)) + adds_one)
        with m.If(self._at(_SUM_AT)):
            m.d.sync += self._sum.eq(terms.beside)
            m.d.sync += self._sum.is_negative.eq(terms.beside.is_negative ^ is_complemented)
            m.d.sync += self._is_inexact.eq(lost)

    def _round(self, m: Module) -> None:
        """The sum, normalized as far as its exponent allows, rounded to the places of a fraction. A
        carry out of the fraction goes to the exponent."""
        m.submodules.normalize = normalize = self._normalize
        total = self._sum
        rounding = self.instruction.round
        m.d.comb += normalize.value.eq(self._magnitude)
        m.d.comb += normalize.most.eq(saturated(total.power + (_ABOVE - 1)))

        number = normalize.shifted
        is_normal = number[-1]
        fraction = number[-SIGNIFICAND_BITS:-1]
        half = number[-SIGNIFICAND_BITS - 1]
        is_more = number[:-SIGNIFICAND_BITS - 1].any() | self._is_inexact
        is_zero = ~(is_normal | fraction.any() | half | is_more)
        is_negative = Signal()
        with m.If(is_zero & total.subtracts):
            m.d.comb += is_negative.eq(rounding == FloatRounding.RM)
        with m.Else():
            m.d.comb += is_negative.eq(total.is_negative)

        rounds_up = Signal()
        to_infinity = Signal()
        with m.Switch(rounding):
            with m.Case(FloatRounding.RN):
                m.d.comb += to_infinity.eq(1)
                m.d.comb += rounds_up.eq(half & (is_more | fraction[0]))
            with m.Case(FloatRounding.RM):
                m.d.comb += to_infinity.eq(is_negative)
                m.d.comb += rounds_up.eq(is_negative & (half | is_more))
            with m.Case(FloatRounding.RP):
                m.d.comb += to_infinity.eq(~is_negative)
                m.d.comb += rounds_up.eq(~is_negative & (half | is_more))

        power = (total.power + _ABOVE - normalize.distance)[:_POWER_BITS]
        exponent = Mux(is_normal, power, 0)
        m.d.sync += self._rounded.eq(struct_value(
            _Rounded,
            packed=Cat(fraction, exponent) + rounds_up,
            is_negative=is_negative,
            overflows_to_infinity=to_infinity))

    def _give_result(self, m: Module) -> None:
        """The result in its format."""
        rounded = self._rounded
        outcome = self._sum.outcome
        operation = self.instruction.operation
        magnitude_bits = DOUBLE_BITS - 1
        infinity = Const(_SPECIAL << _FRACTION, magnitude_bits)
        largest = Const((_SPECIAL << _FRACTION) - 1, magnitude_bits)
        exponent = rounded.packed[_FRACTION:]
        overflows = exponent[_EXPONENT:].any() | exponent[:_EXPONENT].all()
        word = Signal(WORD_BITS)
        with m.If(outcome.p):
            m.d.comb += word.eq(Mux(self.instruction.one, _FLOAT_ONE, _ALL_ONES))

        result = Signal(DOUBLE_BITS, name="next_result")
        with m.If(operation == DoubleOperation.TEST):
            m.d.comb += result.eq(Cat(outcome.p, Const(0, WORD_BITS - 1), outcome.q))
        with m.Elif(operation == DoubleOperation.TEST_TO_REGISTER):
            m.d.comb += result.eq(Cat(word, word))
        with m.Elif(outcome.is_nan):
            m.d.comb += result.eq(_NAN << _FRACTION - 1)
        with m.Elif(outcome.is_infinite):
            m.d.comb += result.eq(Cat(infinity, outcome.is_negative))
        with m.Elif(overflows):
            magnitude = Mux(rounded.overflows_to_infinity, infinity, largest)
            m.d.comb += result.eq(Cat(magnitude, rounded.is_negative))
        with m.Else():
            m.d.comb += result.eq(Cat(rounded.packed[:magnitude_bits], rounded.is_negative))
        with m.If(self._at(_ROUNDED_AT)):
            m.d.sync += self.result.eq(result)


def _signed(word: Value, negate: Value, absolute: Value) -> Value:
    """An operand with the sign that an instruction gives it."""
    return Cat(word[:-1], (word[-1] & ~absolute) ^ negate)


def _is_special(word: Value) -> Value:
    """An infinity or a NaN."""
    return word[_FRACTION:-1].all()


def _is_nan(word: Value) -> Value:
    return _is_special(word) & word[:_FRACTION].any()


def _unpack(m: Module, number: Any, word: Value) -> None:
    """Sets the fields of a _Number, of which ``word`` is the format."""
    is_normal = word[_FRACTION:-1].any()
    m.d.sync += number.significand.eq(Cat(word[:_FRACTION], is_normal))
    m.d.sync += number.exponent.eq(word[_FRACTION:-1] | ~is_normal)
    m.d.sync += number.is_negative.eq(word[-1])
    m.d.sync += number.is_zero.eq(~word[:-1].any())


def _combined(combine: Any, holds: Value, predicate: Value) -> Value:
    """A relation combined with a predicate."""
    is_and = combine == Boolean.AND
    is_or = combine == Boolean.OR
    return Mux(is_and, holds & predicate, Mux(is_or, holds | predicate, holds ^ predicate))
