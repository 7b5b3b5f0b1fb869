"""S5 to S8: what goes beside the lanes, and what is written."""

from functools import reduce
from operator import or_

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.condition import Flags
from rtl.isa.syntax import PT, RZ
from rtl.layouts import lane_write
from rtl.params import SmParams

from .lanes import LANE_CYCLES
from .predicates import ThreadFlags
from .slots import beat_stage, beat_write
from .stages import LaneResult

__all__ = ["WriteBack"]


class WriteBack(Component):
    """Waits beside the lanes, then says what each thread writes.

    Members
    -------
    valid, stage, supplied_conditions : In
        S5.
    executes, row : Out, Out
        S7: the lanes whose threads execute the instruction, and the row of the register that it writes.
    results : In(LaneResult for each lane)
        S8: what comes out of the lanes.
    write : Out(beat_write)
        S8.
    after : In(ThreadFlags for each lane)
        What predicates and CC are then.
    report : Out(lane_write)
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params

        def each(shape: object) -> data.ArrayLayout:
            return data.ArrayLayout(shape, params.lanes)    # pyright: ignore[reportArgumentType]

        super().__init__({
            "valid": In(1), "stage": In(beat_stage(params)), "supplied_conditions": In(each(Flags)),
            "executes": Out(params.lanes), "row": Out(params.row_bits),
            "results": In(each(LaneResult)), "write": Out(beat_write(params)), "after": In(each(ThreadFlags)),
            "report": Out(lane_write(params))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lanes = self._params.lanes
        valid, stage, supplied = self.valid, self.stage, self.supplied_conditions
        for number in range(LANE_CYCLES):
            if number == LANE_CYCLES - 1:
                m.d.comb += [self.executes.eq(stage.threads), self.row.eq(stage.row)]
            name = f"s{number + 5}"
            later = (Signal(name=f"{name}_valid"), Signal.like(stage, name=f"{name}_stage"),
                     Signal.like(supplied, name=f"{name}_conditions"))
            m.d.sync += [after.eq(before) for after, before in zip(later, (valid, stage, supplied), strict=True)]
            valid, stage, supplied = later

        writing, write = Signal(), self.write
        m.d.comb += [
            writing.eq(valid & stage.writing), write.place.eq(stage.place), write.row.eq(stage.row),
            write.fills.eq(writing & (stage.register != RZ)),
            write.conditional.eq(stage.threads & (writing & stage.writes_cc).replicate(lanes)),
            write.registers.eq(stage.threads & write.fills.replicate(lanes)),
            write.conditions.eq(Mux(stage.supplied, supplied.as_value(),
                                    Cat(result.conditions for result in self.results)))]
        m.d.comb += [value.eq(result.value) for value, result in zip(write["values"], self.results, strict=True)]
        of_number = Array(Const(1 << number & (1 << PT) - 1, PT) for number in range(PT + 1))
        p, q = Signal(PT), Signal(PT)
        m.d.comb += [p.eq(of_number[stage.p]), q.eq(of_number[stage.q])]
        for lane, result in enumerate(self.results):
            writes, named = writing & stage.threads[lane], result.predicates_written
            m.d.comb += [
                write.written[lane].eq((p | q | named) & writes.replicate(PT)),
                write.predicates[lane].eq((result.value[:PT] & named) | (p & ~q & result.p.replicate(PT))
                                          | (q & result.q.replicate(PT)))]

        report = self.report
        m.d.comb += [
            report.valid.eq(writing), report.warp.eq(stage.place.warp), report.serial.eq(stage.serial),
            report.beat.eq(stage.place.beat), report.lanes.eq(stage.threads), report.register.eq(stage.register),
            report.values.eq(write["values"]), report.conditional.eq(stage.writes_cc),
            report.conditions.eq(write.conditions), report.predicates.eq(reduce(or_, write.written)),
            report.flags.eq(Cat(lane.predicates for lane in self.after))]
        return m
