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
        super().__init__()
        self.prepare = OperandStage(place, full=full, floats=floats)
        self.combine = TermStage(full=full, floats=floats)
        self.conclude = ResultStage(full=full, floats=floats)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.prepare = prepare = self.prepare
        m.submodules.combine = combine = self.combine
        m.submodules.conclude = conclude = self.conclude
        m.d.comb += [
            prepare.control.eq(self.first), prepare.operands.eq(self.operands), combine.control.eq(self.second),
            conclude.control.eq(self.third), self.result.eq(conclude.result)]
        m.d.sync += [
            combine.prepared.eq(prepare.prepared), combine.aligned.eq(prepare.aligned),
            conclude.terms.eq(combine.terms), conclude.sum.eq(combine.sum)]
        return m
