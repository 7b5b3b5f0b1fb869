"""All lanes: a beat of a warp's threads every cycle."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.params import SmParams

from .control import LaneControl
from .instruction import LaneInstruction
from .lane import Lane
from .stages import LaneResult, Operands

__all__ = ["LANE_CYCLES", "Lanes"]

LANE_CYCLES = 3
"""From operands to results."""


class Lanes(Component):
    """Computes an instruction for one thread a lane.

    Results come LANE_CYCLES after what they are made of, from registers. They are those of threads that execute the
    instruction, with a value of 0 where one does not; what is written is for others to know.

    Members
    -------
    instruction : In(LaneInstruction)
    operands : In(Operands for each lane)
    executes : In(1 bit for each lane)
        In the third stage: the thread executes the instruction.
    results : Out(LaneResult for each lane)
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "instruction": In(LaneInstruction), "operands": In(data.ArrayLayout(Operands, params.lanes)),
            "executes": In(params.lanes),
            "results": Out(data.ArrayLayout(LaneResult, params.lanes))})
        self.lanes = [Lane(params.floats) for _ in range(params.lanes)]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        second, third = Signal(LaneControl), Signal(LaneControl)
        m.d.sync += [second.eq(self.instruction.control), third.eq(second)]
        for number, lane in enumerate(self.lanes):
            m.submodules[f"lane_{number}"] = lane
            m.d.comb += [
                lane.first.eq(self.instruction.control), lane.second.eq(second), lane.third.eq(third),
                lane.operands.eq(self.operands[number]), lane.executes.eq(self.executes[number]),
                self.results[number].eq(lane.result)]
        return m
