"""All lanes: a beat of a warp's threads every cycle."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.params import QUAD, SmParams

from .control import LaneControl
from .instruction import LaneInstruction
from .lane import Lane
from .stages import LanePart, LaneResult, Operands

__all__ = ["LANE_CYCLES", "Lanes"]

LANE_CYCLES = 3
"""From operands to results."""
_BOUND_CYCLES = 2
"""From operands to the stage of full lanes that other lanes have not."""


class Lanes(Component):
    """Computes an instruction for one thread a lane.

    Results come LANE_CYCLES after what they are made of, from registers. They are those of threads that execute the
    instruction, with a value of 0 where one does not; what is written is for others to know.

    The first one of every QUARTERS lanes, or of all, is full. What only such a lane can do passes it in parts, of one
    of their threads each, and one stage more; the lanes keep their results until those of all parts are there,
    LANE_CYCLES + 1 after the last one.

    Members
    -------
    instruction : In(LaneInstruction)
    operands : In(Operands for each lane)
    part : In(LanePart)
        What the full lanes have ``operands`` of: with a part, of the thread of that lane.
    executes : In(1 bit for each lane)
        In the third stage, of a part in the cycle after it: the thread executes the instruction.
    results : Out(LaneResult for each lane)
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "instruction": In(LaneInstruction), "operands": In(data.ArrayLayout(Operands, params.lanes)),
            "part": In(LanePart), "executes": In(params.lanes),
            "results": Out(data.ArrayLayout(LaneResult, params.lanes))})
        self._parts = params.parts
        self.lanes = [
            Lane(number % QUAD, full=number % params.parts == 0, floats=params.floats)
            for number in range(params.lanes)]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        second, third = Signal(LaneControl), Signal(LaneControl)
        m.d.sync += [second.eq(self.instruction.control), third.eq(second)]
        part: Any = self.part
        parts = [part]
        for number in range(LANE_CYCLES):
            parts.append(part := Signal(LanePart, name=f"part_{number}"))
            m.d.sync += part.eq(parts[number])
        for number, lane in enumerate(self.lanes):
            m.submodules[f"lane_{number}"] = lane
            m.d.comb += [
                lane.first.eq(self.instruction.control), lane.second.eq(second), lane.third.eq(third),
                lane.bounds.eq(parts[_BOUND_CYCLES].valid), lane.operands.eq(self.operands[number])]
            place = number % self._parts
            full = self.lanes[number - place]
            with m.If(~part.valid | (part.number == place)):
                m.d.sync += self.results[number].eq(
                    Mux(part.valid, full.result.as_value(), lane.result.as_value()))
                with m.If(~self.executes[number]):
                    m.d.sync += self.results[number].value.eq(0)
        return m
