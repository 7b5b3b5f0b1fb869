"""What a thread decides, in a lane that computes a byte in a cycle."""

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.execute.control import LaneControl, Truth
from rtl.execute.prepare import joined
from rtl.execute.stages import Operands

__all__ = ["Decision"]


class Decision(wiring.Component):
    """Combinational.

    Members
    -------
    control : In(LaneControl)
    operands : In(Operands)
    below, same : In(1)
        The difference of a and b is negative, or nothing; or c is, if it is compared with zero.
    less, equal : Out(1)
        How a and b relate, by higher words of them, too.
    decision, opposite : Out(1)
    """

    control: In(LaneControl)
    operands: In(Operands)
    below: In(1)
    same: In(1)
    less: Out(1)
    equal: Out(1)
    decision: Out(1)
    opposite: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        control, flags, sources = self.control, self.operands.conditions, self.operands.sources
        undecided = Signal()
        holds = Signal()
        m.d.comb += [
            undecided.eq(~control.continues | flags.zero),
            self.less.eq(Mux(undecided, self.below, ~flags.carry)),
            self.equal.eq(self.same & undecided & (~control.extended | flags.zero))]
        with m.Switch(control.truth):
            with m.Case(Truth.PREDICATES):
                m.d.comb += holds.eq(joined(control.combine_first, sources[0], sources[1]))
            with m.Case(Truth.CONDITION):
                m.d.comb += holds.eq(control.condition.bit_select(flags.as_value(), 1))
            with m.Default():
                m.d.comb += holds.eq(self._relation())
        joins = Mux(control.truth == Truth.PREDICATES, sources[2], sources[0])
        m.d.comb += [self.decision.eq(joined(control.combine, holds, joins)),
                     self.opposite.eq(joined(control.combine, ~holds, joins))]
        return m

    def _relation(self) -> Value:
        less, equal, (if_less, if_equal, if_greater) = self.less, self.equal, Value.cast(self.control.compare)
        return (if_less & less) | (if_equal & equal) | (if_greater & ~less & ~equal)
