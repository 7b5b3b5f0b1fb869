"""The spill and fill engine: looks at one warp after the other, and decides what moves between cache and memory."""

from typing import Any

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, enum
from amaranth.lib.wiring import In, Out

from rtl.arbiter import lowest
from rtl.component import Component
from rtl.isa.tokens import CRS_GRANULE, LINE_BYTES, TOKENS_PER_LINE
from rtl.layouts import BLOCK_ADDRESS_BITS, DEPTH_BITS, LINE_BITS, Event
from rtl.one_hot import one_hot
from rtl.params import SmParams

from .lines import LinePort
from .records import (
    CACHED_LINES,
    COUNT_BITS,
    FILLS_UP_TO,
    PLACE_BITS,
    SLOT_BITS,
    SPILLS_FROM,
    Counters,
    Parking,
    StackState,
    again,
    change_flags,
    commit_flags,
)
from .words import add_words, make_words, read, write

__all__ = ["SpillFillEngine"]

_LINES_PER_GRANULE_BITS = (CRS_GRANULE // LINE_BYTES - 1).bit_length()
_WRITES = 7
"""Lines of a warp that may be on their way to memory: they are counted modulo 8."""


class _State(enum.Enum, shape=2):
    """What the engine does."""

    SELECT = 0
    """A warp is chosen: that whose line has come, else the next that has a hint."""
    READ = 1
    """Its words are read."""
    DECIDE = 2
    ACT = 3


_VIEW = data.StructLayout({
    "last": DEPTH_BITS, "lines": COUNT_BITS, "dirty": COUNT_BITS, "below": COUNT_BITS, "next_cleaned": COUNT_BITS,
    "leaving": 1, "writes": COUNT_BITS, "parked": 1, "flushing": 1, "parking": Parking, "memory": 1, "filling": 1,
    "stale": 1, "region": BLOCK_ADDRESS_BITS})
"""A warp, as it is read: ``lines`` on chip, ``dirty`` ones that are not about to be written; what ``cleaned`` is when
the next line is written; some are about to be (``leaving``); ``writes`` are on their way to memory, or about to be."""


class SpillFillEngine(Component):
    """A visit to a warp takes four cycles. Meanwhile pushes and unwinds go on: by them neither the line below those on
    chip changes, nor the oldest dirty line as long as another one is dirty. If something else changes they are given
    up.

    Members
    -------
    warp, state, memory, region : Out, In(StackState), In(1), In(BLOCK_ADDRESS_BITS)
        Who is looked at.
    change, commit : In(change_flags), In(commit_flags)
        What happens in this cycle.
    read_warp, counters : In, Out(Counters)
        Those of another warp.
    left_below, left_cleaned : Out(COUNT_BITS), Out(COUNT_BITS)
        The counters of the warp of ``commit``, as they are with what is written in this cycle.
    again, again_free, waking : Out(Event(again)), In(1), Out(1)
        An operation comes back into the pipeline; ``waking``: perhaps in this cycle, nobody else may.
    lines : Out(LinePort)
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        bits = params.warp_bits
        super().__init__({
            "warp": Out(bits), "state": In(StackState), "memory": In(1), "region": In(BLOCK_ADDRESS_BITS),
            "change": In(change_flags(params)), "commit": In(commit_flags(params)), "read_warp": In(bits),
            "counters": Out(Counters), "left_below": Out(COUNT_BITS),
            "left_cleaned": Out(COUNT_BITS), "again": Out(Event(again(params))), "again_free": In(1),
            "waking": Out(1), "lines": Out(LinePort(params))})
        self.words = make_words(params.warps, below=COUNT_BITS, cleaned=COUNT_BITS, acknowledged=COUNT_BITS, filling=1,
                                parking=Parking)
        self.hints, self.urgent, self.parked, self.flushing, self.confirming, self.stale = (
            Signal(params.warps, name=name)
            for name in ("hints", "urgent", "parked", "flushing", "confirming", "stale"))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        view: Any = Signal(_VIEW)
        asks, confirmed = Signal(), Signal()
        self._read(m, view, confirmed)
        lines, back, job = self.lines, self.again, self.lines.job.payload
        state, arrival = Signal(_State), Signal()

        # What is to be done: lines to memory; or a return into the pipeline, a fill, or both.
        spill, wake, ask, poll = (Signal(name=name) for name in ("spill", "wake", "ask", "poll"))
        some, over, low, flushes, waits = (Signal(name=name) for name in ("some", "over", "low", "flushes", "waits"))
        number, more, keep = Signal(LINE_BITS), Signal(SLOT_BITS), Signal(TOKENS_PER_LINE)
        m.d.comb += [
            flushes.eq(view.flushing | (view.parked & (view.parking == Parking.SINK))),
            waits.eq(view.flushing | view.parked),
            some.eq(view.memory & Mux(waits, flushes & (view.dirty != 0), view.dirty >= SPILLS_FROM)),
            over.eq(waits & Mux(flushes, ~view.memory | ((view.dirty == 0) & ~view.leaving & (
                ~view.flushing | (view.writes == 0))), view.lines != 0)),
            low.eq(view.memory & ~flushes & ~view.filling & (view.lines <= FILLS_UP_TO))]
        with m.If(state == _State.DECIDE):
            m.d.sync += [
                spill.eq(some & (view.writes <= Mux(flushes, _WRITES - CACHED_LINES, _WRITES - 1))), poll.eq(some),
                wake.eq(over & ~some), ask.eq(low & ~some), more.eq(Mux(flushes, view.dirty - 1, 0)),
                keep.eq(Cat((view.last[:PLACE_BITS] >= place) | ~flushes for place in range(TOKENS_PER_LINE))),
                number.eq(view.last[PLACE_BITS:] - Mux(some & ~arrival, view.dirty - 1, view.lines))]
        m.d.comb += [
            job.warp.eq(self.warp), job.spill.eq(spill), job.slot.eq(number), job.more.eq(more), job.keep.eq(keep),
            job.address.eq(Cat(Const(0, _LINES_PER_GRANULE_BITS), view.region) + number),
            job.cleaned.eq(view.next_cleaned), lines.slot.eq(Cat(number[:SLOT_BITS], self.warp)),
            self.waking.eq(((state == _State.ACT) & (wake | arrival)) | confirmed),
            back.payload.warp.eq(Mux(confirmed, lines.acknowledged.payload, self.warp)),
            back.payload.parking.eq(Mux(confirmed | view.flushing, Parking.WRITE_BACK, view.parking)),
            back.payload.fault.eq(arrival & lines.error & ~confirmed)]
        write(m, self.words["below"], lines.installed, self.warp, view.below - 1)
        write(m, self.words["filling"], asks | lines.consumed, self.warp, asks)

        # A line that has come is put in, thrown away, or is an error that an operation has waited for. What else was
        # decided is given up if the warp's commit, or a line that it begins, makes it wrong.
        free = self.again_free & ~confirmed
        useless = Signal()
        disturbed = self.change.begins_line & (self.change.warp == self.warp)
        looks, later, returns, confirms = (Signal(name=name) for name in ("looks", "later", "returns", "confirms"))
        stirred, lowers, lowered = Signal(), Signal(), Signal()
        commit, lately = self.commit, lines.lowered.payload == self.warp
        m.d.sync += [useless.eq(view.stale | Mux(lines.error, ~view.parked, view.lines > FILLS_UP_TO)),
                     stirred.eq(commit.stirs), lines.lowered.valid.eq(commit.lowers),
                     lines.lowered.payload.eq(commit.warp), lowered.eq((state != _State.SELECT) & lowers)]
        later_warps = Signal.like(self.hints)
        m.d.sync += later_warps.eq(Cat(self.warp < place for place in range(len(later_warps))))
        m.d.comb += lowers.eq(lowered | (lines.lowered.valid & lately))
        with m.If((state != _State.SELECT) & ((stirred & lately) | (
                (state == _State.ACT) & ~arrival & spill & lowers))):
            m.d.sync += state.eq(_State.SELECT)
            m.d.comb += later.eq(1)
        with m.Else(), m.Switch(state):
            with m.Case(_State.SELECT):
                chosen = lowest(self.hints)
                for hints in (self.hints & later_warps, self.urgent, self.urgent & later_warps):
                    chosen = Mux(hints.any(), lowest(hints), chosen)
                m.d.sync += [arrival.eq(lines.arrived.valid),
                             self.warp.eq(Mux(lines.arrived.valid, lines.arrived.payload, chosen))]
                with m.If(lines.arrived.valid | self.hints.any() | self.urgent.any()):
                    m.d.sync += state.eq(_State.READ)
            with m.Case(_State.READ):
                m.d.comb += looks.eq(~arrival)
                m.d.sync += state.eq(_State.DECIDE)
            with m.Case(_State.DECIDE):
                m.d.sync += state.eq(_State.ACT)
            with m.Case(_State.ACT):
                m.d.sync += state.eq(_State.SELECT)
                with m.If(arrival & useless):
                    m.d.comb += [lines.consumed.eq(1), later.eq(~lines.error)]
                with m.Elif(arrival & lines.error):
                    m.d.comb += [lines.consumed.eq(free), returns.eq(free)]
                with m.Elif(arrival):
                    m.d.comb += [lines.install.eq(1), lines.consumed.eq(lines.installed),
                                 returns.eq(lines.installed & view.parked & ~flushes & free)]
                    with m.If(lines.installed):
                        m.d.sync += [state.eq(_State.READ), arrival.eq(0)]
                    with m.Elif(~disturbed):
                        m.d.sync += state.eq(_State.ACT)
                with m.Elif(spill):
                    m.d.comb += [lines.job.valid.eq(lines.free), confirms.eq(view.flushing & lines.free),
                                 later.eq(lines.free | lines.arrived.valid)]
                    with m.If(~lines.free & ~lines.arrived.valid):
                        m.d.sync += state.eq(_State.ACT)
                with m.Else():
                    fills = ask & ~number[-1]
                    m.d.comb += [
                        asks.eq(fills & lines.free), lines.job.valid.eq(asks), returns.eq(wake & free),
                        confirms.eq(view.flushing & ~poll & ~wake),
                        later.eq(poll | (fills & ~lines.free) | (wake & ~free))]
        m.d.comb += back.valid.eq(returns | (confirmed & self.again_free))
        m.d.sync += [Assert(~lines.consumed | view.filling, "a line has come that nobody asked for"),
                     Assert(~back.valid | (self.parked | self.flushing).bit_select(back.payload.warp, 1),
                            "an operation comes back that is not parked")]

        # What is known of all warps at once.
        change, told, spilled, size = self.change, lines.acknowledged, lines.spilled, len(self.hints)
        kept = ~one_hot(self.warp, size, looks)
        left_alone = ~one_hot(back.payload.warp, size, back.valid)
        m.d.sync += [
            self.parked.eq((self.parked | one_hot(commit.warp, size, commit.parks)) & left_alone),
            self.flushing.eq((self.flushing | one_hot(change.warp, size, change.flushes)) & left_alone),
            self.confirming.eq((self.confirming | one_hot(self.warp, size, confirms)) & self.flushing & left_alone),
            self.stale.eq((self.stale & ~one_hot(self.warp, size, asks)) | one_hot(change.warp, size, change.drops)
                          | one_hot(commit.warp, size, commit.empties)),
            self.urgent.eq((self.urgent & kept) | one_hot(change.warp, size, change.spills | change.flushes)),
            self.hints.eq((self.hints & kept) | one_hot(self.warp, size, later)
                          | one_hot(commit.warp, size, commit.lacks | commit.parks)
                          | (one_hot(spilled.payload.warp, size, spilled.valid)
                             & (self.parked | (~spilled.payload.done).replicate(size)))
                          | (self.flushing & one_hot(told.payload, size, told.valid)))]
        return m

    def _read(self, m: Module, view: Any, confirmed: Signal) -> None:
        """Reads the words of the warp that is looked at, and those of others."""
        lines, words = self.lines, self.words
        add_words(m, words)
        below, cleaned, acknowledged = (
            read(m, words[name], self.warp) for name in ("below", "cleaned", "acknowledged"))
        leaving = Mux(lines.leaving_warp == self.warp, lines.leaving, 0)
        m.d.sync += [
            view.last.eq(self.state.last), view.lines.eq(self.state.entered - below),
            view.dirty.eq(self.state.dirtied - cleaned - leaving), view.leaving.eq(leaving != 0), view.below.eq(below),
            view.next_cleaned.eq(cleaned + leaving + 1), view.writes.eq(cleaned + leaving - acknowledged),
            view.parked.eq(self.parked.bit_select(self.warp, 1)), view.parking.eq(read(m, words["parking"], self.warp)),
            view.flushing.eq(self.flushing.bit_select(self.warp, 1)), view.memory.eq(self.memory),
            view.filling.eq(read(m, words["filling"], self.warp)),
            view.stale.eq(self.stale.bit_select(self.warp, 1)), view.region.eq(self.region)]

        # Of others. A write-back is over when memory confirms the last line of a warp that has given it all.
        told, left, commit = lines.acknowledged, lines.left, self.commit
        count, given = read(m, words["acknowledged"], told.payload), read(m, words["cleaned"], told.payload)
        next_count = Signal(COUNT_BITS)
        m.d.comb += [
            self.counters.below.eq(read(m, words["below"], self.read_warp)),
            self.counters.cleaned.eq(read(m, words["cleaned"], self.read_warp)),
            self.counters.written.eq(self.counters.cleaned == read(m, words["acknowledged"], self.read_warp)),
            self.left_below.eq(Mux(lines.installed & (self.warp == commit.warp), view.below - 1,
                                   read(m, words["below"], commit.warp))),
            self.left_cleaned.eq(Mux(left.valid & (left.payload == commit.warp), lines.cleaned,
                                     read(m, words["cleaned"], commit.warp))),
            next_count.eq(count + 1),
            confirmed.eq(told.valid & self.confirming.bit_select(told.payload, 1) & (next_count == given)
                         & ((lines.leaving == 0) | (lines.leaving_warp != told.payload)))]
        write(m, words["cleaned"], left.valid, left.payload, lines.cleaned)
        write(m, words["parking"], commit.parks, commit.warp, commit.parking)
        write(m, words["acknowledged"], told.valid, told.payload, next_count)
        m.d.sync += Assert(~told.valid | (count != given), "memory has taken a line that nobody wrote")
