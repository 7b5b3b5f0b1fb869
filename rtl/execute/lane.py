"""A lane: one thread's arithmetic, a cycle for each of three stages."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.kinds import FloatRounding
from rtl.params import QUAD

from .combine import TermStage
from .conclude import ResultStage
from .control import LaneControl
from .float_unit import FloatAdd, FloatPrepare, FloatRound
from .prepare import OperandStage
from .stages import LaneResult, Operands

__all__ = ["Lane"]


class Lane(wiring.Component):
    """Takes operands every cycle and has the result in the third one. Its threads have the number ``place`` in their
    quads. ``full``: it can do what has a quarter of the others' rate; ``floats``: it has floating point.

    Members
    -------
    first, second, third : In(LaneControl)
        The control signals of the instruction that is in that stage.
    operands : In(Operands)
    result : Out(LaneResult)
        Combinational, of the third stage.
    """

    first: In(LaneControl)
    second: In(LaneControl)
    third: In(LaneControl)
    operands: In(Operands)
    result: Out(LaneResult)

    def __init__(self, place: int, *, full: bool, floats: bool) -> None:
        self._place = place
        self._floats = floats
        super().__init__()
        self.prepare = OperandStage(full=full, floats=floats)
        self.combine = TermStage(full=full, floats=floats)
        self.conclude = ResultStage(full=full)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.prepare = prepare = self.prepare
        m.submodules.combine = combine = self.combine
        m.submodules.conclude = conclude = self.conclude
        m.d.comb += [
            prepare.control.eq(self.first), prepare.operands.eq(self.operands), combine.control.eq(self.second),
            conclude.control.eq(self.third), self.result.eq(conclude.result)]
        m.d.sync += [combine.prepared.eq(prepare.prepared), conclude.terms.eq(combine.terms)]
        if self._floats:
            self._floating_point(m)
        return m

    def _floating_point(self, m: Module) -> None:
        """Beside the stages: the product is of their multipliers, the result goes through their last one."""
        m.submodules.float_prepare = prepare = FloatPrepare()
        m.submodules.float_add = add = FloatAdd()
        m.submodules.float_round = last = FloatRound()
        m.d.comb += [
            prepare.control.eq(self.first.floating), prepare.operands.eq(self.operands),
            prepare.swizzle.eq(self.first.floating.swizzle.word_select(QUAD - 1 - self._place, 2)),
            self.prepare.factors.eq(prepare.factors), self.prepare.holds.eq(prepare.holds),
            add.product.eq(self.combine.product), add.downwards.eq(self.second.floating.round == FloatRounding.RM),
            last.control.eq(self.third.floating), self.conclude.real.eq(last.result)]
        m.d.sync += [add.aligned.eq(prepare.aligned), last.sum.eq(add.sum)]
