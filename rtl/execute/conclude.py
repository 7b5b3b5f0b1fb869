"""The third stage of a lane: the sum of the terms, the result, its flags and predicates."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from rtl.params import LOCAL_WINDOW, SHARED_WINDOW, WINDOW_BYTES
from rtl.sums import sum_with_carry

from .control import LaneControl, PredicateResult
from .float_round import FloatFinish, FloatRound
from .float_window import FRACTION_BITS, FloatNormal, FloatPattern, FloatSum
from .stages import PREPARED_SUM_BITS, LaneResult, Terms

__all__ = ["ConcludeStage", "is_inside"]

_WINDOW_BITS = exact_log2(WINDOW_BYTES)
_WINDOWS = tuple(base >> _WINDOW_BITS for base in (SHARED_WINDOW, LOCAL_WINDOW))
assert all(base % WINDOW_BYTES == 0 for base in (SHARED_WINDOW, LOCAL_WINDOW)), (
    "a window begins at its size")
assert _WINDOW_BITS == 24, "a byte decides an address's window"


class ConcludeStage(wiring.Component):
    """The result, its flags, its predicates; combinational.

    The result is the OR of these words, all but one of which are gated to 0:

    =======================  ==============================================================
    word                     when
    =======================  ==============================================================
    x + y + plus             unless one of the others is
    a bound                  ``saturate``, and the sum has a signed overflow
    x or ~y (which is c)     ``smaller`` or ``larger``, of a full lane
    {b, low half of sum}     ``merge``
    a floating-point word    the result of the floating-point unit is not the sum
    =======================  ==============================================================

    Parameters
    ----------
    full : bool
        Of a full lane.
    floats : bool
        With floating point.

    Members
    -------
    control : In(LaneControl)
    terms : In(Terms)
    sum : In(FloatSum)
    result : Out(LaneResult)
    """

    control: In(LaneControl)
    terms: In(Terms)
    sum: In(FloatSum)
    result: Out(LaneResult)

    def __init__(self, *, full: bool, floats: bool) -> None:
        self._full = full
        self._floats = floats
        super().__init__()
        self._x = Signal(PREPARED_SUM_BITS, name="x")
        """The first term, or the mantissa of the floating-point unit; the next two likewise."""
        self._y = Signal(33, name="y")
        self._plus = Signal(name="plus")
        self._total = Signal(PREPARED_SUM_BITS, name="total")
        """The sum."""
        self._overflows = Signal(name="overflows")
        """The sum has a signed overflow."""
        self._is_bounded = Signal(name="is_bounded")
        """The result is a bound, not the sum."""
        self._chooses = Signal(name="chooses")
        """The result is the smaller or the larger term."""
        self._chooses_x = Signal(name="chooses_x")
        """That term is x; else it is c, the complement of y."""
        self._chosen = Signal(32, name="chosen")
        """That term, or 0."""
        self._chosen_is_zero = Signal(name="chosen_is_zero")
        self._normal: Any = Signal(FloatNormal, name="normal")
        """The floating-point unit's terms; 0 without it."""
        self._pattern: Any = Signal(FloatPattern, name="pattern")
        """The floating-point unit's word, in place of the sum or beside it."""
        self._is_zero = Signal(name="is_zero")
        """The zero flag."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        if self._floats:
            self._add_floats(m)
        else:
            m.d.comb += self._pattern.keep.eq(1)
        self._add(m)
        if self._full:
            self._choose(m)
        self._join(m)
        self._find_zero(m)
        self._set_conditions(m)
        self._set_predicates(m)
        return m

    def _add_floats(self, m: Module) -> None:
        """The floating-point unit, which uses the lane's adder to add one to a number that is
        rounded up."""
        control = self.control.floating
        m.submodules.floats = round_stage = FloatRound()
        m.submodules.finish = finish_stage = FloatFinish()
        m.d.comb += round_stage.control.eq(control)
        m.d.comb += round_stage.sum.eq(self.sum)
        m.d.comb += self._normal.eq(round_stage.normal)

        m.d.comb += finish_stage.control.eq(control)
        m.d.comb += finish_stage.sum.eq(self.sum)
        m.d.comb += finish_stage.exponent.eq(self._total[FRACTION_BITS:FRACTION_BITS + 2])
        m.d.comb += self._pattern.eq(finish_stage.pattern)

    def _add(self, m: Module) -> None:
        """The sum. Either the terms or those of the floating-point unit are 0."""
        terms = self.terms
        normal = self._normal
        x = self._x
        y = self._y
        m.d.comb += x.eq(terms.x | normal.mantissa)
        m.d.comb += y.eq(terms.y | Cat(Const(0, FRACTION_BITS), normal.exponent))
        m.d.comb += self._plus.eq(terms.plus | normal.up)
        m.d.comb += self._total.eq(sum_with_carry(x, y, self._plus))
        m.d.comb += self._overflows.eq((x[31] == y[31]) & (self._total[31] != x[31]))
        m.d.comb += self._is_bounded.eq(self.control.saturate & self._overflows)

    def _choose(self, m: Module) -> None:
        """The smaller or the larger one of x and c, by the sign of x - c: y is the complement of
        c."""
        control = self.control
        x = self._x
        y = self._y
        signed_less = Mux(x[31] == y[31], x[31], self._total[31])
        less = Mux(control.signed_result, signed_less, ~self._total[32])
        m.d.comb += self._chooses.eq(control.smaller | control.larger)
        m.d.comb += self._chooses_x.eq(less ^ control.larger)
        of_x = x[:32] & (self._chooses & self._chooses_x).replicate(32)
        of_y = ~y[:32] & (self._chooses & ~self._chooses_x).replicate(32)
        m.d.comb += self._chosen.eq(of_x | of_y)
        m.d.comb += self._chosen_is_zero.eq(
            Mux(self._chooses_x, ~x[:32].any(), y[:32].all()))

    def _join(self, m: Module) -> None:
        """The result: the OR of the gated words."""
        merge = self.control.merge
        is_sum = ~self._is_bounded & ~self._chooses & self._pattern.keep
        of_sum = Cat(
            self._total[:16] & is_sum.replicate(16),
            self._total[16:32] & (is_sum & ~merge).replicate(16))
        # The sign of x is that of the true sum.
        is_lowest = self._is_bounded & self._x[31]
        is_highest = self._is_bounded & ~self._x[31]
        of_bound = Cat(is_highest.replicate(31), is_lowest)
        of_b = Cat(Const(0, 16), self.terms.b & merge.replicate(16))
        m.d.comb += self.result.value.eq(
            of_sum | self._chosen | of_bound | of_b | self._pattern.word)

    def _find_zero(self, m: Module) -> None:
        """The zero flag, from the words before they are combined, for timing."""
        control = self.control
        sum_high = Mux(control.merge, self.terms.b, self._total[16:32])
        sum_is_zero = ~self._total[:16].any() & ~sum_high.any()
        word_is_zero = Mux(
            self._chooses,
            self._chosen_is_zero,
            ~self._is_bounded & (sum_is_zero | ~self._pattern.keep))
        lower_are_zero = ~control.chain_zero | self.terms.conditions.zero
        m.d.comb += self._is_zero.eq(word_is_zero & ~self._pattern.word.any() & lower_are_zero)

    def _set_conditions(self, m: Module) -> None:
        """CC: the flags of the result; for ``verdict``, the relation of a and b; for ``unpack``,
        bits of the result."""
        control = self.control
        flags = self.result.conditions
        old = self.terms.conditions
        value = self.result.value
        named = self.terms.b[:4]
        m.d.comb += flags.zero.eq(self._is_zero)
        m.d.comb += flags.sign.eq(value[31])
        m.d.comb += flags.carry.eq(control.carries & self._total[32:].any())
        m.d.comb += flags.overflow.eq(
            control.carries & Mux(control.three, self._total[33], self._overflows))
        with m.If(control.verdict):
            m.d.comb += flags.zero.eq(self.terms.relation.equal)
            m.d.comb += flags.carry.eq(~self.terms.relation.less)
        if self._full:
            with m.If(control.unpack):
                m.d.comb += flags.eq((old.as_value() & ~named) | (value[:4] & named))

    def _set_predicates(self, m: Module) -> None:
        """The predicate results p and q; of a full lane, the predicates that R2P writes."""
        control = self.control
        terms = self.terms
        p = self.result.p
        with m.Switch(control.predicate):
            with m.Case(PredicateResult.TRUE):
                m.d.comb += p.eq(1)
            with m.Case(PredicateResult.ZERO):
                m.d.comb += p.eq(self._is_zero)
            with m.Case(PredicateResult.NONZERO):
                m.d.comb += p.eq(~self._is_zero)
            with m.Case(PredicateResult.DECISION):
                m.d.comb += p.eq(terms.decision)
            with m.Case(PredicateResult.OUTSIDE):
                m.d.comb += p.eq(~is_inside(self._total[_WINDOW_BITS:32]))
            if self._full:
                with m.Case(PredicateResult.OUTSIDE_HIGH):
                    m.d.comb += p.eq(~self._is_zero | ~is_inside(terms.low_byte))
        m.d.comb += self.result.q.eq(terms.opposite)
        if self._full:
            with m.If(control.unpack & ~control.of_condition):
                m.d.comb += self.result.predicates_written.eq(terms.b)


def is_inside(byte: Value) -> Value:
    """Whether an address with this highest byte is in the shared or the local window."""
    return (byte == _WINDOWS[0]) | (byte == _WINDOWS[1])
