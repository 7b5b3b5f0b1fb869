"""A lane: one thread's arithmetic, a cycle for each of three stages."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .combine import TermStage
from .conclude import ResultStage
from .control import LaneControl
from .prepare import OperandStage
from .stages import LaneResult, Operands

__all__ = ["Lane"]


class Lane(wiring.Component):
    """Takes operands every cycle and gives the result three cycles later.

    Members
    -------
    first, second, third : In(LaneControl)
        The control signals of the instruction that is in that stage.
    operands : In(Operands)
    executes : In(1)
        The thread in the third stage executes its instruction.
    result : Out(LaneResult)
        From a register. The value is 0 where the thread does not execute the instruction.
    """

    first: In(LaneControl)
    second: In(LaneControl)
    third: In(LaneControl)
    operands: In(Operands)
    executes: In(1)
    result: Out(LaneResult)

    def __init__(self) -> None:
        super().__init__()
        self.prepare = OperandStage()
        self.combine = TermStage()
        self.conclude = ResultStage()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.prepare = prepare = self.prepare
        m.submodules.combine = combine = self.combine
        m.submodules.conclude = conclude = self.conclude
        m.d.comb += [
            prepare.control.eq(self.first), prepare.operands.eq(self.operands), combine.control.eq(self.second),
            conclude.control.eq(self.third)]
        m.d.sync += [
            combine.prepared.eq(prepare.prepared), conclude.terms.eq(combine.terms), self.result.eq(conclude.result)]
        with m.If(~self.executes):
            m.d.sync += self.result.value.eq(0)
        return m
