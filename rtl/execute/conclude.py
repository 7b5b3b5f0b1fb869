"""The third stage of a lane: the sum of the terms, and what becomes of it."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from rtl.params import LOCAL_WINDOW, SHARED_WINDOW, WINDOW_BYTES
from rtl.sums import sum_with_carry

from .control import LaneControl, PredicateResult
from .float_unit import FloatFinish, FloatRound, FloatSum
from .stages import LaneResult, Terms

__all__ = ["ResultStage", "is_inside"]

_WINDOW_BITS = exact_log2(WINDOW_BYTES)
_WINDOWS = tuple(base >> _WINDOW_BITS for base in (SHARED_WINDOW, LOCAL_WINDOW))
assert all(base % WINDOW_BYTES == 0 for base in (SHARED_WINDOW, LOCAL_WINDOW)), "a window begins at its size"
assert _WINDOW_BITS == 24, "a byte tells an address's window"


class ResultStage(wiring.Component):
    """The result, its flags, its predicates; combinational. ``full``: of a full lane; ``floats``: with floating point.

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
        self._full, self._floats = full, floats
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        control, terms, result = self.control, self.terms, self.result
        x, y, value = terms.x, terms.y, result.value
        total, overflow, less = Signal(34), Signal(), Signal()
        plus: Value = terms.plus
        real: Value = Const(0, 32)
        keep: Value = Const(1, 1)
        if self._floats:
            m.submodules.floats = normal = FloatRound()
            m.submodules.finish = finish = FloatFinish()
            m.d.comb += [
                normal.control.eq(control.floating), normal.sum.eq(self.sum), finish.control.eq(control.floating),
                finish.sum.eq(self.sum), finish.exponent.eq(total[23:25])]
            x = x | normal.normal.mantissa
            y = y | Cat(Const(0, 23), normal.normal.exponent)
            plus, keep, real = plus | normal.normal.up, finish.pattern.keep, finish.pattern.word
        m.d.comb += [
            total.eq(sum_with_carry(x, y, plus)),
            overflow.eq((x[31] == y[31]) & (total[31] != x[31])),
            less.eq(Mux(control.signed_result, Mux(x[31] == y[31], x[31], total[31]), ~total[32]))]

        # The result: one of these words, the others are gated.
        bounded, chooses, takes_x, sums, chosen = Signal(), Signal(), Signal(), Signal(), Signal(32)
        chosen_zero: Value = Const(0)
        if self._full:
            m.d.comb += [
                chooses.eq(control.smaller | control.larger), takes_x.eq(less ^ control.larger),
                chosen.eq((x[:32] & (chooses & takes_x).replicate(32))
                          | (~y[:32] & (chooses & ~takes_x).replicate(32)))]
            chosen_zero = Mux(takes_x, ~x[:32].any(), y[:32].all())
        m.d.comb += [
            bounded.eq(control.saturate & overflow), sums.eq(~bounded & ~chooses & keep),
            value.eq(Cat(total[:16] & sums.replicate(16), total[16:32] & (sums & ~control.merge).replicate(16))
                     | chosen | Cat((bounded & ~x[31]).replicate(31), bounded & x[31])
                     | Cat(Const(0, 16), terms.b & control.merge.replicate(16))
                     | real)]

        # CC. Whether the result is zero does not wait for it, but for the words that it is one of.
        zero, old, flags = Signal(), terms.conditions, result.conditions
        sum_zero = ~total[:16].any() & ~Mux(control.merge, terms.b, total[16:32]).any()
        m.d.comb += [
            zero.eq(Mux(chooses, chosen_zero, ~bounded & (sum_zero | ~keep)) & ~real.any()
                    & (~control.chain_zero | old.zero)),
            flags.zero.eq(zero), flags.sign.eq(value[31]),
            flags.carry.eq(control.carries & total[32:].any()),
            flags.overflow.eq(control.carries & Mux(control.three, total[33], overflow))]
        with m.If(control.verdict):
            m.d.comb += [flags.zero.eq(terms.equal), flags.carry.eq(~terms.less)]
        if self._full:
            with m.If(control.unpack):
                m.d.comb += flags.eq((old.as_value() & ~terms.b[:4]) | (value[:4] & terms.b[:4]))

        # Predicates.
        m.d.comb += result.q.eq(terms.opposite)
        if self._full:
            to_predicates = control.unpack & ~control.of_condition
            m.d.comb += result.predicates_written.eq(Mux(to_predicates, terms.b, 0))
        tests, inverts, otherwise = Signal(), Signal(), Signal()
        with m.Switch(control.predicate):
            with m.Case(PredicateResult.TRUE):
                m.d.comb += otherwise.eq(1)
            with m.Case(PredicateResult.ZERO):
                m.d.comb += tests.eq(1)
            with m.Case(PredicateResult.NONZERO):
                m.d.comb += [tests.eq(1), inverts.eq(1)]
            with m.Case(PredicateResult.DECISION):
                m.d.comb += otherwise.eq(terms.decision)
            with m.Case(PredicateResult.OUTSIDE):
                m.d.comb += otherwise.eq(~is_inside(total[_WINDOW_BITS:32]))
            if self._full:
                with m.Case(PredicateResult.OUTSIDE_HIGH):
                    m.d.comb += [tests.eq(1), inverts.eq(1), otherwise.eq(~is_inside(terms.low_byte))]
        m.d.comb += result.p.eq((tests & (zero ^ inverts)) | otherwise)
        return m


def is_inside(byte: Value) -> Value:
    """Whether the address with this highest byte is in a window."""
    return (byte == _WINDOWS[0]) | (byte == _WINDOWS[1])
