"""Which threads execute an instruction, and what its predicate operands are."""

from typing import Any

from amaranth.hdl import Const, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.syntax import PT
from rtl.params import QUAD, WARP_THREADS
from rtl.pick import pick

from .common import CommonInstruction
from .condition import ConditionTest
from .flags import WarpFlags

__all__ = ["ThreadSelection"]

_ALL_THREADS = Const(~0, WARP_THREADS)


class ThreadSelection(wiring.Component):
    """For a warp at once; combinational.

    Members
    -------
    common : In(CommonInstruction)
        The instruction's guard, its test of CC and its predicate operand.
    collects : In(1)
        Its registers are collected.
    quad : In(4)
        Which of each four threads execute it, if it is one of the lanes.
    active, flags : In(32), In(WarpFlags)
        Of the warp.
    guard : Out(32)
        The threads whose guard holds, and of a flow instruction the test of CC; all where there is
        neither.
    executing : Out(32)
        Those that execute it if it is one of the lanes, or one whose registers are collected.
    predicate : Out(32)
        Its predicate operand, after negation; all ones where there is none.
    """

    common: In(CommonInstruction)
    collects: In(1)
    quad: In(QUAD)
    active: In(WARP_THREADS)
    flags: In(WarpFlags)
    guard: Out(WARP_THREADS)
    executing: Out(WARP_THREADS)
    predicate: Out(WARP_THREADS)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        common = self.common
        live = self.flags.live
        guard = Signal(WARP_THREADS)
        m.d.comb += guard.eq(self._holds(common.guard))
        m.d.comb += self.predicate.eq(self._holds(common.predicate))

        # A thread that is not live has CC 0.
        m.submodules.test = test = ConditionTest()
        condition = Signal(WARP_THREADS)
        m.d.comb += test.flags.eq(self.flags.conditions)
        m.d.comb += test.test.eq(common.test)
        m.d.comb += condition.eq(
            (test.passed & live) | (test.of_none.replicate(WARP_THREADS) & ~live))
        m.d.comb += self.guard.eq(guard & condition)

        allowed = Signal(WARP_THREADS)
        with m.If(self.collects):
            m.d.comb += allowed.eq(condition)
        with m.Else():
            m.d.comb += allowed.eq(self.quad.replicate(WARP_THREADS // QUAD))
        m.d.comb += self.executing.eq(guard & self.active & allowed)
        return m

    def _holds(self, operand: Any) -> Value:
        """The threads in which a PredicateOperand holds. Those that are not live have P0 to P6
        clear; PT is set in all."""
        masks = [*self.flags.predicates, _ALL_THREADS]
        is_pt = operand.number == PT
        is_known = self.flags.live | is_pt.replicate(WARP_THREADS)
        held = pick(masks, operand.number) & is_known
        return held ^ operand.negated.replicate(WARP_THREADS)
