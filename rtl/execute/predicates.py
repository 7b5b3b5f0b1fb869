"""Predicates and condition codes."""

from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, memory
from amaranth.lib.wiring import In

from rtl.component import Component
from rtl.layouts import Event, warp_launch
from rtl.one_hot import one_hot
from rtl.params import WARP_THREADS, SmParams
from rtl.structs import struct_value
from rtl.words import Words

from .flags import ThreadFlags, WarpFlags
from .reads import FlagRead, WarpRead
from .writes import FlagWrite

__all__ = ["PredicateFile", "ThreadFlags"]


class PredicateFile(Component):
    """Predicates and CC of all warps. Reads are combinational; a write is visible from the next
    cycle on.

    They are stored twice: in a memory with a word a warp, and in one with a word a beat. A warp's
    launch marks its beats as stale: they read as 0, and the first write to a stale beat writes all
    of its lanes.

    Members
    -------
    warp_read : In(WarpRead of WarpFlags)
        Of the threads of a warp.
    read : In(FlagRead)
        Flags of a beat. The warp of a first beat must be the one in ``warp_read``.
    write : In(FlagWrite)
    launch : In(Event of warp_launch)
        All flags of the warp become 0, with priority over a write.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        lane_flags = data.ArrayLayout(ThreadFlags, params.lanes)
        super().__init__({
            "warp_read": In(WarpRead(params, WarpFlags)),
            "read": In(FlagRead(params)),
            "write": In(FlagWrite(params)),
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
        warp = self.warp_read.warp
        flags = self.warp_read.value
        stored = self._of_warps.read(m, warp)
        stale = self._stale[warp]
        m.d.comb += flags.live.eq(
            Cat(beat_is_live.replicate(self._params.lanes) for beat_is_live in ~stale))
        for number, mask in enumerate(flags.predicates):
            m.d.comb += mask.eq(
                Cat(stored[thread].predicates[number] for thread in range(WARP_THREADS)))
        for thread, condition in enumerate(flags.conditions):
            m.d.comb += condition.eq(stored[thread].condition)

    def _read_beat(self, m: Module) -> None:
        """The flags of a beat. The marks of its warp are read with the first beat, and held for the
        other beats, with the writes of these cycles applied."""
        beats = self._params.beats
        write = self.write
        place = self.read.place
        is_first = self.read.is_first
        marks_of_warp = self._stale[self.warp_read.warp]
        marks = Signal(beats)
        current_marks = Mux(is_first, marks_of_warp, marks)
        writes_same_warp = self._touched.any() & (write.place.warp == place.warp)
        m.d.sync += marks.eq(
            current_marks & ~one_hot(write.place.beat, beats, writes_same_warp))

        is_stale = Mux(is_first, marks_of_warp[0], marks.bit_select(place.beat, 1))
        stored = self._of_beats.read_port(domain="comb")
        m.d.comb += stored.addr.eq(place)
        m.d.comb += self.read.flags.eq(_zero_if(is_stale, stored.data))

    def _apply_write(self, m: Module) -> None:
        """The flags of the beat in ``write`` after the write."""
        write = self.write
        place = write.place
        m.d.comb += self._writes_stale.eq(self._stale[place.warp].bit_select(place.beat, 1))
        old = self._of_beats.read_port(domain="comb")
        m.d.comb += old.addr.eq(place)
        for lane, after in enumerate(write.after):
            before = data.View(ThreadFlags, _zero_if(self._writes_stale, old.data[lane]))
            written = write.predicates_written[lane]
            m.d.comb += after.eq(struct_value(
                ThreadFlags,
                predicates=(
                    (before.predicates & ~written) | (write.predicates[lane] & written)),
                condition=Mux(
                    write.conditional[lane],
                    write.conditions[lane].as_value(),
                    before.condition.as_value())))
            m.d.comb += self._touched[lane].eq(written.any() | write.conditional[lane])

    def _store(self, m: Module) -> None:
        """All flags of a thread share a write enable, so all of them are written, with new or old
        values. In a stale beat all lanes are written."""
        lanes = self._params.lanes
        beats = self._params.beats
        place = self.write.place
        all_lanes = self._touched.any() & self._writes_stale
        enable = self._touched | all_lanes.replicate(lanes)
        of_beat = self._of_beats.write_port(granularity=1)
        m.d.comb += of_beat.addr.eq(place)
        m.d.comb += of_beat.data.eq(self.write.after)
        m.d.comb += of_beat.en.eq(enable)

        of_warp = self._of_warps.write_port(granularity=1)
        m.d.comb += of_warp.addr.eq(place.warp)
        m.d.comb += of_warp.data.eq(self.write.after.as_value().replicate(beats))
        m.d.comb += of_warp.en.eq(
            Cat(enable & (place.beat == number).replicate(lanes) for number in range(beats)))

    def _mark(self, m: Module) -> None:
        """A launch sets the marks of all beats of its warp, a write clears that of its beat. The
        launch has priority."""
        place = self.write.place
        with m.If(self._touched.any()):
            m.d.sync += self._stale[place.warp].bit_select(place.beat, 1).eq(0)
        with m.If(self.launch.valid):
            m.d.sync += self._stale[self.launch.payload.warp].eq(~0)


def _zero_if(condition: Value, view: Any) -> Value:
    """A view's bits, 0 where the condition holds."""
    value = view.as_value()
    return value & (~condition).replicate(len(value))
