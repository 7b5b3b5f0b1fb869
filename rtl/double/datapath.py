"""The datapath: a result from three operands, for a thread every THREAD_CYCLES cycles."""

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
"""Cycles from the ``start`` of a thread to that of the next one, at least."""
_FRACTION = 52
_EXPONENT = 11
_BIAS = (1 << _EXPONENT - 1) - 1
_SPECIAL = (1 << _EXPONENT) - 1
"""The stored exponent of infinities and NaNs."""
_BELOW = 4
"""Bits below the lowest bit of a product. A 1 that is shifted out of them matters only for
rounding, even where the terms cancel."""
_POINT = _BELOW + PRODUCT_BITS - 2
"""The bit of weight 1, relative to the exponent."""
_ABOVE = 2
"""Bits above that: a product is below 4 and an addend below 2, so that their sum is below 8."""
_WIDTH = _POINT + 1 + _ABOVE
_POWER_BITS = _EXPONENT + 2
"""Width of a signed exponent with the bias, which may be out of range."""
_NO_PRODUCT = -(1 << _EXPONENT)
"""The exponent of a product that is 0: less than all others."""
_NAN = _SPECIAL << 1 | 1
"""The exponent of a NaN result and the highest bit of its fraction; its other bits are 0."""
_ONE = _BIAS << _FRACTION
_FLOAT_ONE = 0x3F80_0000
_ALL_ONES = (1 << WORD_BITS) - 1

# Cycles from ``start`` of a thread until a value of it is in its register.
_CHOSEN_AT = 3
_PRODUCT_AT = _CHOSEN_AT + PRODUCT_CYCLES
_TERMS_AT = _PRODUCT_AT + 1
_SUM_AT = _TERMS_AT + ALIGN_STAGES + 1
_MAGNITUDE_AT = _SUM_AT + 1
_ROUNDED_AT = _MAGNITUDE_AT + NORMAL_STAGES + 1
DATAPATH_CYCLES = _ROUNDED_AT + 1
"""Cycles from ``start`` to ``done`` and the result."""
assert _PRODUCT_AT < _CHOSEN_AT + THREAD_CYCLES and _SUM_AT < _TERMS_AT + THREAD_CYCLES
assert _ROUNDED_AT < _MAGNITUDE_AT + THREAD_CYCLES


class _Number(data.Struct):
    """An unpacked finite number. Zeros and subnormal numbers have exponent 1, that of the smallest
    normal numbers; their significands are below 1."""

    significand: unsigned(SIGNIFICAND_BITS)
    exponent: unsigned(_EXPONENT)
    is_negative: unsigned(1)
    is_zero: unsigned(1)


class _Outcome(data.Struct):
    """What the operands alone decide of a result: whether it is a NaN or an infinity, and
    predicates p and q."""

    is_nan: unsigned(1)
    is_infinite: unsigned(1)
    is_negative: unsigned(1)
    """The sign of an infinity."""
    p: unsigned(1)
    q: unsigned(1)


class _Chosen(data.Struct):
    """Choice to terms: the operands of x * y + z."""

    x: _Number
    y: _Number
    z: _Number
    is_product_only: unsigned(1)
    """z is not an operand, and is 0: its sign does not count."""
    outcome: _Outcome


class _Beside(data.Struct):
    """What accompanies two terms, and then their sum."""

    power: signed(_POWER_BITS)
    """The greater exponent of the terms, with the bias."""
    is_negative: unsigned(1)
    """The sign of the term with that exponent; beside the sum, that of the sum."""
    subtracts: unsigned(1)
    """The terms have different signs."""
    outcome: _Outcome


class _Terms(data.Struct):
    """Terms to sum: ``large`` with the greater exponent, and ``small``, which is to be shifted
    right by ``distance``."""

    large: unsigned(_WIDTH)
    small: unsigned(_WIDTH)
    distance: unsigned(DISTANCE_BITS)
    beside: _Beside


class _Rounded(data.Struct):
    """Rounding to result: the rounded number, whose exponent may be out of range."""

    packed: unsigned(_FRACTION + _POWER_BITS)
    """The fraction, and the exponent above it."""
    is_negative: unsigned(1)
    overflows_to_infinity: unsigned(1)
    """If the exponent is too great the result is infinite; else it is the largest number."""


