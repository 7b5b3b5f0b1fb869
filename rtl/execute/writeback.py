"""S5 to S8: what goes beside the lanes, and what is written."""

from functools import reduce
from operator import or_

from amaranth.hdl import Array, Cat, Const, Module, Mux, ShapeLike, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.syntax import PT, RZ
from rtl.layouts import Event, lane_write
from rtl.params import SmParams

from .flags import ThreadFlags
from .lanes import LANE_CYCLES
from .slots import beat_stage, beat_write
from .stages import LaneResult

__all__ = ["WriteBack"]


class WriteBack(Component):
    """Waits beside the lanes, then says what each thread writes.

    Members
    -------
    beat : In(Event of beat_stage)
        S5.
    executes, row : Out, Out
        S7: the lanes whose threads execute the instruction, and the row of the register that it
        writes.
    results : In(LaneResult for each lane)
        S8: what comes out of the lanes.
    write : Out(beat_write)
        S8.
    written_flags : In(ThreadFlags for each lane)
        What predicates and CC are then.
    report : Out(Event of lane_write)
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params

        def of_lanes(shape: ShapeLike) -> data.ArrayLayout:
            return data.ArrayLayout(shape, params.lanes)

        super().__init__({
            "beat": In(Event(beat_stage(params))),
            "executes": Out(params.lanes),
            "row": Out(params.row_bits),
            "results": In(of_lanes(LaneResult)),
            "write": Out(beat_write(params)),
            "written_flags": In(of_lanes(ThreadFlags)),
            "report": Out(Event(lane_write(params))),
        })
        self._last_valid = Signal(name="last_valid")
        """S8: there is a beat, ``_last_stage``."""
        self._last_stage = Signal.like(self.beat.payload, name="last_stage")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._delay(m)
        self._write_registers(m)
        self._write_conditions(m)
        self._write_predicates(m)
        self._report(m)
        return m

    def _delay(self, m: Module) -> None:
        """S5 to S8, beside the lanes. ``executes`` and ``row`` are those of S7."""
        valid = self.beat.valid
        stage = self.beat.payload
        for number in range(5, 5 + LANE_CYCLES - 1):
            next_valid = Signal(name=f"s{number}_valid")
            next_stage = Signal.like(stage, name=f"s{number}_stage")
            m.d.sync += next_valid.eq(valid)
            m.d.sync += next_stage.eq(stage)
            valid = next_valid
            stage = next_stage
        m.d.comb += self.executes.eq(stage.threads)
        m.d.comb += self.row.eq(stage.row)
        m.d.sync += self._last_valid.eq(valid)
        m.d.sync += self._last_stage.eq(stage)

    def _write_registers(self, m: Module) -> None:
        """The register of each lane."""
        stage = self._last_stage
        write = self.write
        m.d.comb += write.place.eq(stage.place)
        m.d.comb += write.row.eq(stage.row)
        m.d.comb += write.writes_register.eq(
            self._last_valid & stage.writes & (stage.register != RZ))
        m.d.comb += write.registers.eq(
            stage.threads & write.writes_register.replicate(self._params.lanes))
        for value, result in zip(write["values"], self.results, strict=True):
            m.d.comb += value.eq(result.value)

    def _write_conditions(self, m: Module) -> None:
        """CC of each lane: that of a unit, or of the result."""
        stage = self._last_stage
        write = self.write
        writes_cc = self._last_valid & stage.writes & stage.writes_cc
        m.d.comb += write.conditional.eq(
            stage.threads & writes_cc.replicate(self._params.lanes))
        m.d.comb += write.conditions.eq(Mux(
            stage.is_supplied,
            stage.supplied_conditions.as_value(),
            Cat(result.conditions for result in self.results)))

    def _write_predicates(self, m: Module) -> None:
        """Predicates of each lane: p and q, of which q wins, and those that R2P names."""
        stage = self._last_stage
        write = self.write
        all_bits = (1 << PT) - 1
        one_bit = Array(Const(1 << number & all_bits, PT) for number in range(PT + 1))
        p = Signal(PT)
        q = Signal(PT)
        m.d.comb += p.eq(one_bit[stage.p])
        m.d.comb += q.eq(one_bit[stage.q])
        for lane, result in enumerate(self.results):
            executes = self._last_valid & stage.writes & stage.threads[lane]
            named = result.predicates_written
            m.d.comb += write.predicates_written[lane].eq(
                (p | q | named) & executes.replicate(PT))
            of_register = result.value[:PT] & named
            of_p = p & ~q & result.p.replicate(PT)
            of_q = q & result.q.replicate(PT)
            m.d.comb += write.predicates[lane].eq(of_register | of_p | of_q)

    def _report(self, m: Module) -> None:
        """The same for the retirement interface."""
        stage = self._last_stage
        write = self.write
        report = self.report.payload
        m.d.comb += self.report.valid.eq(self._last_valid & stage.writes)
        m.d.comb += report.warp.eq(stage.place.warp)
        m.d.comb += report.serial.eq(stage.serial)
        m.d.comb += report.beat.eq(stage.place.beat)
        m.d.comb += report.lanes.eq(stage.threads)
        m.d.comb += report.register.eq(stage.register)
        m.d.comb += report.values.eq(write["values"])
        m.d.comb += report.predicates.eq(reduce(or_, write.predicates_written))
        m.d.comb += report.flags.eq(Cat(flags.predicates for flags in self.written_flags))
        m.d.comb += report.conditional.eq(stage.writes_cc)
        m.d.comb += report.conditions.eq(write.conditions)
