"""What a thread's predicates and CC become."""

from amaranth.hdl import Module, Mux
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.execute.predicates import ThreadFlags
from rtl.execute.stages import LaneResult
from rtl.isa.condition import Flags
from rtl.isa.syntax import PT

__all__ = ["ThreadResults"]


class ThreadResults(wiring.Component):
    """Combinational.

    Members
    -------
    executes : In(1)
        The thread executes the instruction; or nothing changes.
    p, q, conditional : In(3), In(3), In(1)
        The predicates that the predicate results go to, of which the second one stays, PT for none; CC is written.
    result, conditions : In(LaneResult), In(Flags)
        From the lane, and CC from there or from a unit.
    before, after : In(ThreadFlags), Out(ThreadFlags)
    written : Out(7)
        The predicates that are written.
    """

    executes: In(1)
    p: In(3)
    q: In(3)
    conditional: In(1)
    result: In(LaneResult)
    conditions: In(Flags)
    before: In(ThreadFlags)
    after: Out(ThreadFlags)
    written: Out(PT)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        result, named = self.result, self.result.predicates_written
        for number, (before, after) in enumerate(zip(self.before.predicates, self.after.predicates, strict=True)):
            first, second, moved = (self.executes & condition for condition in (
                self.p == number, self.q == number, named[number]))
            m.d.comb += [
                self.written[number].eq(first | second | moved),
                after.eq(Mux(second, result.q, Mux(first, result.p, Mux(moved, result.value[number], before))))]
        m.d.comb += self.after.condition.eq(self.before.condition)
        with m.If(self.executes & self.conditional):
            m.d.comb += self.after.condition.eq(self.conditions)
        return m
