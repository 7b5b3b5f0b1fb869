"""Which threads execute an instruction, and what its predicate operands are."""

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.condition import Flags
from rtl.isa.syntax import PT
from rtl.params import QUAD, WARP_THREADS
from rtl.pick import pick

from .common import CommonInstruction
from .condition import ConditionTest

__all__ = ["ThreadSelection"]

_EVERYBODY = Const(~0, WARP_THREADS)


class ThreadSelection(wiring.Component):
    """For a warp at once; combinational.

    Members
    -------
    common, collects, quad : In(CommonInstruction), In(1), In(4)
        What it asks of threads; whether its registers are collected; which of each four execute it, if it is one of the
        lanes.
    active, predicates, conditions, live : In
        Of the warp; see PredicateFile.
    guard : Out(32)
        The threads whose guard holds, and of a flow instruction the test of CC; all where there is neither.
    executing : Out(32)
        Those that execute it if it is one of the lanes, or one whose registers are collected.
    predicate : Out(32)
        Its predicate operand, after negation; all ones where there is none.
    """

    common: In(CommonInstruction)
    collects: In(1)
    quad: In(QUAD)
    active: In(WARP_THREADS)
    predicates: In(data.ArrayLayout(WARP_THREADS, PT))
    conditions: In(data.ArrayLayout(Flags, WARP_THREADS))
    live: In(WARP_THREADS)
    guard: Out(WARP_THREADS)
    executing: Out(WARP_THREADS)
    predicate: Out(WARP_THREADS)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.test = test = ConditionTest()
        common, masks = self.common, [*self.predicates, _EVERYBODY]
        guard, tested = Signal(WARP_THREADS), Signal(WARP_THREADS)
        for operand, threads in ((common.guard, guard), (common.predicate, self.predicate)):
            there = self.live | (operand.number == PT).replicate(WARP_THREADS)
            m.d.comb += threads.eq((pick(masks, operand.number) & there) ^ operand.negated.replicate(WARP_THREADS))
        m.d.comb += [
            test.flags.eq(self.conditions), test.test.eq(common.test),
            tested.eq((test.passed & self.live) | (test.of_none.replicate(WARP_THREADS) & ~self.live)),
            self.guard.eq(guard & tested),
            self.executing.eq(guard & (self.active & Mux(
                self.collects, tested, self.quad.replicate(WARP_THREADS // QUAD))))]
        return m
