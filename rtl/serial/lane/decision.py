"""What a thread decides, in a lane that computes a byte in a cycle."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.execute.control import Truth
from rtl.execute.prepare import joined

from .stages import Difference, ThreadDecision, ThreadWork

__all__ = ["Decision"]


class Decision(wiring.Component):
    """The decision of a thread, from the comparison of a and b and a predicate; combinational.

    Members
    -------
    work : In(ThreadWork)
    difference : In(Difference)
    result : Out(ThreadDecision)
    """

    work: In(ThreadWork)
    difference: In(Difference)
    result: Out(ThreadDecision)

    def __init__(self) -> None:
        super().__init__()
        self._relation_holds = Signal(name="relation_holds")
        """a and b, or c and zero, satisfy the instruction's relation."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._compare(m)
        self._decide(m)
        return m

    def _compare(self, m: Module) -> None:
        """How a and b relate. A comparison that continues one of higher words takes their relation
        from CC, unless they were equal."""
        control = self.work.control
        flags = self.work.operands.conditions
        less = self.result.less
        equal = self.result.equal
        is_undecided = Signal()
        m.d.comb += is_undecided.eq(~control.continues | flags.zero)
        m.d.comb += less.eq(Mux(is_undecided, self.difference.is_below_zero, ~flags.carry))
        m.d.comb += equal.eq(
            self.difference.is_zero & is_undecided & (~control.extended | flags.zero))
        holds_if_less = control.compare.as_value()[0]
        holds_if_equal = control.compare.as_value()[1]
        holds_if_greater = control.compare.as_value()[2]
        m.d.comb += self._relation_holds.eq(
            (holds_if_less & less) | (holds_if_equal & equal)
            | (holds_if_greater & ~less & ~equal))

    def _decide(self, m: Module) -> None:
        """The decision, and its opposite, joined with a predicate."""
        control = self.work.control
        sources = self.work.operands.sources
        holds = Signal()
        predicate = Signal()
        m.d.comb += predicate.eq(sources[0])
        with m.Switch(control.truth):
            with m.Case(Truth.PREDICATES):
                m.d.comb += holds.eq(joined(control.combine_first, sources[0], sources[1]))
                m.d.comb += predicate.eq(sources[2])
            with m.Case(Truth.CONDITION):
                flags = self.work.operands.conditions.as_value()
                m.d.comb += holds.eq(control.condition.bit_select(flags, 1))
            with m.Case(Truth.RELATION, Truth.SIGN):
                m.d.comb += holds.eq(self._relation_holds)
        m.d.comb += self.result.decision.eq(joined(control.combine, holds, predicate))
        m.d.comb += self.result.opposite.eq(joined(control.combine, ~holds, predicate))
