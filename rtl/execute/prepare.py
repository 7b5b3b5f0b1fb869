"""The first stage of a lane: prepares the operands for the second one."""

from abc import abstractmethod
from typing import Any

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.kinds import Boolean
from rtl.params import QUAD
from rtl.structs import struct_value
from rtl.sums import sum_is_zero, sum_with_carry

from .control import LaneControl, Part, Truth
from .difference import ByteDifference
from .float_prepare import FloatPrepare
from .parts import SelectedPart, selected_part
from .permute import byte_picks
from .shift_plan import ShiftPlanner, ShiftTerms, word_shift_plan
from .stages import FACTOR_BITS, PREPARED_SUM_BITS, WORD_BYTES, Operands, Prepared

__all__ = ["FullPrepareStage", "PrepareStage", "WordPrepareStage", "joined"]


def joined(operation: Value, first: Value, second: Value) -> Value:
    """Two predicates combined by a code of Boolean."""
    return Mux(
        operation == Boolean.OR, first | second,
        Mux(operation == Boolean.XOR, first ^ second, first & second))


class PrepareStage(wiring.Component):
    """Complements operands, multiplies halves, and plans shifts. The difference of a and b gives
    their relation; the decision is computed for each possible relation, and the second stage
    selects one. Combinational.

    Parameters
    ----------
    place : int
        The number of the lane's threads in their quads (groups of four threads).
    floats : bool
        With floating point.

    Members
    -------
    control : In(LaneControl)
    operands : In(Operands)
    prepared : Out(Prepared)
    """

    control: In(LaneControl)
    operands: In(Operands)
    prepared: Out(Prepared)

    def __init__(self, place: int, *, floats: bool) -> None:
        self._place = place
        self.floats = FloatPrepare() if floats else None
        super().__init__()
        self._a: Any = Signal(SelectedPart, name="selected_a")
        self._b: Any = Signal(SelectedPart, name="selected_b")
        self._difference = Signal(PREPARED_SUM_BITS, name="difference")
        """a - b, with a sign; a full lane may have a sum or differences of bytes here, see
        ByteDifference."""
        self._verdict = Signal(name="verdict")
        """The decision, before the predicate is combined, if it is not a relation of a and b."""
        self._low_factor_a = Signal(signed(FACTOR_BITS), name="low_factor_a")
        """The low half of a, or its selected half in an ordinary lane; b likewise."""
        self._low_factor_b = Signal(signed(FACTOR_BITS), name="low_factor_b")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._select_parts(m)
        self._subtract(m)
        self._compare(m)
        self._find_verdict(m)
        self._decide(m)
        self._prepare_terms(m)
        self._multiply(m)
        self._plan_shift(m)
        if self.floats is not None:
            self._connect_floats(m, self.floats)
        m.d.comb += self.prepared.conditions.eq(self.operands.conditions)
        return m

    @abstractmethod
    def _select_parts(self, m: Module) -> None:
        """The selected parts of a and b, and their signs."""

    @abstractmethod
    def _subtract(self, m: Module) -> None:
        """The difference of a and b."""

    @abstractmethod
    def _is_same(self) -> Value:
        """Whether a and b are equal; if ``extended``, without the borrow of lower words."""

    @abstractmethod
    def _tests_condition(self) -> Value:
        """The outcome of the test of CC."""

    @abstractmethod
    def _prepare_terms(self, m: Module) -> None:
        """The terms a, b and c of sums, of logic and of shifts."""

    @abstractmethod
    def _multiply(self, m: Module) -> None:
        """Products of halves."""

    @abstractmethod
    def _plan_shift(self, m: Module) -> None:
        """The ShiftPlan for the second stage."""

    def _comparison_carry(self) -> Value:
        """The carry into a - b: 1, or for ``extended`` the carry flag of the lower words."""
        return Mux(self.control.extended, self.operands.conditions.carry, 1)

    def _compare(self, m: Module) -> None:
        """The relation of a and b. In a comparison of longer numbers CC has the relation of the
        words compared before: higher words (``continues``) decide unless they are equal; lower
        words (``extended``) have a borrow, and may differ."""
        control = self.control
        flags = self.operands.conditions
        is_undecided = ~control.continues | flags.zero
        lower_are_equal = ~control.extended | flags.zero
        relation = self.prepared.relation
        m.d.comb += relation.less.eq(Mux(is_undecided, self._difference[-1], ~flags.carry))
        m.d.comb += relation.equal.eq(self._is_same() & is_undecided & lower_are_equal)

    def _find_verdict(self, m: Module) -> None:
        """The decision if it is not a relation of a and b: two predicates, a test of CC, or the
        decision of the floating-point unit."""
        control = self.control
        x = self.operands.sources[0]
        y = self.operands.sources[1]
        with m.If(control.truth == Truth.PREDICATES):
            m.d.comb += self._verdict.eq(joined(control.combine_first, x, y))
        with m.Else():
            m.d.comb += self._verdict.eq(self._tests_condition())
        if self.floats is not None:
            with m.If(control.floating.decides):
                m.d.comb += self._verdict.eq(self.floats.holds)

    def _decide(self, m: Module) -> None:
        """The decision, and the opposite decision, for each relation of a and b, combined with the
        predicate."""
        control = self.control
        prepared = self.prepared
        x = self.operands.sources[0]
        z = self.operands.sources[2]
        is_relation = (control.truth == Truth.RELATION) | (control.truth == Truth.SIGN)
        predicate = Mux(control.truth == Truth.PREDICATES, z, x)
        relation = control.compare.as_value()
        for place, name in enumerate(("less", "equal", "greater")):
            holds = Mux(is_relation, relation[place], self._verdict)
            m.d.comb += prepared.decision[name].eq(joined(control.combine, holds, predicate))
            m.d.comb += prepared.opposite_decision[name].eq(
                joined(control.combine, ~holds, predicate))

    def _connect_floats(self, m: Module, floats: FloatPrepare) -> None:
        """The floating-point unit, which compares by the difference of words."""
        floating = self.control.floating
        signs_differ = self._a.word[31] ^ self._b.word[31]
        m.submodules.floats = floats
        m.d.comb += floats.control.eq(floating)
        m.d.comb += floats.operands.eq(self.operands)
        m.d.comb += floats.swizzle.eq(floating.swizzle.word_select(QUAD - 1 - self._place, 2))
        m.d.comb += floats.below.eq(self._difference[31] ^ signs_differ)
        m.d.comb += floats.same.eq(~self._difference[:31].any())
        m.d.comb += self.prepared.aligned.eq(floats.aligned)


