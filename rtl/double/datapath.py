"""The datapath: a result from three operands, for a thread in each cycle."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.kinds import Boolean, FloatRounding
from rtl.structs import common_fields, struct_value

from .instruction import DOUBLE_BITS, WORD_BITS, DoubleInstruction, DoubleOperation
from .product import PRODUCT_BITS, PRODUCT_CYCLES, SIGNIFICAND_BITS, SignificandProduct
from .shifts import (
    COARSE_LEVELS,
    DISTANCE_BITS,
    FINE_BITS,
    FINE_LEVELS,
    SHIFT_STAGES,
    aligned,
    normalized_coarse,
    normalized_fine,
    saturated,
)

__all__ = ["DATAPATH_CYCLES", "DoubleDatapath"]

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
_FLOAT_ONE = 0x3F80_0000
_ALL_ONES = (1 << WORD_BITS) - 1

# Cycles from the operands of a thread until a value of it is in its register.
_SIGNED_AT = 1
_COMPARED_AT = _SIGNED_AT + 1
_CHOSEN_AT = _COMPARED_AT + 1
_TERMS_AT = _CHOSEN_AT + 1
_ALIGNED_AT = _TERMS_AT + SHIFT_STAGES
_SUM_AT = _ALIGNED_AT + 1
_NORMAL_AT = _SUM_AT + SHIFT_STAGES
_ROUNDED_AT = _NORMAL_AT + 1
DATAPATH_CYCLES = _ROUNDED_AT
"""Cycles from the operands to the result."""
assert _SIGNED_AT + PRODUCT_CYCLES == _CHOSEN_AT, "the product is known when the addend is chosen"


class _Signed(data.Struct):
    """Signs to comparison: the operands, as patterns."""

    instruction: DoubleInstruction
    a: unsigned(DOUBLE_BITS)
    b: unsigned(DOUBLE_BITS)
    c: unsigned(DOUBLE_BITS)
    predicate: unsigned(1)


class _Product(data.Struct):
    """What accompanies the product x * y."""

    power: signed(_POWER_BITS)
    """Its exponent, with the bias."""
    is_negative: unsigned(1)
    is_zero: unsigned(1)
    is_infinite: unsigned(1)
    is_nan: unsigned(1)


class _Compared(data.Struct):
    """Comparison to choice."""

    instruction: DoubleInstruction
    product: _Product
    a: unsigned(DOUBLE_BITS)
    """DMNMX: the first choice for z."""
    z: unsigned(DOUBLE_BITS)
    """The addend; for DMNMX the second choice."""
    holds: unsigned(1)
    """The relation of a and b that the instruction tests is true."""
    takes_a: unsigned(1)
    """DMNMX: a is the result, not b."""
    predicate: unsigned(1)


class _Outcome(data.Struct):
    """What the operands alone decide of a result: whether it is a NaN or an infinity, and
    predicates p and q."""

    operation: DoubleOperation
    one: unsigned(1)
    is_nan: unsigned(1)
    is_infinite: unsigned(1)
    is_negative: unsigned(1)
    """The sign of an infinity."""
    p: unsigned(1)
    q: unsigned(1)


class _Chosen(data.Struct):
    """Choice to order: all but the product itself, which has its own registers."""

    power: signed(_POWER_BITS)
    """The exponent of the product, with the bias."""
    product_is_negative: unsigned(1)
    significand: unsigned(SIGNIFICAND_BITS)
    """Of z. Zeros and subnormal numbers have a significand below 1."""
    z_power: unsigned(_EXPONENT)
    """The exponent of z, with the bias."""
    z_is_negative: unsigned(1)
    power_less_z: signed(_POWER_BITS)
    z_less_power: signed(_POWER_BITS)
    round: FloatRounding
    outcome: _Outcome


class _Beside(data.Struct):
    """What accompanies two terms, and then their sum."""

    power: signed(_POWER_BITS)
    """The greater exponent of the terms, with the bias."""
    is_negative: unsigned(1)
    """The sign of the term with that exponent; beside the sum, that of the sum."""
    subtracts: unsigned(1)
    """The terms have different signs."""
    round: FloatRounding
    outcome: _Outcome


class _Terms(data.Struct):
    """Terms to alignment, and from there to sum."""

    large: unsigned(_WIDTH)
    """The term with the greater exponent."""
    small: unsigned(_WIDTH)
    """The other one, shifted right by ``distance`` in two stages."""
    distance: unsigned(DISTANCE_BITS)
    is_inexact: unsigned(1)
    """A 1 was shifted out of ``small``."""
    beside: _Beside


class _Sum(data.Struct):
    """Sum to normalization."""

    magnitude: unsigned(_WIDTH)
    most: unsigned(DISTANCE_BITS)
    """How far it can be shifted left, until its exponent would be 0."""
    is_inexact: unsigned(1)
    beside: _Beside


class _Normal(data.Struct):
    """Normalization, of two stages, to rounding."""

    number: unsigned(_WIDTH)
    """Shifted left by ``distance``."""
    distance: unsigned(DISTANCE_BITS)
    most: unsigned(FINE_BITS)
    """How far the second stage can shift."""
    is_inexact: unsigned(1)
    beside: _Beside


class _Rounded(data.Struct):
    """Rounding to result: the rounded number, whose exponent may be out of range."""

    packed: unsigned(_FRACTION + _POWER_BITS)
    """The fraction, and the exponent above it."""
    is_negative: unsigned(1)
    overflows_to_infinity: unsigned(1)
    """If the exponent is too great the result is infinite; else it is the largest number."""
    outcome: _Outcome


class DoubleDatapath(wiring.Component):
    """Computes x * y + z, rounded once, the operation that all arithmetic is reduced to; and
    compares a and b.

    A stage takes one cycle, except two stages that take two. There is a method for each, and a
    struct between each stage and the next one::

        cycle  0       1          2          3       4, 5    6     7, 8        9       10
               signs > compare  > choose   > order > align > add > normalize > round > result
                       multiply > multiply -^

    =========  ==========  =======================================================================
    stage      leaves      what it does
    =========  ==========  =======================================================================
    signs      _Signed     applies the instruction's signs to a, b and c
    compare    _Compared   compares a and b
    multiply   _Compared   selects x, y and z; begins the product of x and y
    choose     _Chosen     DMNMX: chooses a or b for z; determines what is no finite number, p and q
    order      _Terms      completes the product; orders it and z by their exponents
    align      _Terms      shifts the term with the lesser exponent right
    add        _Sum        adds the terms, or subtracts the lesser one from the greater one
    normalize  _Normal     shifts the sum left
    round      _Rounded    rounds it to a fraction
    result                 selects the result, and packs it
    =========  ==========  =======================================================================

    Zeros and subnormal numbers have exponent 1, that of the smallest normal numbers, and the addend
    is one term: no sum has an exponent below 1, and a subnormal result needs no special case.

    Members
    -------
    instruction, a, b, c, predicate : In
        The instruction and the operands of a thread; those of another one can follow in the next
        cycle.
    result : Out(64)
        DATAPATH_CYCLES later. For DSETP, p and q are bit 0 of the lower and of the upper word. For
        DSET both words are the result.
    """

    instruction: In(DoubleInstruction)
    a: In(DOUBLE_BITS)
    b: In(DOUBLE_BITS)
    c: In(DOUBLE_BITS)
    predicate: In(1)
    result: Out(DOUBLE_BITS)

    def __init__(self) -> None:
        super().__init__()
        # What is in the registers between two stages.
        self._signed: Any = Signal(_Signed, name="signed")
        self._compared: Any = Signal(_Compared, name="compared")
        self._chosen: Any = Signal(_Chosen, name="chosen")
        self._terms: Any = Signal(_Terms, name="terms")
        self._aligning: Any = Signal(_Terms, name="aligning")
        self._aligned: Any = Signal(_Terms, name="aligned")
        self._sum: Any = Signal(_Sum, name="sum")
        self._normalizing: Any = Signal(_Normal, name="normalizing")
        self._normal: Any = Signal(_Normal, name="normal")
        self._rounded: Any = Signal(_Rounded, name="rounded")
        self._product = SignificandProduct()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.product = self._product
        self._apply_signs(m)
        self._compare(m)
        self._multiply(m)
        self._choose(m)
        self._order_terms(m)
        self._align(m, self._terms, self._aligning, COARSE_LEVELS)
        self._align(m, self._aligning, self._aligned, FINE_LEVELS)
        self._add(m)
        self._normalize_coarse(m)
        self._normalize_fine(m)
        self._round(m)
        self._give_result(m)
        return m

    def _apply_signs(self, m: Module) -> None:
        """Applies ``absolute`` and ``negate`` to the operands."""
        instruction = self.instruction
        m.d.sync += self._signed.eq(struct_value(
            _Signed,
            instruction=instruction,
            a=_signed(self.a, instruction.negate_a, instruction.absolute_a),
            b=_signed(self.b, instruction.negate_b, instruction.absolute_b),
            c=_signed(self.c, instruction.negate_c, Const(0, 1)),
            predicate=self.predicate))

    def _compare(self, m: Module) -> None:
        """Compares a and b: for a relation zeros of both signs are equal, for DMNMX -0 is less than
        +0. DMNMX chooses the operand that is not a NaN."""
        a = self._signed.a
        b = self._signed.b
        compare = self._signed.instruction.compare
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

        compared = self._compared
        with m.If(_is_nan(a) | _is_nan(b)):
            m.d.sync += compared.holds.eq(compare[3])
        with m.Elif(is_equal):
            m.d.sync += compared.holds.eq(compare[1])
        with m.Elif(is_less):
            m.d.sync += compared.holds.eq(compare[0])
        with m.Else():
            m.d.sync += compared.holds.eq(compare[2])

        with m.If(_is_nan(a)):
            m.d.sync += compared.takes_a.eq(0)
        with m.Elif(_is_nan(b)):
            m.d.sync += compared.takes_a.eq(1)
        with m.Else():
            m.d.sync += compared.takes_a.eq(is_less == self._signed.predicate)

    def _multiply(self, m: Module) -> None:
        """Selects x, y and z for the operation, and multiplies x and y. Where the operation has no
        product or no addend it is 0."""
        operands = self._signed
        operation = operands.instruction.operation
        x = Signal(DOUBLE_BITS, name="x")
        y = Signal(DOUBLE_BITS, name="y")
        z = Signal(DOUBLE_BITS, name="z")
        with m.Switch(operation):
            with m.Case(DoubleOperation.ADD):
                m.d.comb += x.eq(operands.a)
                m.d.comb += y.eq(_BIAS << _FRACTION)
                m.d.comb += z.eq(operands.b)
            with m.Case(DoubleOperation.MULTIPLY):
                m.d.comb += x.eq(operands.a)
                m.d.comb += y.eq(operands.b)
            with m.Case(DoubleOperation.FUSED):
                m.d.comb += x.eq(operands.a)
                m.d.comb += y.eq(operands.b)
                m.d.comb += z.eq(operands.c)
            with m.Case(DoubleOperation.CHOOSE):
                m.d.comb += z.eq(operands.b)
        m.d.comb += self._product.a.eq(_significand(x))
        m.d.comb += self._product.b.eq(_significand(y))

        compared = self._compared
        m.d.sync += common_fields(compared, operands)
        m.d.sync += compared.z.eq(z)
        is_zero = ~(x[:-1].any() & y[:-1].any())
        has_special = _is_special(x) | _is_special(y)
        m.d.sync += compared.product.eq(struct_value(
            _Product,
            power=Mux(is_zero, _NO_PRODUCT, _power(x) + _power(y) - _BIAS),
            is_negative=x[-1] ^ y[-1],
            is_zero=is_zero,
            is_infinite=has_special & ~is_zero,
            is_nan=_is_nan(x) | _is_nan(y) | (has_special & is_zero)))

    def _choose(self, m: Module) -> None:
        """Chooses z, unpacks it, and determines the outcome. A term that is no operand, and a z of
        0 beside a product that is not 0, get the sign of the other term: then the sum has this
        sign, too."""
        instruction = self._compared.instruction
        product = self._compared.product
        operation = instruction.operation
        predicate = self._compared.predicate
        holds = self._compared.holds
        z = Signal(DOUBLE_BITS, name="chosen_z")
        with m.If((operation == DoubleOperation.CHOOSE) & self._compared.takes_a):
            m.d.comb += z.eq(self._compared.a)
        with m.Else():
            m.d.comb += z.eq(self._compared.z)

        z_is_infinite = _is_special(z)
        infinities_cancel = product.is_infinite & z_is_infinite & (product.is_negative ^ z[-1])
        outcome = struct_value(
            _Outcome,
            operation=operation,
            one=instruction.one,
            is_nan=product.is_nan | _is_nan(z) | infinities_cancel,
            is_infinite=product.is_infinite | z_is_infinite,
            is_negative=Mux(product.is_infinite, product.is_negative, z[-1]),
            p=_combined(instruction.combine, holds, predicate),
            q=_combined(instruction.combine, ~holds, predicate))

        has_no_product = operation == DoubleOperation.CHOOSE
        has_no_addend = operation == DoubleOperation.MULTIPLY
        adds_nothing = has_no_addend | (~z[:-1].any() & ~product.is_zero)
        z_power = _power(z)
        m.d.sync += self._chosen.eq(struct_value(
            _Chosen,
            power=product.power,
            product_is_negative=Mux(has_no_product, z[-1], product.is_negative),
            significand=_significand(z),
            z_power=z_power,
            z_is_negative=Mux(adds_nothing, product.is_negative, z[-1]),
            power_less_z=product.power - z_power,
            z_less_power=z_power - product.power,
            round=instruction.round,
            outcome=outcome))

    def _order_terms(self, m: Module) -> None:
        """Orders the two terms by their exponents. A product of 0 has the lesser exponent."""
        chosen = self._chosen
        product = Cat(Const(0, _BELOW), self._product.product)
        addend = Cat(Const(0, _POINT - _FRACTION), chosen.significand)
        terms = self._terms
        with m.If(chosen.power_less_z[-1]):
            m.d.sync += terms.large.eq(addend)
            m.d.sync += terms.small.eq(product)
            m.d.sync += terms.distance.eq(saturated(chosen.z_less_power))
            m.d.sync += terms.beside.power.eq(chosen.z_power)
            m.d.sync += terms.beside.is_negative.eq(chosen.z_is_negative)
        with m.Else():
            m.d.sync += terms.large.eq(product)
            m.d.sync += terms.small.eq(addend)
            m.d.sync += terms.distance.eq(saturated(chosen.power_less_z))
            m.d.sync += terms.beside.power.eq(chosen.power)
            m.d.sync += terms.beside.is_negative.eq(chosen.product_is_negative)
        subtracts = chosen.product_is_negative ^ chosen.z_is_negative
        m.d.sync += terms.beside.subtracts.eq(subtracts)
        m.d.sync += terms.beside.round.eq(chosen.round)
        m.d.sync += terms.beside.outcome.eq(chosen.outcome)
        m.d.sync += terms.is_inexact.eq(0)

    def _align(self, m: Module, before: Any, after: Any, levels: tuple[int, ...]) -> None:
        """Shifts the term with the lesser exponent right by these bits of its distance."""
        small, lost = aligned(before.small, before.distance, levels)
        m.d.sync += after.eq(before)
        m.d.sync += after.small.eq(small)
        m.d.sync += after.is_inexact.eq(before.is_inexact | lost)

    def _add(self, m: Module) -> None:
        """Adds the terms, or computes the magnitude of their difference.

        If a 1 was shifted out of small, the exact difference is between two integers, the lesser of
        which is kept, and ``is_inexact`` stands for the rest. For large - small this is large +
        ~small, to which 1 is added if nothing was shifted out; for small - large it is the
        difference without a correction.
        """
        terms = self._aligned
        subtracts = terms.beside.subtracts
        added = Signal(_WIDTH)
        less_large = Signal(_WIDTH + 1)
        is_reversed = Signal()
        addend = terms.small ^ subtracts.replicate(_WIDTH)
        m.d.comb += added.eq(terms.large + addend + (subtracts & ~terms.is_inexact))
        m.d.comb += less_large.eq(terms.small - terms.large)
        # Without a borrow small is at least large.
        m.d.comb += is_reversed.eq(subtracts & ~less_large[-1])
        total = self._sum
        m.d.sync += total.eq(struct_value(
            _Sum,
            magnitude=Mux(is_reversed, less_large[:-1], added),
            most=saturated(terms.beside.power + (_ABOVE - 1)),
            is_inexact=terms.is_inexact,
            beside=terms.beside))
        m.d.sync += total.beside.is_negative.eq(terms.beside.is_negative ^ is_reversed)

    def _normalize_coarse(self, m: Module) -> None:
        """Shifts the sum left by a multiple of 16, as far as its exponent allows."""
        total = self._sum
        number, count, most = normalized_coarse(m, total.magnitude, total.most)
        m.d.sync += self._normalizing.eq(struct_value(
            _Normal,
            number=number,
            distance=Cat(Const(0, FINE_BITS), count),
            most=most,
            is_inexact=total.is_inexact,
            beside=total.beside))

    def _normalize_fine(self, m: Module) -> None:
        """Shifts it by the rest."""
        before = self._normalizing
        number, distance = normalized_fine(m, before.number, before.most)
        m.d.sync += self._normal.eq(before)
        m.d.sync += self._normal.number.eq(number)
        m.d.sync += self._normal.distance.eq(Cat(distance, before.distance[FINE_BITS:]))

    def _round(self, m: Module) -> None:
        """Rounds the normalized sum to a fraction. A carry out of the fraction increments the
        exponent. An exact difference of 0 is +0, or -0 when rounding down."""
        normal = self._normal
        total = normal.beside
        number = normal.number
        is_normal = number[-1]
        fraction = number[-SIGNIFICAND_BITS:-1]
        half = number[-SIGNIFICAND_BITS - 1]
        is_more = number[:-SIGNIFICAND_BITS - 1].any() | normal.is_inexact
        is_zero = ~(is_normal | fraction.any() | half | is_more)
        is_negative = Signal()
        with m.If(is_zero & total.subtracts):
            m.d.comb += is_negative.eq(total.round == FloatRounding.RM)
        with m.Else():
            m.d.comb += is_negative.eq(total.is_negative)

        rounds_up = Signal()
        to_infinity = Signal()
        with m.Switch(total.round):
            with m.Case(FloatRounding.RN):
                m.d.comb += to_infinity.eq(1)
                m.d.comb += rounds_up.eq(half & (is_more | fraction[0]))
            with m.Case(FloatRounding.RM):
                m.d.comb += to_infinity.eq(is_negative)
                m.d.comb += rounds_up.eq(is_negative & (half | is_more))
            with m.Case(FloatRounding.RP):
                m.d.comb += to_infinity.eq(~is_negative)
                m.d.comb += rounds_up.eq(~is_negative & (half | is_more))

        power = (total.power + _ABOVE - normal.distance)[:_POWER_BITS]
        exponent = Mux(is_normal, power, 0)
        m.d.sync += self._rounded.eq(struct_value(
            _Rounded,
            packed=Cat(fraction, exponent) + rounds_up,
            is_negative=is_negative,
            overflows_to_infinity=to_infinity,
            outcome=total.outcome))

    def _give_result(self, m: Module) -> None:
        """Selects the result, and packs it."""
        rounded = self._rounded
        outcome = rounded.outcome
        operation = outcome.operation
        magnitude_bits = DOUBLE_BITS - 1
        infinity = Const(_SPECIAL << _FRACTION, magnitude_bits)
        largest = Const((_SPECIAL << _FRACTION) - 1, magnitude_bits)
        exponent = rounded.packed[_FRACTION:]
        overflows = exponent[_EXPONENT:].any() | exponent[:_EXPONENT].all()
        word = Signal(WORD_BITS)
        with m.If(outcome.p):
            m.d.comb += word.eq(Mux(outcome.one, _FLOAT_ONE, _ALL_ONES))

        result = self.result
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


def _signed(word: Value, negate: Value, absolute: Value) -> Value:
    """An operand after ``absolute`` and then ``negate``."""
    return Cat(word[:-1], (word[-1] & ~absolute) ^ negate)


def _is_special(word: Value) -> Value:
    """Whether a pattern is an infinity or a NaN."""
    return word[_FRACTION:-1].all()


def _is_nan(word: Value) -> Value:
    return _is_special(word) & word[:_FRACTION].any()


def _is_normal(word: Value) -> Value:
    """Whether a pattern is no zero and not subnormal."""
    return word[_FRACTION:-1].any()


def _significand(word: Value) -> Value:
    """The significand of a pattern, with the bit above its fraction."""
    return Cat(word[:_FRACTION], _is_normal(word))


def _power(word: Value) -> Value:
    """The exponent of a pattern, with the bias; 1 for zeros and subnormal numbers."""
    return word[_FRACTION:-1] | ~_is_normal(word)


def _combined(combine: Any, holds: Value, predicate: Value) -> Value:
    """A relation combined with the predicate operand: and, or, exclusive or."""
    is_and = combine == Boolean.AND
    is_or = combine == Boolean.OR
    return Mux(is_and, holds & predicate, Mux(is_or, holds | predicate, holds ^ predicate))
