"""A lane that computes a byte in a cycle, joined."""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.component import pass_on
from rtl.execute.control import LaneControl
from rtl.execute.stages import LaneResult, Operands

from .decision import Decision
from .first import FirstBytes
from .last import ResultBytes
from .sources import OperandBytes
from .step import FIRST_STEP, LAST_FIRST_STEP, LAST_STEP, SUM_STEP, Step

__all__ = ["BYTE_LANE_CYCLES", "ByteLane"]

BYTE_LANE_CYCLES = LAST_FIRST_STEP + 1 + LAST_STEP + 1 - SUM_STEP
"""From the first cycle of operands to that of their result."""
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
        self.step: Any = Signal(Step)
        self.sources = OperandBytes()
        self.first = FirstBytes()
        self.decision = Decision()
        self.last = ResultBytes()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.sources = sources = self.sources
        m.submodules.first = first = self.first
        m.submodules.decision = decision = self.decision
        m.submodules.last = last = self.last
        for part in (sources, first, decision, last):
            pass_on(m, self, part, "control", "operands")
        for part in (sources, first, last):
            pass_on(m, self, part, "step")
        pass_on(m, sources, first, *_SOURCES, "a", "inside_b", "negative_a", "negative_b")
        pass_on(m, first, decision, "below", "same")
        pass_on(m, decision, first, "decision")
        pass_on(m, sources, last, *_SOURCES)
        pass_on(m, first, last, "term", "low_byte", "negative", "beyond", "low_zero")
        pass_on(m, decision, last, "decision", "opposite", "less", "equal")
        m.d.comb += [last.executes.eq(self.executes), self.result.eq(last.result)]
        self._count(m)
        return m

    def _count(self, m: Module) -> None:
        """The steps."""
        number = Signal.like(self.step.number)
        m.d.comb += [self.step.number.eq(number), self.step.runs.eq(self.start | number.any())]
        with m.If(self.step.runs):
            m.d.sync += number.eq(number + 1)
        with m.If(number == LAST_FIRST_STEP):
            m.d.sync += number.eq(SUM_STEP)
        with m.If(number == LAST_STEP):
            m.d.sync += number.eq(0)
        assert FIRST_STEP == 4, "four bytes are prepared first"
