"""S3: the threads that execute an instruction, and its predicate operand."""

from typing import Any

from amaranth.hdl import Const, Module, Signal, Value
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.syntax import PT
from rtl.params import QUAD, WARP_THREADS, SmParams
from rtl.pick import pick

from .condition import ConditionTest
from .flags import WarpFlags
from .reads import WarpRead
from .slots import decoded_stage

__all__ = ["ThreadSelection"]

_ALL_THREADS = Const(~0, WARP_THREADS)


class ThreadSelection(Component):
    """Computes masks of all 32 threads of a warp; combinational.

    Members
    -------
    decoded : In(decoded_stage)
    active, flags : Out(WarpRead of 32 bits), Out(WarpRead of WarpFlags)
        State of the warp in ``decoded``.
    guard : Out(32)
        The threads whose guard predicate holds and, if a flow instruction tests CC, that pass the
        test; all threads if there is neither. They need not be active.
    executing : Out(32)
        The active threads that execute it. Only for instructions of the lanes, and those whose
        registers are collected.
    predicate : Out(32)
        The predicate operand, after negation; all ones if there is none.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "decoded": In(decoded_stage(params)),
            "active": Out(WarpRead(params, WARP_THREADS)),
            "flags": Out(WarpRead(params, WarpFlags)),
            "guard": Out(WARP_THREADS),
            "executing": Out(WARP_THREADS),
            "predicate": Out(WARP_THREADS),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        decoded = self.decoded
        common = decoded.common
        flags = self.flags.value
        m.d.comb += self.active.warp.eq(decoded.warp)
        m.d.comb += self.flags.warp.eq(decoded.warp)
        guard = Signal(WARP_THREADS)
        m.d.comb += guard.eq(self._holds(common.guard))
        m.d.comb += self.predicate.eq(self._holds(common.predicate))

        # A thread that is not live has a CC of 0, so that its outcome is ``of_none``.
        m.submodules.test = test = ConditionTest()
        condition = Signal(WARP_THREADS)
        m.d.comb += test.flags.eq(flags.conditions)
        m.d.comb += test.test.eq(common.test)
        m.d.comb += condition.eq(
            (test.passed & flags.live) | (test.of_none.replicate(WARP_THREADS) & ~flags.live))
        m.d.comb += self.guard.eq(guard & condition)

        allowed = Signal(WARP_THREADS)
        with m.If(decoded.collects):
            m.d.comb += allowed.eq(condition)
        with m.Else():
            m.d.comb += allowed.eq(decoded.lanes.quad.replicate(WARP_THREADS // QUAD))
        m.d.comb += self.executing.eq(guard & self.active.value & allowed)
        return m

    def _holds(self, operand: Any) -> Value:
        """The threads in which a PredicateOperand holds. Those that are not live have P0 to P6
        clear; PT is set in all."""
        flags = self.flags.value
        masks = [*flags.predicates, _ALL_THREADS]
        is_pt = operand.number == PT
        is_known = flags.live | is_pt.replicate(WARP_THREADS)
        held = pick(masks, operand.number) & is_known
        return held ^ operand.negated.replicate(WARP_THREADS)
