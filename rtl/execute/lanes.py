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
"""From operands to the additional stage of full lanes, BoundStage."""


class Lanes(Component):
    """Computes an instruction for one thread in each lane.

    Results are registered, LANE_CYCLES after their operands. The value is 0 in lanes whose thread
    does not execute the instruction; WriteBack decides what is written.

    The lanes are in groups of QUARTERS lanes (or one group of all lanes, if there are fewer). The
    first lane of a group is full. An instruction of a quarter of the rate is computed by the full
    lanes alone: a beat takes a cycle for each lane of a group, a *part*, in which the full lane
    computes that lane's thread. Such results take one stage more (BoundStage). Each lane holds
    its result until the beat is complete: LANE_CYCLES + 1 after the operands of the last part.

    Members
    -------
    instruction : In(LaneInstruction)
    operands : In(Operands for each lane)
    part : In(LanePart)
        The part that the full lanes compute: their ``operands`` are those of the lane of this
        number in their group.
    executes : In(1 bit for each lane)
        The thread executes the instruction. In the cycle of the third stage; for a part, one cycle
        later.
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
        """Returns the part in each stage, by the number of cycles after its operands."""
        parts: list[Any] = [self.part]
        for number in range(LANE_CYCLES):
            part = Signal(LanePart, name=f"part_{number}")
            m.d.sync += part.eq(parts[number])
            parts.append(part)
        return parts

    def _connect_lanes(self, m: Module, bounds: Value) -> None:
        """Operands, and the control signals of the instruction in each stage."""
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
        """The result register of a lane: the lane's result or, in the part with its number, the
        result of the full lane of its group. It holds its value in other parts."""
        place = number % self._parts
        full_lane = self.lanes[number - place]
        result = self.results[number]
        with m.If(~part.valid):
            m.d.sync += result.eq(lane.result)
        with m.Elif(part.number == place):
            m.d.sync += result.eq(full_lane.result)
        with m.If((~part.valid | (part.number == place)) & ~self.executes[number]):
            m.d.sync += result.value.eq(0)
