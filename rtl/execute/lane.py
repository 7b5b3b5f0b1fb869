"""A lane: one thread's arithmetic, a cycle for each of three stages, one more in a full lane."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .bounds import BoundStage
from .combine import CombineStage, FullCombineStage, WordCombineStage
from .conclude import ConcludeStage
from .control import LaneControls
from .prepare import FullPrepareStage, PrepareStage, WordPrepareStage
from .stages import LaneResult, Operands

__all__ = ["Lane"]


class Lane(wiring.Component):
    """Accepts operands every cycle; the result is in the cycle of the third stage. ::

        operands --> PREPARE --> COMBINE --+------------> CONCLUDE --> result
                                           |                  ^
                                           +---> BOUND -------+
                                                 of a full lane

    Parameters
    ----------
    place : int
        The number of the lane's threads in their quads (groups of four threads).
    full : bool
        It also computes instructions of a quarter of the rate, whose result is a cycle later.
    floats : bool
        It has floating point.

    Members
    -------
    controls : In(LaneControls)
    operands : In(Operands)
    result : Out(LaneResult)
        Combinational, of the third stage.
    """

    controls: In(LaneControls)
    operands: In(Operands)
    result: Out(LaneResult)

    def __init__(self, place: int, *, full: bool, floats: bool) -> None:
        super().__init__()
        self.prepare: PrepareStage
        self.combine: CombineStage
        if full:
            self.prepare = FullPrepareStage(place, floats=floats)
            self.combine = FullCombineStage(floats=floats)
        else:
            self.prepare = WordPrepareStage(place, floats=floats)
            self.combine = WordCombineStage(floats=floats)
        self.conclude = ConcludeStage(full=full, floats=floats)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.prepare = prepare = self.prepare
        m.submodules.combine = combine = self.combine
        m.submodules.conclude = conclude = self.conclude
        m.d.comb += prepare.control.eq(self.controls.first)
        m.d.comb += prepare.operands.eq(self.operands)

        m.d.comb += combine.control.eq(self.controls.second)
        m.d.sync += combine.prepared.eq(prepare.prepared)

        m.d.comb += conclude.control.eq(self.controls.third)
        m.d.sync += conclude.terms.eq(combine.terms)
        m.d.sync += conclude.sum.eq(combine.sum)
        m.d.comb += self.result.eq(conclude.result)

        if isinstance(combine, FullCombineStage):
            m.submodules.bound = bound = BoundStage()
            m.d.comb += bound.control.eq(self.controls.second)
            m.d.sync += bound.unbounded.eq(combine.unbounded)
            with m.If(self.controls.bounds):
                m.d.sync += conclude.terms.eq(bound.terms)
        return m
