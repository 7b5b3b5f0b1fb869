"""Predicates and condition codes."""

from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.layouts import Event, warp_launch
from rtl.one_hot import one_hot
from rtl.params import WARP_THREADS, SmParams
from rtl.words import Words

from .flags import ThreadFlags, WarpFlags
from .reads import FlagRead
from .slots import beat_write

__all__ = ["PredicateFile", "ThreadFlags"]


class PredicateFile(Component):
    """Predicates and CC of all warps. Reads are combinational and see what earlier cycles wrote.

    They are kept twice, for a warp's 32 threads at once and for a beat of them. A warp's launch
    marks its beats as stale: they read as 0, and the first write to one writes all of it.

    Members
    -------
    warp, warp_flags : In, Out(WarpFlags)
        Of the threads of a warp.
    read : In(FlagRead)
        Of a beat: the first one is of ``warp``.
    write : In(beat_write)
    written_flags : Out(ThreadFlags for each lane)
        What the beat's threads have after the write.
    launch : In(Event of warp_launch)
        All of the warp becomes 0.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        lane_flags = data.ArrayLayout(ThreadFlags, params.lanes)
        super().__init__({
            "warp": In(params.warp_bits),
            "warp_flags": Out(WarpFlags),
            "read": In(FlagRead(params)),
            "write": In(beat_write(params)),
            "written_flags": Out(lane_flags),
            "launch": In(Event(warp_launch(params))),
        })
        self._of_warps = Words(data.ArrayLayout(ThreadFlags, WARP_THREADS), params.warps)
        self._of_beats = memory.Memory(
            shape=lane_flags, depth=params.warps * params.beats, init=[])
        self._stale = Array(
            Signal(params.beats, name=f"stale{warp}") for warp in range(params.warps))
        """The stale beats of each warp."""
        self._touched = Signal(params.lanes, name="touched")
        """Lanes in which something is written."""
        self._writes_stale = Signal(name="writes_stale")
        """The beat that is written is stale."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.warps = self._of_warps
        m.submodules.beats = self._of_beats
        self._read_warp(m)
        self._read_beat(m)
        self._apply_write(m)
        self._store(m)
        self._mark(m)
        return m

    def _read_warp(self, m: Module) -> None:
        """The flags of a warp's threads."""
        flags = self.warp_flags
        stored = self._of_warps.read(m, self.warp)
        stale = self._stale[self.warp]
        m.d.comb += flags.live.eq(
            Cat(beat_is_live.replicate(self._params.lanes) for beat_is_live in ~stale))
        for number, mask in enumerate(flags.predicates):
            m.d.comb += mask.eq(
                Cat(stored[thread].predicates[number] for thread in range(WARP_THREADS)))
        for thread, condition in enumerate(flags.conditions):
            m.d.comb += condition.eq(stored[thread].condition)

    def _read_beat(self, m: Module) -> None:
        """The flags of a beat. The marks of its warp are looked up with the first beat, and are
        kept beside the others."""
        beats = self._params.beats
        write = self.write
        place = self.read.place
        is_first = self.read.is_first
        marks = Signal(beats)
        marks_of_warp = Mux(is_first, self._stale[self.warp], marks)
        writes_same_warp = self._touched.any() & (write.place.warp == place.warp)
        m.d.sync += marks.eq(
            marks_of_warp & ~one_hot(write.place.beat, beats, writes_same_warp))

        is_stale = Mux(
            is_first, self._stale[self.warp][0], marks.bit_select(place.beat, 1))
        stored = self._of_beats.read_port(domain="comb")
        m.d.comb += stored.addr.eq(place)
        m.d.comb += self.read.flags.eq(_zero_if(is_stale, stored.data))

    def _apply_write(self, m: Module) -> None:
        """What the threads of a beat have when it is written."""
        write = self.write
        place = write.place
        m.d.comb += self._writes_stale.eq(self._stale[place.warp].bit_select(place.beat, 1))
        old = self._of_beats.read_port(domain="comb")
        m.d.comb += old.addr.eq(place)
        for lane, after in enumerate(self.written_flags):
            before = data.View(ThreadFlags, _zero_if(self._writes_stale, old.data[lane]))
            written = write.predicates_written[lane]
            m.d.comb += after.predicates.eq(
                (before.predicates & ~written) | (write.predicates[lane] & written))
            m.d.comb += after.condition.eq(before.condition)
            with m.If(write.conditional[lane]):
                m.d.comb += after.condition.eq(write.conditions[lane])
            m.d.comb += self._touched[lane].eq(written.any() | write.conditional[lane])

    def _store(self, m: Module) -> None:
        """All flags of a thread are written, since they share a write enable; all lanes of a beat
        that is stale."""
        lanes = self._params.lanes
        beats = self._params.beats
        place = self.write.place
        all_lanes = self._touched.any() & self._writes_stale
        enable = self._touched | all_lanes.replicate(lanes)
        of_beat = self._of_beats.write_port(granularity=1)
        m.d.comb += of_beat.addr.eq(place)
        m.d.comb += of_beat.data.eq(self.written_flags)
        m.d.comb += of_beat.en.eq(enable)

        of_warp = self._of_warps.write_port(granularity=1)
        m.d.comb += of_warp.addr.eq(place.warp)
        m.d.comb += of_warp.data.eq(self.written_flags.as_value().replicate(beats))
        m.d.comb += of_warp.en.eq(
            Cat(enable & (place.beat == number).replicate(lanes) for number in range(beats)))

    def _mark(self, m: Module) -> None:
        """A launch makes all beats stale, a write its own one no more. The launch wins."""
        place = self.write.place
        with m.If(self._touched.any()):
            m.d.sync += self._stale[place.warp].bit_select(place.beat, 1).eq(0)
        with m.If(self.launch.valid):
            m.d.sync += self._stale[self.launch.payload.warp].eq(~0)


def _zero_if(condition: Value, view: Any) -> Value:
    """A view's bits, 0 where the condition holds."""
    value = view.as_value()
    return value & (~condition).replicate(len(value))
