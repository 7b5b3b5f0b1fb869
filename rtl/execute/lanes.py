"""All lanes: a beat of a warp's threads every cycle."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.condition import Flags
from rtl.isa.syntax import PT
from rtl.params import SmParams

from .control import LaneControl
from .instruction import LaneInstruction
from .lane import Lane

__all__ = ["LANE_CYCLES", "Lanes"]

LANE_CYCLES = 3
"""From operands to results."""


class Lanes(Component):
    """Computes an instruction for one thread a lane.

    Results come LANE_CYCLES after what they are made of, from registers. They are those of threads that execute the
    instruction; whether a thread does, and what is written, is for others to know.

    Members
    -------
    instruction : In(LaneInstruction)
    a, b, c : In(array of 32 bits a lane)
    conditions : In(array of Flags)
        CC.
    sources : In(array of 3 bits)
        Predicates x, y and z, negated where the instruction says so.
    predicates : In(array of 7 bits)
        P0 to P6.
    values : Out(array of 32 bits)
    p, q : Out(a bit a lane)
    conditions_out : Out(array of Flags)
    predicates_out, predicates_written : Out(array of 7 bits)
        New values of P0 to P6, and those that the instruction writes beside p and q.
    """

    def __init__(self, params: SmParams) -> None:
        def each(shape: object) -> data.ArrayLayout:
            return data.ArrayLayout(shape, params.lanes)    # pyright: ignore[reportArgumentType]

        super().__init__({
            "instruction": In(LaneInstruction), "a": In(each(32)), "b": In(each(32)), "c": In(each(32)),
            "conditions": In(each(Flags)), "sources": In(each(3)), "predicates": In(each(PT)),
            "values": Out(each(32)), "p": Out(params.lanes), "q": Out(params.lanes),
            "conditions_out": Out(each(Flags)), "predicates_out": Out(each(PT)),
            "predicates_written": Out(each(PT))})
        self.lanes = [Lane() for _ in range(params.lanes)]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        second, third = Signal(LaneControl), Signal(LaneControl)
        m.d.sync += [second.eq(self.instruction.control), third.eq(second)]
        for number, lane in enumerate(self.lanes):
            m.submodules[f"lane_{number}"] = lane
            operands, result = lane.operands, lane.result
            m.d.comb += [
                lane.first.eq(self.instruction.control), lane.second.eq(second), lane.third.eq(third),
                operands.a.eq(self.a[number]), operands.b.eq(self.b[number]), operands.c.eq(self.c[number]),
                operands.conditions.eq(self.conditions[number]), operands.sources.eq(self.sources[number]),
                operands.predicates.eq(self.predicates[number]), self.values[number].eq(result.value),
                self.conditions_out[number].eq(result.conditions), self.predicates_out[number].eq(result.predicates),
                self.predicates_written[number].eq(result.predicates_written)]
        m.d.comb += [self.p.eq(Cat(lane.result.p for lane in self.lanes)),
                     self.q.eq(Cat(lane.result.q for lane in self.lanes))]
        return m
