"""The one lane of the serial machine, behind the ports of the pipelined machine's lanes."""

from amaranth.hdl import Module
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.execute.instruction import LaneInstruction
from rtl.execute.stages import LanePart, LaneResult, Operands
from rtl.params import SmParams
from rtl.structs import struct_value

from .lane import ByteLane
from .stages import ThreadWork

__all__ = ["SerialLanes"]


class SerialLanes(Component):
    """Computes an instruction for one thread at a time, in BYTE_LANE_CYCLES.

    All inputs, ``executes`` among them, are valid from the cycle on in which ``part`` is valid, and
    must not change. The result is valid BYTE_LANE_CYCLES later, until the inputs change or the next
    thread starts.

    Members
    -------
    instruction : In(LaneInstruction)
    operands : In(Operands for each lane)
    part : In(LanePart)
        A thread starts; its number does not count.
    executes : In(1 bit for each lane)
        The thread executes the instruction; otherwise its value is 0.
    results : Out(LaneResult for each lane)
    """

    def __init__(self, params: SmParams) -> None:
        assert params.lanes == 1
        self.lane = ByteLane()
        super().__init__({
            "instruction": In(LaneInstruction),
            "operands": In(data.ArrayLayout(Operands, params.lanes)),
            "part": In(LanePart),
            "executes": In(params.lanes),
            "results": Out(data.ArrayLayout(LaneResult, params.lanes)),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.lane_0 = lane = self.lane
        m.d.comb += lane.start.eq(self.part.valid)
        m.d.comb += lane.work.eq(struct_value(
            ThreadWork, control=self.instruction.control, operands=self.operands[0],
            executes=self.executes))
        m.d.comb += self.results[0].eq(lane.result)
        return m
