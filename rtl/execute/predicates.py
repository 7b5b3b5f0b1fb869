"""Predicates and condition codes."""

from typing import Any

from amaranth.hdl import Array, Cat, Module, Signal, unsigned
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.condition import Flags
from rtl.isa.syntax import PT
from rtl.params import WARP_THREADS, SmParams

__all__ = ["PredicateFile", "ThreadFlags"]


class ThreadFlags(data.Struct):
    """All that a thread has in single bits."""

    predicates: unsigned(PT)
    """P0 to P6."""
    condition: Flags
    """CC."""


class PredicateFile(Component):
    """Predicates and CC of all warps. Reads are combinational and see what earlier cycles have written.

    They are there twice, for a warp's 32 threads at once and for a beat of them. A warp's launch marks its beats as
    stale: they read as 0, and the first write to one writes all of it.

    Members
    -------
    warp, predicates, conditions : In, Out, Out
        Of the threads of a warp; ``predicates`` has a mask of threads for each number.
    beat_warp, beat, beat_flags : In, In, Out
        Of a beat.
    write_warp, write_beat : In
    written, values : In(PT bits for each lane)
        The predicates that are written, and their new values.
    conditional, new_conditions : In
        The lanes whose CC is written, and the new ones.
    after : Out(ThreadFlags for each lane)
        What the beat is then.
    clear, clear_warp : In
        All of a warp becomes 0.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        lanes, warp, beat = params.lanes, params.warp_bits, range(params.beats)
        super().__init__({
            "warp": In(warp), "predicates": Out(data.ArrayLayout(WARP_THREADS, PT)),
            "conditions": Out(data.ArrayLayout(Flags, WARP_THREADS)),
            "beat_warp": In(warp), "beat": In(beat), "beat_flags": Out(data.ArrayLayout(ThreadFlags, lanes)),
            "write_warp": In(warp), "write_beat": In(beat), "written": In(data.ArrayLayout(PT, lanes)),
            "values": In(data.ArrayLayout(PT, lanes)), "conditional": In(lanes),
            "new_conditions": In(data.ArrayLayout(Flags, lanes)), "after": Out(data.ArrayLayout(ThreadFlags, lanes)),
            "clear": In(1), "clear_warp": In(warp)})

    def elaborate(self, platform: object) -> Module:
        params = self._params
        lanes, beats = params.lanes, params.beats
        m = Module()
        wide_shape, narrow_shape = data.ArrayLayout(ThreadFlags, WARP_THREADS), data.ArrayLayout(ThreadFlags, lanes)
        m.submodules.warps = wide = memory.Memory(shape=wide_shape, depth=params.warps, init=[])
        m.submodules.beats = narrow = memory.Memory(shape=narrow_shape, depth=params.warps * beats, init=[])
        wide_read, narrow_read, old = (store.read_port(domain="comb") for store in (wide, narrow, narrow))
        wide_write, narrow_write = wide.write_port(granularity=1), narrow.write_port(granularity=1)
        stale = Array(Signal(beats, name=f"stale{warp}") for warp in range(params.warps))

        # A warp's threads.
        live = Signal(beats)
        m.d.comb += [wide_read.addr.eq(self.warp), live.eq(~stale[self.warp])]
        for number, mask in enumerate(self.predicates):
            m.d.comb += mask.eq(Cat(wide_read.data[thread].predicates[number] & live[thread // lanes]
                                    for thread in range(WARP_THREADS)))
        for thread, condition in enumerate(self.conditions):
            m.d.comb += condition.eq(_if(live[thread // lanes], wide_read.data[thread].condition))

        # A beat's.
        beat_live = ~stale[self.beat_warp].bit_select(self.beat, 1)
        m.d.comb += [narrow_read.addr.eq(Cat(self.beat, self.beat_warp)),
                     self.beat_flags.eq(_if(beat_live, narrow_read.data))]

        # What is written: all flags of a thread, since they share a write enable.
        touched, was_stale = Signal(lanes), Signal()
        place = Cat(self.write_beat, self.write_warp)
        m.d.comb += [
            was_stale.eq(stale[self.write_warp].bit_select(self.write_beat, 1)), old.addr.eq(place),
            touched.eq(Cat(lane.any() for lane in self.written) | self.conditional)]
        for lane, after in enumerate(self.after):
            before = data.View(ThreadFlags, _if(~was_stale, old.data[lane]))
            written = self.written[lane]
            m.d.comb += [after.predicates.eq((before.predicates & ~written) | (self.values[lane] & written)),
                         after.condition.eq(before.condition)]
            with m.If(self.conditional[lane]):
                m.d.comb += after.condition.eq(self.new_conditions[lane])
        enable = touched | (touched.any() & was_stale).replicate(lanes)
        m.d.comb += [
            narrow_write.addr.eq(place), narrow_write.data.eq(self.after), narrow_write.en.eq(enable),
            wide_write.addr.eq(self.write_warp), wide_write.data.eq(self.after.as_value().replicate(beats)),
            wide_write.en.eq(Cat(enable & (self.write_beat == beat).replicate(lanes) for beat in range(beats)))]
        with m.If(touched.any()):
            m.d.sync += stale[self.write_warp].bit_select(self.write_beat, 1).eq(0)
        with m.If(self.clear):
            m.d.sync += stale[self.clear_warp].eq(~0)
        return m


def _if(condition: Any, view: Any) -> Any:
    """A view's bits where the condition holds, else 0."""
    value = view.as_value()
    return value & condition.replicate(len(value))
