"""S4 to S7: what goes beside the lanes, and what is written."""

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
from .slots import beat_stage

__all__ = ["WriteBack"]


class WriteBack(Component):
    """Waits beside the lanes, then says what each thread writes.

    Members
    -------
    valid, stage, supplied_conditions : In
        S4.
    values, p, q, conditions, predicates, predicates_written : In
        S7: what comes out of the lanes.
    write, warp, beat, row : Out
        S7: the lanes whose register is written, with ``values``; and where.
    written, new_predicates, conditional, new_conditions : Out
        S7: predicates and CC that are written.
    after : In(ThreadFlags for each lane)
        What they are then.
    report : Out(lane_write)
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        lanes = params.lanes

        def each(shape: object) -> data.ArrayLayout:
            return data.ArrayLayout(shape, lanes)    # pyright: ignore[reportArgumentType]

        super().__init__({
            "valid": In(1), "stage": In(beat_stage(params)), "supplied_conditions": In(each(Flags)),
            "values": In(each(32)), "p": In(lanes), "q": In(lanes), "conditions": In(each(Flags)),
            "predicates": In(each(PT)), "predicates_written": In(each(PT)), "write": Out(lanes),
            "warp": Out(params.warp_bits), "beat": Out(range(params.beats)), "row": Out(params.row_bits),
            "written": Out(each(PT)), "new_predicates": Out(each(PT)), "conditional": Out(lanes),
            "new_conditions": Out(each(Flags)), "after": In(each(ThreadFlags)), "report": Out(lane_write(params))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lanes = self._params.lanes
        valid, stage, supplied = self.valid, self.stage, self.supplied_conditions
        for number in range(LANE_CYCLES):
            name = f"s{number + 5}"
            later = (Signal(name=f"{name}_valid"), Signal.like(stage, name=f"{name}_stage"),
                     Signal.like(supplied, name=f"{name}_conditions"))
            m.d.sync += [after.eq(before) for after, before in zip(later, (valid, stage, supplied), strict=True)]
            valid, stage, supplied = later

        writing = Signal()
        m.d.comb += [
            writing.eq(valid & stage.writing), self.warp.eq(stage.warp), self.beat.eq(stage.beat),
            self.row.eq(stage.row), self.conditional.eq(stage.threads & (writing & stage.writes_cc).replicate(lanes)),
            self.write.eq(stage.threads & (writing & (stage.register != RZ)).replicate(lanes)),
            self.new_conditions.eq(Mux(stage.supplied, supplied.as_value(), self.conditions.as_value()))]
        of_number = Array(Const(1 << number & (1 << PT) - 1, PT) for number in range(PT + 1))
        p, q = Signal(PT), Signal(PT)
        m.d.comb += [p.eq(of_number[stage.p]), q.eq(of_number[stage.q])]
        for lane, (written, value) in enumerate(zip(self.written, self.new_predicates, strict=True)):
            writes, named = writing & stage.threads[lane], self.predicates_written[lane]
            m.d.comb += [
                written.eq((p | q | named) & writes.replicate(PT)),
                value.eq((self.predicates[lane] & named) | (p & ~q & self.p[lane].replicate(PT))
                         | (q & self.q[lane].replicate(PT)))]

        report = self.report
        m.d.comb += [
            report.valid.eq(writing), report.warp.eq(stage.warp), report.serial.eq(stage.serial),
            report.beat.eq(stage.beat), report.lanes.eq(stage.threads), report.register.eq(stage.register),
            report.values.eq(self.values), report.conditional.eq(stage.writes_cc),
            report.conditions.eq(self.new_conditions), report.predicates.eq(reduce(or_, self.written)),
            report.flags.eq(Cat(lane.predicates for lane in self.after))]
        return m
