"""A lane that computes a byte in a cycle."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.execute.stages import LaneResult

from .decision import Decision
from .first import FirstTermBytes
from .last import ResultBytes
from .sources import OperandBytes
from .stages import ThreadWork
from .step import BYTE_LANE_CYCLES, Steps

__all__ = ["BYTE_LANE_CYCLES", "ByteLane"]


class ByteLane(wiring.Component):
    """Computes what a full lane does, for one thread at a time, in BYTE_LANE_CYCLES. ::

        operands --> OperandBytes --> FirstTermBytes --> ResultBytes --> result
                         |              |      ^             ^ ^
                         |   difference |      | decision    | |
                         |              v      |             | |
                         |             Decision -------------+ |
                         +-------------------------------------+

    Members
    -------
    start : In(1)
        The first step of a thread.
    work : In(ThreadWork)
    result : Out(LaneResult)
        BYTE_LANE_CYCLES after the start, while ``work`` stays the same.
    """

    start: In(1)
    work: In(ThreadWork)
    result: Out(LaneResult)

    def __init__(self) -> None:
        super().__init__()
        self.steps = Steps()
        self.sources = OperandBytes()
        self.first = FirstTermBytes()
        self.decision = Decision()
        self.last = ResultBytes()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.steps = steps = self.steps
        m.submodules.sources = sources = self.sources
        m.submodules.first = first = self.first
        m.submodules.decision = decision = self.decision
        m.submodules.last = last = self.last
        m.d.comb += steps.start.eq(self.start)
        for part in (sources, first, decision, last):
            m.d.comb += part.work.eq(self.work)
        for part in (sources, first, last):
            m.d.comb += part.step.eq(steps.step)
        for part in (first, last):
            m.d.comb += part.selected.eq(sources.selected)
        m.d.comb += decision.difference.eq(first.difference)
        m.d.comb += first.decision.eq(decision.result.decision)
        m.d.comb += last.first.eq(first.result)
        m.d.comb += last.decision.eq(decision.result)
        m.d.comb += self.result.eq(last.result)
        return m