class WordPrepareStage(PrepareStage):
    """The first stage of an ordinary lane.

    a is reversed for shifts to the left. At most two terms are negated, so that two carry inputs
    are enough: that of the sum of a and b, and that of the final sum.
    """

    def _select_parts(self, m: Module) -> None:
        operands = self.operands
        control = self.control
        m.d.comb += self._a.eq(struct_value(
            SelectedPart,
            word=operands.a,
            is_negative=control.signed_a & operands.a[31]))
        m.d.comb += self._b.eq(struct_value(
            SelectedPart,
            word=operands.b,
            is_negative=control.signed_b & operands.b[31]))

    def _subtract(self, m: Module) -> None:
        m.d.comb += self._difference.eq(sum_with_carry(
            self._a.extended, ~self._b.extended, self._comparison_carry()))

    def _is_same(self) -> Value:
        return ~self._difference.any()

    def _tests_condition(self) -> Value:
        return Const(0)

    def _prepare_terms(self, m: Module) -> None:
        control = self.control
        operands = self.operands
        prepared = self.prepared
        a = Signal(32)
        c = Signal(32)
        reverses = (control.part_a == Part.REVERSED) ^ control.left
        with m.If(reverses):
            m.d.comb += a.eq(operands.a[::-1])
        with m.Else():
            m.d.comb += a.eq(operands.a)
        m.d.comb += prepared.a.eq(a ^ control.negate_a.replicate(32))
        m.d.comb += prepared.b.eq(operands.b ^ control.negate_b.replicate(32))

        with m.Switch(control.part_c):
            with m.Case(Part.WORD):
                m.d.comb += c.eq(operands.c)
            with m.Case(Part.HIGH):
                m.d.comb += c.eq(operands.c[16:])
            with m.Default():
                m.d.comb += c.eq(operands.c[:16])
        complemented_c = c ^ control.negate_c.replicate(32)
        high_b = operands.b[:16] & control.add_high_b.replicate(16)
        m.d.comb += prepared.c.eq(
            Cat(complemented_c[:16], (complemented_c[16:] + high_b)[:16]))

        adds_overflow = control.three & control.add_carry & operands.conditions.overflow
        m.d.comb += prepared.one_more.eq(
            control.one_a | control.one_b | control.one_c | adds_overflow)

    def _multiply(self, m: Module) -> None:
        """The product of two halves; with floating point of mantissas, in 16 and 8 bits."""
        control = self.control
        low_a = self.operands.a[:16]
        low_b = self.operands.b[:16]
        if self.floats is not None:
            mantissa_a, mantissa_b = self.floats.factors
            low_a = Mux(control.floating.real, mantissa_a[:16], low_a)
            low_b = Mux(control.floating.real, mantissa_b[:16], low_b)
        half_a = Mux(control.part_a == Part.HIGH, self.operands.a[16:], low_a)
        half_b = Mux(control.part_b == Part.HIGH, self.operands.b[16:], low_b)
        m.d.comb += self._low_factor_a.eq(
            Cat(half_a, control.halves & control.signed_a & half_a[15]))
        m.d.comb += self._low_factor_b.eq(
            Cat(half_b, control.halves & control.signed_b & half_b[15]))

        products = self.prepared.products
        m.d.comb += products[0].eq(self._low_factor_a * self._low_factor_b)
        if self.floats is not None:
            mantissa_a, mantissa_b = self.floats.factors
            m.d.comb += products[1].eq(self._low_factor_a * mantissa_b[16:])
            m.d.comb += products[2].eq(mantissa_a[16:] * self._low_factor_b)
            m.d.comb += products[3].eq(mantissa_a[16:] * mantissa_b[16:])

    def _plan_shift(self, m: Module) -> None:
        m.d.comb += self.prepared.shift.eq(
            word_shift_plan(self.control, self.prepared.a[:32], self._b.word))