class DoubleDatapath(wiring.Component):
    """Computes a * b + c, rounded once, of which DADD, DMUL and DMNMX are cases; and compares.

    ::

        start -> signs -> comparison -> choice -> product (6 cycles) -> terms -> align (4)
              -> sum (2) -> normalize (4) -> round -> result

    The term with the lesser exponent is shifted right to align it with the other. Zeros and
    subnormal numbers have exponent 1, and the addend is one term: no sum has an exponent below 1,
    and a subnormal result needs no special case. Values that accompany a number, as sign and
    exponent, are not pipelined: each has one register, which is written once a thread.

    Members
    -------
    instruction : In(DoubleInstruction)
        Stable from the first thread's ``start`` to the last one's ``done``.
    start, a, b, c, predicate : In
        The operands of a thread, in the cycle of ``start``; at least THREAD_CYCLES cycles apart.
    done, result : Out(1), Out(64)
        DATAPATH_CYCLES after ``start``; ``result`` is stable until the next ``done``. For DSETP, p
        and q are bit 0 of the lower and of the upper word. For DSET both words are the result.
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
        """Bit n: a thread had its ``start`` n cycles ago."""
        self._a = Signal(DOUBLE_BITS, name="signed_a")
        self._b = Signal(DOUBLE_BITS, name="signed_b")
        self._c = Signal(DOUBLE_BITS, name="signed_c")
        self._predicate = Signal(name="thread_predicate")
        self._holds = Signal(name="holds")
        """The relation of a and b that the instruction tests is true."""
        self._takes_a = Signal(name="takes_a")
        """DMNMX: a is the result, not b."""
        # The operands of x * y + z, as patterns.
        self._x = Signal(DOUBLE_BITS, name="x")
        self._y = Signal(DOUBLE_BITS, name="y")
        self._z = Signal(DOUBLE_BITS, name="z")
        self._chosen: Any = Signal(_Chosen, name="chosen")
        self._product = SignificandProduct()
        self._terms: Any = Signal(_Terms, name="terms")
        self._magnitude = Signal(_WIDTH, name="magnitude")
        self._sum: Any = Signal(_Beside, name="sum")
        """What accompanies ``magnitude``: sign, exponent and outcome of the sum."""
        self._is_inexact = Signal(name="is_inexact")
        """A 1 was shifted out when the term with the lesser exponent was aligned."""
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
        """Whether a thread had its ``start`` that many cycles ago."""
        return self._cycles[cycle]

    def _apply_signs(self, m: Module) -> None:
        """Applies ``absolute`` and ``negate`` to the operands."""
        instruction = self.instruction
        with m.If(self._at(0)):
            m.d.sync += self._a.eq(_signed(self.a, instruction.negate_a, instruction.absolute_a))
            m.d.sync += self._b.eq(_signed(self.b, instruction.negate_b, instruction.absolute_b))
            m.d.sync += self._c.eq(_signed(self.c, instruction.negate_c, Const(0, 1)))
            m.d.sync += self._predicate.eq(self.predicate)

    def _compare(self, m: Module) -> None:
        """Compares a and b: for a relation zeros of both signs are equal, for DMNMX -0 is less than
        +0. DMNMX chooses the operand that is not a NaN."""
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
        """Selects x, y and z for the operation; z is 0 where it does not have one."""
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
        """Unpacks x, y and z, and determines the outcome."""
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
        """Multiplies the significands of x and y."""
        m.submodules.product = product = self._product
        m.d.comb += product.start.eq(self._at(_CHOSEN_AT))
        m.d.comb += product.a.eq(self._chosen.x.significand)
        m.d.comb += product.b.eq(self._chosen.y.significand)

    def _order_terms(self, m: Module) -> None:
        """Orders the two terms by their exponents, computed while the product is. A product of 0
        has the lesser exponent. A z of 0 gets the sign of the product if it is no operand, or if
        the product is not 0: then the sum has this sign, too."""
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
        """Adds the terms, or computes the magnitude of their difference.

        A difference is made as large + ~small, which is large - small - 1. Without a carry small is
        at least large, and the complement of the sum is small - large. With a carry one is added,
        unless a 1 was shifted out of small: then the exact difference is between these two
        integers, of which the lesser one is kept, and ``is_inexact`` stands for the rest.
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
        """Normalizes the sum as far as its exponent allows, and rounds it to a fraction. A carry
        out of the fraction increments the exponent. An exact difference of 0 is +0, or -0 when
        rounding down."""
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
        """Selects the result, and packs it."""
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
    """An operand after ``absolute`` and then ``negate``."""
    return Cat(word[:-1], (word[-1] & ~absolute) ^ negate)


def _is_special(word: Value) -> Value:
    """Whether a pattern is an infinity or a NaN."""
    return word[_FRACTION:-1].all()


def _is_nan(word: Value) -> Value:
    return _is_special(word) & word[:_FRACTION].any()


def _unpack(m: Module, number: Any, word: Value) -> None:
    """Sets the fields of a _Number from a pattern."""
    is_normal = word[_FRACTION:-1].any()
    m.d.sync += number.significand.eq(Cat(word[:_FRACTION], is_normal))
    m.d.sync += number.exponent.eq(word[_FRACTION:-1] | ~is_normal)
    m.d.sync += number.is_negative.eq(word[-1])
    m.d.sync += number.is_zero.eq(~word[:-1].any())


def _combined(combine: Any, holds: Value, predicate: Value) -> Value:
    """A relation combined with the predicate operand: and, or, exclusive or."""
    is_and = combine == Boolean.AND
    is_or = combine == Boolean.OR
    return Mux(is_and, holds & predicate, Mux(is_or, holds | predicate, holds ^ predicate))
