"""Predicates and condition codes."""

from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.condition import Flags
from rtl.isa.syntax import PT
from rtl.layouts import warp_launch
from rtl.one_hot import one_hot
from rtl.params import WARP_THREADS, SmParams
from rtl.words import Words

from .slots import beat_place, beat_write

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
    warp, predicates, conditions, live : In, Out, Out, Out(32)
        Of the threads of a warp; ``predicates`` has a mask of threads for each number. Where a thread is not ``live``
        all of its own are 0, whatever the others say: who reads one of several takes it into account once.
    starts, place, flags : In(1), In(beat_place), Out(ThreadFlags for each lane)
        Of a beat: it is the first one of ``warp``, or of the same warp as that of the cycle before.
    write : In(beat_write)
    after : Out(ThreadFlags for each lane)
        What the beat is then.
    launch : In(valid, payload: warp_launch)
        All of the warp becomes 0.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        flags = data.ArrayLayout(ThreadFlags, params.lanes)
        super().__init__({
            "warp": In(params.warp_bits), "predicates": Out(data.ArrayLayout(WARP_THREADS, PT)),
            "conditions": Out(data.ArrayLayout(Flags, WARP_THREADS)), "live": Out(WARP_THREADS),
            "starts": In(1), "place": In(beat_place(params)), "flags": Out(flags), "write": In(beat_write(params)),
            "after": Out(flags),
            "launch": In(data.StructLayout({"valid": 1, "payload": warp_launch(params)}))})

    def elaborate(self, platform: object) -> Module:
        params = self._params
        lanes, beats = params.lanes, params.beats
        m = Module()
        wide_shape, narrow_shape = data.ArrayLayout(ThreadFlags, WARP_THREADS), data.ArrayLayout(ThreadFlags, lanes)
        m.submodules.warps = wide = Words(wide_shape, params.warps)
        m.submodules.beats = narrow = memory.Memory(shape=narrow_shape, depth=params.warps * beats, init=[])
        wide_read, narrow_read, old = (store.read_port(domain="comb") for store in (wide, narrow, narrow))
        wide_write, narrow_write = wide.write_port(granularity=1), narrow.write_port(granularity=1)
        stale = Array(Signal(beats, name=f"stale{warp}") for warp in range(params.warps))

        # A warp's threads.
        m.d.comb += [wide_read.addr.eq(self.warp),
                     self.live.eq(Cat(bit.replicate(lanes) for bit in ~stale[self.warp]))]
        for number, mask in enumerate(self.predicates):
            m.d.comb += mask.eq(Cat(wide_read.data[thread].predicates[number] for thread in range(WARP_THREADS)))
        for thread, condition in enumerate(self.conditions):
            m.d.comb += condition.eq(wide_read.data[thread].condition)

        # A beat's.
        following = Signal(beats)
        beat_live = ~Mux(self.starts, stale[self.warp][0], following.bit_select(self.place.beat, 1))
        m.d.comb += [narrow_read.addr.eq(self.place), self.flags.eq(_if(beat_live, narrow_read.data))]

        # What is written: all flags of a thread, since they share a write enable.
        touched, was_stale, write = Signal(lanes), Signal(), self.write
        warp, beat = write.place.warp, write.place.beat
        m.d.comb += [
            was_stale.eq(stale[warp].bit_select(beat, 1)), old.addr.eq(write.place),
            touched.eq(Cat(lane.any() for lane in write.written) | write.conditional)]
        for lane, after in enumerate(self.after):
            before = data.View(ThreadFlags, _if(~was_stale, old.data[lane]))
            written = write.written[lane]
            m.d.comb += [after.predicates.eq((before.predicates & ~written) | (write.predicates[lane] & written)),
                         after.condition.eq(before.condition)]
            with m.If(write.conditional[lane]):
                m.d.comb += after.condition.eq(write.conditions[lane])
        enable = touched | (touched.any() & was_stale).replicate(lanes)
        m.d.comb += [
            narrow_write.addr.eq(write.place), narrow_write.data.eq(self.after), narrow_write.en.eq(enable),
            wide_write.addr.eq(warp), wide_write.data.eq(self.after.as_value().replicate(beats)),
            wide_write.en.eq(Cat(enable & (beat == number).replicate(lanes) for number in range(beats)))]
        m.d.sync += following.eq(Mux(self.starts, stale[self.warp], following) & ~one_hot(
            beat, beats, touched.any() & (warp == self.place.warp)))
        with m.If(touched.any()):
            m.d.sync += stale[warp].bit_select(beat, 1).eq(0)
        with m.If(self.launch.valid):
            m.d.sync += stale[self.launch.payload.warp].eq(~0)
        return m


def _if(condition: Any, view: Any) -> Any:
    """A view's bits where the condition holds, else 0."""
    value = view.as_value()
    return value & condition.replicate(len(value))