class FullPrepareStage(PrepareStage):
    """The first stage of a full lane: also parts, differences of bytes, products of words,
    permutations."""

    def __init__(self, place: int, *, floats: bool) -> None:
        super().__init__(place, floats=floats)
        self._bytes = ByteDifference()
        self._term_a = Signal(33, name="term_a")
        """a, complemented, with its carry."""

    def _select_parts(self, m: Module) -> None:
        control = self.control
        operands = self.operands
        m.d.comb += self._a.eq(selected_part(operands.a, control.part_a, control.signed_a))
        m.d.comb += self._b.eq(selected_part(operands.b, control.part_b, control.signed_b))

    def _subtract(self, m: Module) -> None:
        control = self.control
        m.submodules.bytes = difference = self._bytes
        is_one_difference = ~control.adds & ~control.bytes
        m.d.comb += difference.control.eq(control)
        m.d.comb += difference.a.eq(self._a.extended)
        m.d.comb += difference.b.eq(self._b.extended)
        m.d.comb += difference.carry.eq(Mux(
            control.extended, self.operands.conditions.carry, is_one_difference))
        m.d.comb += self._difference.eq(difference.difference)
        m.d.sync += Assert(
            ~is_one_difference | (self._is_same() == ~self._difference.any()),
            "a and b are equal where their difference is not zero")

    def _is_same(self) -> Value:
        """Without another carry chain; not by the difference, which may be a sum."""
        return sum_is_zero(self._a.extended, ~self._b.extended, self._comparison_carry())

    def _tests_condition(self) -> Value:
        return self.control.condition.bit_select(self.operands.conditions.as_value(), 1)

    def _compare(self, m: Module) -> None:
        """Compares c with zero instead, for Truth.SIGN."""
        super()._compare(m)
        c = self.operands.c
        relation = self.prepared.relation
        with m.If(self.control.truth == Truth.SIGN):
            m.d.comb += relation.less.eq(self.control.signed_a & c[31])
            m.d.comb += relation.equal.eq(~c.any())

    def _prepare_terms(self, m: Module) -> None:
        self._prepare_a(m)
        self._prepare_b(m)
        self._prepare_c(m)
        m.d.comb += self.prepared.picks.as_value().eq(
            byte_picks(self.control.permute, self.operands.b))

    def _prepare_a(self, m: Module) -> None:
        """a, or the difference in its place, and the bytes that the second stage complements."""
        control = self.control
        prepared = self.prepared
        part_a = Signal(32)
        with m.If(control.part_a == Part.REVERSED):
            m.d.comb += part_a.eq(self.operands.a[::-1])
        with m.Else():
            m.d.comb += part_a.eq(self._a.word)
        m.d.comb += self._term_a.eq(
            (part_a ^ control.negate_a.replicate(32)) + control.one_a)
        m.d.comb += prepared.a.eq(Mux(control.differs, self._difference, self._term_a))
        m.d.comb += prepared.negative_a.eq(self._a.is_negative)

        complements_word = control.opposite | (control.distance & self._difference[-1])
        for place, is_below in enumerate(self._bytes.is_below):
            m.d.comb += prepared.opposite[place].eq(
                Mux(control.bytes, is_below, complements_word))
        for place, ninth in enumerate(self._bytes.ninths):
            m.d.comb += prepared.between[place].eq(
                ~control.bytes | (ninth ^ self._bytes.is_below[place]))

    def _prepare_b(self, m: Module) -> None:
        """The term b. For a difference it is 0; for differences of bytes it has the ones that the
        second stage adds to the bytes that are not complemented."""
        control = self.control
        prepared = self.prepared
        with m.If(control.differs):
            for place in range(WORD_BYTES):
                m.d.comb += prepared.b[8 * place].eq(
                    control.bytes & ~self._bytes.is_below[place])
        with m.Else():
            m.d.comb += prepared.b.eq(self._b.word ^ control.negate_b.replicate(32))
        completes_distance = control.distance & self._difference[-1]
        m.d.comb += prepared.one_more.eq(control.one_b | completes_distance)
        m.d.comb += prepared.low_b.eq(self.operands.b)
        m.d.comb += prepared.negative_b.eq(self._b.is_negative)

    def _prepare_c(self, m: Module) -> None:
        """c, with its carry, and the addend of a product."""
        control = self.control
        operands = self.operands
        prepared = self.prepared
        part_c = Signal(32)
        with m.Switch(control.part_c):
            with m.Case(Part.LOW):
                m.d.comb += part_c.eq(operands.c[:16])
            with m.Case(Part.HIGH):
                m.d.comb += part_c.eq(operands.c[16:])
            with m.Default():
                m.d.comb += part_c.eq(operands.c)
        completes_pair = control.pair_negative & ~operands.a.any()
        adds_overflow = control.three & control.add_carry & operands.conditions.overflow
        correction = Cat(Const(0, 16), self._correction(m))
        m.d.comb += prepared.c.eq(sum_with_carry(
            part_c ^ control.negate_c.replicate(32),
            correction,
            control.one_c | completes_pair | adds_overflow))
        with m.If(control.add_to_product):
            m.d.comb += prepared.addend.eq(
                Cat(prepared.c[:32], control.signed_result & prepared.c[31]))

    def _correction(self, m: Module) -> Signal:
        """The addend of c's high half. For ``correct`` (CSFU) it is minus one for each factor that
        is negative while the other one is not 0; for ``add_high_b`` (CBCC) it is b."""
        control = self.control
        a = self.operands.a[:16]
        b = self.operands.b[:16]
        first_is_negative = self._low_factor_a[-1] & b.any()
        second_is_negative = self._low_factor_b[-1] & a.any()
        both_differ = first_is_negative ^ second_is_negative
        some_is = first_is_negative | second_is_negative
        correction = Signal(16)
        with m.If(control.correct):
            m.d.comb += correction.eq(Cat(both_differ, some_is.replicate(15)))
        with m.Elif(control.add_high_b):
            m.d.comb += correction.eq(b)
        return correction

    def _multiply(self, m: Module) -> None:
        """The four products of halves of words; with floating point of mantissas, as words."""
        control = self.control
        word_a: Value = Cat(self._a.word, control.signed_a & self._a.word[31])
        word_b: Value = Cat(self._b.word, control.signed_b & self._b.word[31])
        if self.floats is not None:
            mantissa_a, mantissa_b = self.floats.factors
            word_a = Mux(control.floating.real, mantissa_a, word_a)
            word_b = Mux(control.floating.real, mantissa_b, word_b)
        m.d.comb += self._low_factor_a.eq(
            Cat(word_a[:16], control.halves & control.signed_a & word_a[15]))
        m.d.comb += self._low_factor_b.eq(
            Cat(word_b[:16], control.halves & control.signed_b & word_b[15]))
        high_factor_a = word_a[16:].as_signed()
        high_factor_b = word_b[16:].as_signed()

        products = self.prepared.products
        m.d.comb += products[0].eq(self._low_factor_a * self._low_factor_b)
        m.d.comb += products[1].eq(self._low_factor_a * high_factor_b)
        m.d.comb += products[2].eq(high_factor_a * self._low_factor_b)
        m.d.comb += products[3].eq(high_factor_a * high_factor_b)

    def _plan_shift(self, m: Module) -> None:
        control = self.control
        operands = self.operands
        is_reversed = control.part_a == Part.REVERSED
        m.submodules.shifts = shifts = ShiftPlanner()
        m.d.comb += shifts.control.eq(control)
        m.d.comb += shifts.terms.eq(struct_value(
            ShiftTerms, a=self._term_a, b=self._b.word, c=self.prepared.c))
        m.d.comb += shifts.operands.eq(operands)
        m.d.comb += shifts.negative.eq(
            Mux(is_reversed, control.signed_a & operands.a[0], self._a.is_negative))
        with m.If(control.of_condition):
            m.d.comb += shifts.marks.eq(operands.conditions)
        with m.Else():
            m.d.comb += shifts.marks.eq(Cat(operands.predicates, 1))
        m.d.comb += self.prepared.shift.eq(shifts.plan)
