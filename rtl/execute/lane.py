"""A lane: one thread's arithmetic, a cycle for each of three stages, and of another one in a full lane."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .bounds import BoundStage
from .combine import TermStage
from .conclude import ResultStage
from .control import LaneControl
from .prepare import OperandStage
from .stages import LaneResult, Operands

__all__ = ["Lane"]


class Lane(wiring.Component):
    """Takes operands every cycle and has the result in the third one. Its threads have the number ``place`` in their
    quads. ``full``: it can do what has a quarter of the others' rate, too, whose result comes in the fourth one;
    ``floats``: it has floating point.

    Members
    -------
    first, second, third : In(LaneControl)
        The control signals of the instruction that is in that stage.
    bounds : In(1)
        A full lane does the latter between the second stage and the third, by the control signals of the second.
    operands : In(Operands)
    result : Out(LaneResult)
        Combinational, of the third stage.
    """

    first: In(LaneControl)
    second: In(LaneControl)
    third: In(LaneControl)
    bounds: In(1)
    operands: In(Operands)
    result: Out(LaneResult)

    def __init__(self, place: int, *, full: bool, floats: bool) -> None:
        super().__init__()
        self._full = full
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
        if self._full:
            m.submodules.bound = bound = BoundStage()
            m.d.comb += bound.control.eq(self.second)
            m.d.sync += bound.unbounded.eq(combine.unbounded)
            with m.If(self.bounds):
                m.d.sync += conclude.terms.eq(bound.terms)
        return m
