"""All lanes: a beat of a warp's threads every cycle."""

from typing import Any

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.params import QUAD, SmParams
from rtl.structs import struct_value

from .control import LaneControl, LaneControls
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

    Results are there LANE_CYCLES after their operands, from registers. They are those of threads
    that execute the instruction, with a value of 0 where one does not; others decide what of them
    is written.

    The first one of every QUARTERS lanes, or of all, is full. What only such a lane computes passes
    it in parts, of one of their threads each, and one stage more; the lanes keep their results
    until those of all parts are there, LANE_CYCLES + 1 after the last one.

    Members
    -------
    instruction : In(LaneInstruction)
    operands : In(Operands for each lane)
    part : In(LanePart)
        Whose ``operands`` the full lanes have: with a part, those of the thread of that lane.
    executes : In(1 bit for each lane)
        In the third stage, of a part in the cycle after it: the thread executes the instruction.
    results : Out(LaneResult for each lane)
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "instruction": In(LaneInstruction),
            "operands": In(data.ArrayLayout(Operands, params.lanes)),
            "part": In(LanePart),
            "executes": In(params.lanes),
            "results": Out(data.ArrayLayout(LaneResult, params.lanes)),
        })
        self._parts = params.parts
        self.lanes = [
            Lane(number % QUAD, full=number % params.parts == 0, floats=params.floats)
            for number in range(params.lanes)]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        parts = self._delay_parts(m)
        self._connect_lanes(m, parts[_BOUND_CYCLES].valid)
        for number, lane in enumerate(self.lanes):
            self._keep_result(m, number, lane, parts[LANE_CYCLES])
        return m

    def _delay_parts(self, m: Module) -> list[Any]:
        """Beside the lanes: the part that is so many cycles behind its operands."""
        parts: list[Any] = [self.part]
        for number in range(LANE_CYCLES):
            part = Signal(LanePart, name=f"part_{number}")
            m.d.sync += part.eq(parts[number])
            parts.append(part)
        return parts

    def _connect_lanes(self, m: Module, bounds: Value) -> None:
        """Operands and control signals, which go along with the instruction."""
        first = self.instruction.control
        second = Signal(LaneControl)
        third = Signal(LaneControl)
        m.d.sync += second.eq(first)
        m.d.sync += third.eq(second)
        controls = struct_value(
            LaneControls, first=first, second=second, third=third, bounds=bounds)
        for number, lane in enumerate(self.lanes):
            m.submodules[f"lane_{number}"] = lane
            m.d.comb += lane.operands.eq(self.operands[number])
            m.d.comb += lane.controls.eq(controls)

    def _keep_result(self, m: Module, number: int, lane: Lane, part: Any) -> None:
        """A lane's result: its own; of a part that is its thread, that of its full lane."""
        place = number % self._parts
        full_lane = self.lanes[number - place]
        result = self.results[number]
        with m.If(~part.valid):
            m.d.sync += result.eq(lane.result)
        with m.Elif(part.number == place):
            m.d.sync += result.eq(full_lane.result)
        with m.If((~part.valid | (part.number == place)) & ~self.executes[number]):
            m.d.sync += result.value.eq(0)
