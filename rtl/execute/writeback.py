"""S5 to S8: the record of each beat, and the writes of its results."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.syntax import PT, RZ
from rtl.layouts import Event, delayed, lane_write
from rtl.params import SmParams
from rtl.structs import struct_value

from .lanes import LANE_CYCLES
from .slots import beat_stage
from .stages import LaneResult
from .writes import FlagWrite, RegisterWrite

__all__ = ["WriteBack"]


class WriteBack(Component):
    """Delays the record of a beat from S5 to S8, then writes registers, predicates and CC.

    Members
    -------
    beat : In(Event of beat_stage)
        S5.
    executes : Out
        S7: the lanes whose threads execute the instruction.
    results : In(LaneResult for each lane)
        S8: the results of the lanes.
    registers, flags : Out(RegisterWrite), Out(FlagWrite)
        S8.
    report : Out(Event of lane_write)
        S8: the same, for the retirement interface.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "beat": In(Event(beat_stage(params))),
            "executes": Out(params.lanes),
            "results": In(data.ArrayLayout(LaneResult, params.lanes)),
            "registers": Out(RegisterWrite(params)),
            "flags": Out(FlagWrite(params)),
            "report": Out(Event(lane_write(params))),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        third = delayed(m, self.beat, LANE_CYCLES - 1)
        last = delayed(m, third)
        m.d.comb += self.executes.eq(third.payload.record.threads)
        m.d.comb += self.registers.next_row.eq(third.payload.record.row)
        self._write_registers(m, last)
        self._write_conditions(m, last)
        self._write_predicates(m, last)
        self._report(m, last)
        return m

    def _write_registers(self, m: Module, last: Any) -> None:
        """The register of each lane."""
        record = last.payload.record
        write = self.registers
        m.d.comb += write.is_valid.eq(
            last.valid & record.writes & (record.destination.register != RZ))
        m.d.comb += write.beat.eq(record.place.beat)
        m.d.comb += write.row.eq(record.row)
        m.d.comb += write.lanes.eq(record.threads & write.is_valid.replicate(self._params.lanes))
        for value, result in zip(write.values, self.results, strict=True):
            m.d.comb += value.eq(result.value)

    def _write_conditions(self, m: Module, last: Any) -> None:
        """CC of each lane: that of a unit, or of the result."""
        record = last.payload.record
        write = self.flags
        writes_cc = last.valid & record.writes & record.destination.writes_cc
        m.d.comb += write.place.eq(record.place)
        m.d.comb += write.conditional.eq(
            record.threads & writes_cc.replicate(self._params.lanes))
        m.d.comb += write.conditions.eq(Mux(
            record.is_supplied,
            last.payload.supplied_conditions.as_value(),
            Cat(result.conditions for result in self.results)))

    def _write_predicates(self, m: Module, last: Any) -> None:
        """Predicates of each lane: p and q, or those of R2P. If p and q are the same predicate, q
        has priority."""
        record = last.payload.record
        write = self.flags
        all_bits = (1 << PT) - 1
        one_bit = Array(Const(1 << number & all_bits, PT) for number in range(PT + 1))
        p = Signal(PT)
        q = Signal(PT)
        m.d.comb += p.eq(one_bit[record.destination.p])
        m.d.comb += q.eq(one_bit[record.destination.q])
        for lane, result in enumerate(self.results):
            executes = last.valid & record.writes & record.threads[lane]
            named = result.predicates_written
            m.d.comb += write.predicates_written[lane].eq(
                (p | q | named) & executes.replicate(PT))
            of_register = result.value[:PT] & named
            of_p = p & ~q & result.p.replicate(PT)
            of_q = q & result.q.replicate(PT)
            m.d.comb += write.predicates[lane].eq(of_register | of_p | of_q)

    def _report(self, m: Module, last: Any) -> None:
        """The same for the retirement interface."""
        record = last.payload.record
        destination = record.destination
        flags = self.flags
        m.d.comb += self.report.valid.eq(last.valid & record.writes)
        m.d.comb += self.report.payload.eq(struct_value(
            lane_write(self._params),
            warp=record.place.warp,
            sequence=record.sequence,
            beat=record.place.beat,
            lanes=record.threads,
            register=destination.register,
            values=self.registers.values,
            predicates=reduce(or_, flags.predicates_written),
            flags=Cat(after.predicates for after in flags.after),
            conditional=destination.writes_cc,
            conditions=flags.conditions))
