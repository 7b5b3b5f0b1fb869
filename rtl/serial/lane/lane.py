"""A lane that computes a byte in a cycle, joined."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.component import pass_on
from rtl.execute.control import LaneControl
from rtl.execute.stages import LaneResult, Operands

from .decision import Decision
from .first import FirstBytes
from .last import ResultBytes
from .sources import OperandBytes
from .step import BYTE_LANE_CYCLES, Steps

__all__ = ["BYTE_LANE_CYCLES", "ByteLane"]

_SOURCES = ("raw_b", "raw_c", "b", "c")


class ByteLane(wiring.Component):
    """Computes what a full lane does, for one thread at a time, in BYTE_LANE_CYCLES.

    Members
    -------
    start : In(1)
        There is a thread. All other inputs stay as they are until its result is there.
    control : In(LaneControl)
    operands : In(Operands)
    executes : In(1)
        The thread executes the instruction; otherwise the value is 0.
    result : Out(LaneResult)
        BYTE_LANE_CYCLES after the start, as long as the other inputs stay.
    """

    start: In(1)
    control: In(LaneControl)
    operands: In(Operands)
    executes: In(1)
    result: Out(LaneResult)

    def __init__(self) -> None:
        super().__init__()
        self.steps = Steps()
        self.sources = OperandBytes()
        self.first = FirstBytes()
        self.decision = Decision()
        self.last = ResultBytes()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.steps = steps = self.steps
        m.submodules.sources = sources = self.sources
        m.submodules.first = first = self.first
        m.submodules.decision = decision = self.decision
        m.submodules.last = last = self.last
        for part in (sources, first, decision, last):
            pass_on(m, self, part, "control", "operands")
        for part in (sources, first, last):
            pass_on(m, steps, part, "step")
        pass_on(m, sources, first, *_SOURCES, "a", "inside_b", "negative_a", "negative_b")
        pass_on(m, first, decision, "below", "same")
        pass_on(m, decision, first, "decision")
        pass_on(m, sources, last, *_SOURCES)
        pass_on(m, first, last, "term", "low_byte", "negative", "beyond", "low_zero")
        pass_on(m, decision, last, "decision", "opposite", "less", "equal")
        m.d.comb += [steps.start.eq(self.start), last.executes.eq(self.executes), self.result.eq(last.result)]
        return m
