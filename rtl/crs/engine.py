"""The spill and fill engine: looks at one warp after the other, and decides what moves between cache and memory."""

from typing import Any

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, enum
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.tokens import CRS_GRANULE, LINE_BYTES, TOKENS_PER_LINE
from rtl.layouts import BLOCK_ADDRESS_BITS, DEPTH_BITS, LINE_BITS
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
    EnginePort,
    Parking,
)
from .states import StackStates

__all__ = ["SpillFillEngine"]

_LINES_PER_GRANULE_BITS = (CRS_GRANULE // LINE_BYTES - 1).bit_length()
_WRITES = 7
"""Lines of a warp that may be on their way to memory: they are counted modulo 8."""


class _State(enum.Enum, shape=2):
    """What the engine does."""

    SELECT = 0
    """A warp is chosen: that whose line has come, else one that has a hint."""
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
_ACTIONS = data.StructLayout(dict.fromkeys((
    "discard", "fail", "install", "spill", "wake", "ask", "poll", "flush"), 1))
"""What is to be done: a line that has come is thrown away (``discard``), an error that an operation has waited for
(``fail``), or put in (``install``); or lines go to memory (``spill``); or an operation returns into the pipeline
(``wake``), a line is asked for (``ask``), or both; or lines would go to memory if more writes might be on their way
(``poll``). That may be the end of a write-back, but for memory's confirmation (``flush``)."""


class SpillFillEngine(Component):
    """A visit to a warp takes four cycles. Meanwhile pushes and unwinds go on: by them neither the line below those on
    chip changes, nor the oldest dirty line as long as another one is dirty. If something else changes they are given
    up.

    Members
    -------
    pipeline : In(EnginePort)
    lines : Out(LinePort)
    """

    def __init__(self, params: SmParams, states: StackStates) -> None:
        self._states, self._warps = states, params.warps
        super().__init__({"pipeline": In(EnginePort(params)), "lines": Out(LinePort(params))})
        self.warp = Signal(params.warp_bits)
        """Who is looked at."""
        self.stale = Signal(params.warps)
        """Whose line that is on its way is of no use any more."""
        self._view: Any = Signal(_VIEW)
        self._confirmed = Signal()
        """Memory takes the last line of a write-back."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._look(m)
        self._count(m)
        states, view, lines, back, job, confirmed = (
            self._states, self._view, self.lines, self.pipeline.again, self.lines.job.payload, self._confirmed)
        change, commit, again_free = self.pipeline.change, self.pipeline.commit, self.pipeline.again_free
        state, arrival, actions = Signal(_State), Signal(), Signal(_ACTIONS)

        # What is to be done.
        some, over, flushes, waits = (Signal(name=name) for name in ("some", "over", "flushes", "waits"))
        number, more, keep = Signal(LINE_BITS), Signal(SLOT_BITS), Signal(TOKENS_PER_LINE)
        useless = view.stale | Mux(lines.error, ~view.parked, view.lines > FILLS_UP_TO)
        m.d.comb += [
            flushes.eq(view.flushing | (view.parked & (view.parking == Parking.SINK))),
            waits.eq(view.flushing | view.parked),
            some.eq(view.memory & Mux(waits, flushes & (view.dirty != 0), view.dirty >= SPILLS_FROM)),
            over.eq(waits & Mux(flushes, ~view.memory | ((view.dirty == 0) & ~view.leaving & (
                ~view.flushing | (view.writes == 0))), view.lines != 0))]
        with m.If(state == _State.DECIDE):
            m.d.sync += [
                actions.discard.eq(arrival & useless), actions.fail.eq(arrival & ~useless & lines.error),
                actions.install.eq(arrival & ~useless & ~lines.error),
                actions.spill.eq(~arrival & some & (
                    view.writes <= Mux(flushes, _WRITES - CACHED_LINES, _WRITES - 1))),
                actions.flush.eq(view.flushing), actions.poll.eq(some), actions.wake.eq(~arrival & over & ~some),
                actions.ask.eq(view.memory & ~flushes & ~view.filling & (view.lines <= FILLS_UP_TO) & ~some & ~arrival),
                more.eq(Mux(flushes, view.dirty - 1, 0)),
                keep.eq(Cat((view.last[:PLACE_BITS] >= place) | ~flushes for place in range(TOKENS_PER_LINE))),
                number.eq(view.last[PLACE_BITS:] - Mux(some & ~arrival, view.dirty - 1, view.lines))]

        # Whether the warp's commit, or a line that it begins, makes that wrong.
        stirred, lowered, later, given_up = Signal(), Signal(), Signal(), Signal()
        visits, commits = state != _State.SELECT, commit.warp == self.warp
        disturbed = change.begins_line & (change.warp == self.warp)
        m.d.sync += [
            stirred.eq(visits & commits & commit.stirs), lowered.eq(visits & (lowered | (commits & commit.lowers))),
            lines.lowered.valid.eq(commit.lowers), lines.lowered.payload.eq(commit.warp)]
        m.d.comb += given_up.eq(visits & (stirred | ((state == _State.ACT) & actions.spill & lowered)))

        # It is done.
        acts, free, blocks = Signal(), again_free & ~confirmed, ~lines.free & ~lines.arrived.valid
        fills, returns, confirms = Signal(), Signal(), Signal()
        serves = ~(arrival | actions.spill)
        m.d.comb += [
            acts.eq((state == _State.ACT) & ~given_up), fills.eq(actions.ask & ~number[-1]),
            lines.install.eq(acts & actions.install), lines.job.valid.eq(acts & (actions.spill | fills) & lines.free),
            lines.consumed.eq((acts & (actions.discard | (actions.fail & free))) | lines.installed),
            returns.eq(free & ((acts & (actions.fail | actions.wake))
                               | (lines.installed & view.parked & ~flushes))),
            confirms.eq(acts & actions.flush & Mux(
                actions.spill, lines.free, serves & ~actions.poll & ~actions.wake)),
            later.eq(given_up | (acts & ((actions.discard & ~lines.error) | (actions.spill & ~blocks) | (serves & (
                actions.poll | (fills & ~lines.free) | (actions.wake & ~free)))))),
            job.warp.eq(self.warp), job.spill.eq(actions.spill), job.slot.eq(number), job.more.eq(more),
            job.keep.eq(keep), job.cleaned.eq(view.next_cleaned),
            job.address.eq(Cat(Const(0, _LINES_PER_GRANULE_BITS), view.region) + number),
            lines.slot.eq(Cat(number[:SLOT_BITS], self.warp)),
            self.pipeline.waking.eq(((state == _State.ACT) & (actions.wake | arrival)) | confirmed),
            back.valid.eq(returns | (confirmed & again_free)),
            back.payload.warp.eq(Mux(confirmed, lines.acknowledged.payload, self.warp)),
            back.payload.parking.eq(Mux(confirmed | view.flushing, Parking.WRITE_BACK, view.parking)),
            back.payload.fault.eq(actions.fail & ~confirmed)]
        asks = lines.job.valid & ~actions.spill
        states.below.write(m, lines.installed, self.warp, view.below - 1)
        states.filling.write(m, asks | lines.consumed, self.warp, asks)

        # The next step of the visit. A line that is in may be followed by another at once.
        looks = (state == _State.READ) & ~arrival & ~given_up
        hinted, chosen = self._choose(m, looks, later)
        self._remember(m, asks, confirms)
        with m.Switch(state):
            with m.Case(_State.SELECT):
                m.d.sync += [arrival.eq(lines.arrived.valid),
                             self.warp.eq(Mux(lines.arrived.valid, lines.arrived.payload, chosen))]
                with m.If(lines.arrived.valid | hinted):
                    m.d.sync += state.eq(_State.READ)
            with m.Case(_State.READ):
                m.d.sync += state.eq(_State.DECIDE)
            with m.Case(_State.DECIDE):
                m.d.sync += state.eq(_State.ACT)
            with m.Case(_State.ACT):
                with m.If(lines.installed):
                    m.d.sync += [state.eq(_State.READ), arrival.eq(0)]
                with m.Elif(~((actions.install & ~disturbed) | (actions.spill & blocks))):
                    m.d.sync += state.eq(_State.SELECT)
        with m.If(given_up):
            m.d.sync += state.eq(_State.SELECT)
        m.d.sync += [Assert(~lines.consumed | view.filling, "a line has come that nobody asked for"),
                     Assert(~back.valid | states.parked.read(m, back.payload.warp)
                            | states.flushing.read(m, back.payload.warp),
                            "an operation comes back that is not parked")]
        return m

    def _look(self, m: Module) -> None:
        """Reads the words of the warp that is looked at."""
        lines, states, view = self.lines, self._states, self._view
        state, below, cleaned, acknowledged, filling, parking, parked, flushing, region, sizes = (
            words.read(m, self.warp) for words in (
                states.states, states.below, states.cleaned, states.acknowledged, states.filling, states.parking,
                states.parked, states.flushing, states.regions, states.sizes))
        leaving = Mux(lines.leaving_warp == self.warp, lines.leaving, 0)
        m.d.sync += [
            view.last.eq(state.last), view.lines.eq(state.entered - below), view.below.eq(below),
            view.dirty.eq(state.dirtied - cleaned - leaving), view.leaving.eq(leaving != 0),
            view.next_cleaned.eq(cleaned + leaving + 1), view.writes.eq(cleaned + leaving - acknowledged),
            view.parked.eq(parked), view.parking.eq(parking), view.flushing.eq(flushing), view.filling.eq(filling),
            view.stale.eq(self.stale.bit_select(self.warp, 1)), view.region.eq(region),
            view.memory.eq(sizes.memory)]

    def _count(self, m: Module) -> None:
        """Counts lines that have gone to memory, and those that memory has taken. A write-back is over with the last
        one of a warp that has given it all."""
        lines, states, commit, told, left = (
            self.lines, self._states, self.pipeline.commit, self.lines.acknowledged, self.lines.left)
        count, given = (words.read(m, told.payload) for words in (states.acknowledged, states.cleaned))
        next_count = Signal(COUNT_BITS)
        m.d.comb += [
            next_count.eq(count + 1),
            self._confirmed.eq(told.valid & states.confirming.read(m, told.payload) & (next_count == given)
                               & ((lines.leaving == 0) | (lines.leaving_warp != told.payload))),
            self.pipeline.below.eq(Mux(lines.installed & (self.warp == commit.warp), self._view.below - 1,
                              states.below.read(m, commit.warp))),
            self.pipeline.cleaned.eq(Mux(left.valid & (left.payload == commit.warp), lines.cleaned,
                                states.cleaned.read(m, commit.warp)))]
        states.cleaned.write(m, left.valid, left.payload, lines.cleaned)
        states.acknowledged.write(m, told.valid, told.payload, next_count)
        m.d.sync += Assert(~told.valid | (count != given), "memory has taken a line that nobody wrote")

    def _remember(self, m: Module, asks: Any, confirms: Any) -> None:
        """What operations wait for."""
        states, change, commit, back = (
            self._states, self.pipeline.change, self.pipeline.commit, self.pipeline.again)
        told, spilled, size, full = self.lines.acknowledged, self.lines.spilled, self._warps, self.pipeline.full
        states.parking.write(m, commit.parks, commit.warp, commit.parking)
        # One that waits for memory's last confirmation may get it in this very cycle.
        confirms &= states.flushing.read(m, self.warp) & ~(self._confirmed & (told.payload == self.warp))
        for flag, sets, warp in ((states.parked, commit.parks, commit.warp),
                                 (states.flushing, change.flushes, change.warp),
                                 (states.confirming, confirms, self.warp)):
            flag.write(m, sets, warp, 1)
            flag.write(m, back.valid, back.payload.warp, 0)
        m.d.sync += [
            self.stale.eq((self.stale & ~one_hot(self.warp, size, asks)) | one_hot(change.warp, size, change.drops)
                          | one_hot(commit.warp, size, commit.empties)),
            full.eq((full | one_hot(change.warp, size, change.fills)) & ~one_hot(commit.warp, size, commit.writes)
                    & ~one_hot(spilled.payload.warp, size, spilled.valid & spilled.payload.done))]

    def _choose(self, m: Module, looks: Any, later: Any) -> tuple[Any, Any]:
        """Whether a warp has a hint, and which is next: first those that are urgent. Of two each bit of their numbers
        is preferred in turn, so that none waits for ever."""
        lines, states, change, commit, size = (
            self.lines, self._states, self.pipeline.change, self.pipeline.commit, self._warps)
        told, spilled = lines.acknowledged, lines.spilled
        hints, urgent, some_urgent, turn = Signal(size), Signal(size), Signal(), Signal.like(self.warp)
        kept, urges = ~one_hot(self.warp, size, looks), change.spills | change.flushes | change.lacks
        m.d.sync += [
            turn.eq(turn + looks), some_urgent.eq(urges | (urgent & kept).any()),
            urgent.eq((urgent & kept) | one_hot(change.warp, size, urges)),
            hints.eq((hints & kept) | one_hot(self.warp, size, later)
                     | one_hot(commit.warp, size, commit.lacks | commit.parks)
                     | one_hot(spilled.payload.warp, size, spilled.valid & (
                         ~spilled.payload.done | states.parked.read(m, spilled.payload.warp)))
                     | one_hot(told.payload, size, told.valid & states.flushing.read(m, told.payload)))]

        def search(candidates: Any, bit: int) -> tuple[Any, Any]:
            """Whether there are any, and the number of one."""
            if bit < 0:
                return candidates[0], Const(0, 0)
            if len(candidates) <= 1 << bit:
                return search(candidates, bit - 1)
            (some_low, low), (some_high, high) = (
                search(half, bit - 1) for half in (candidates[:1 << bit], candidates[1 << bit:]))
            ahead = some_high & (turn[bit] | ~some_low)
            return some_low | some_high, Cat(Mux(ahead, high, low), ahead)
        return search(Mux(some_urgent, urgent, hints), len(turn) - 1)
