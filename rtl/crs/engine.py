"""The spill and fill engine: looks at one warp after the other, and decides what moves between cache and memory."""

from typing import Any

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, enum
from amaranth.lib.wiring import In, Out

from rtl.component import Component, members_of
from rtl.isa.tokens import CRS_GRANULE, LINE_BYTES, TOKENS_PER_LINE
from rtl.layouts import BLOCK_ADDRESS_BITS, DEPTH_BITS, LINE_BITS, Event
from rtl.one_hot import one_hot
from rtl.params import SmParams

from .lines import LineTransfer
from .records import Parking, StackStates, commit_flags, fills_up_to, spills_from
from .tokens import PLACE_BITS

__all__ = ["SpillFillEngine", "VisitStep"]

_LINES_PER_GRANULE_BITS = (CRS_GRANULE // LINE_BYTES - 1).bit_length()
_OF_LINES = ("tokens", "write_fault", "spill", "fill", "port")


class VisitStep(enum.Enum, shape=2):
    """A warp is chosen, that whose line has come, else one that has a hint; its words are read; what then."""

    SELECT = 0
    READ = 1
    DECIDE = 2
    ACT = 3


def _view(params: SmParams) -> data.StructLayout:
    """A warp, as it is read: ``lines`` on chip, ``dirty`` ones that are not about to be written; what ``cleaned`` is
    when the next line is written; some are about to be (``leaving``); ``writes`` are on their way to memory, or about
    to be."""
    count = params.stack_count_bits
    return data.StructLayout({
        "last": DEPTH_BITS, "lines": count, "dirty": count, "below": count, "next_cleaned": count, "leaving": 1,
        "writes": count, "parked": 1, "flushing": 1, "parking": Parking, "memory": 1, "filling": 1, "stale": 1,
        "region": BLOCK_ADDRESS_BITS})


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
    change : In(struct)
        From the second stage: a write-back is parked (``flushes``). A token that was pushed has made the last line that
        has room full, all others being dirty (``fills``); has taken the place of the lowest line (``drops``); is the
        first of its line (``begins_line``). It has left so many dirty lines that one is to be written to memory, or
        could not be pushed, since the topmost line is not on chip: that ``urges``, as a write-back does.
    commit : In(commit_flags)
    below, cleaned : Out
        The counters of the warp of ``commit``, as they are with what is written in this cycle.
    full : Out(warps)
        Whose lines are all dirty, and the last one full.
    again, again_free, waking : Out(Event(again)), In(1), Out(1)
        An operation comes back into the pipeline; ``waking``: perhaps in this cycle, nobody else may.
    tokens, write_fault, spill, fill, port
        See LineTransfer.
    """

    def __init__(self, params: SmParams, states: StackStates) -> None:
        self._states, self._params, self._warps = states, params, params.warps
        count = params.stack_count_bits
        self.lines = LineTransfer(params)
        super().__init__({
            "change": In(data.StructLayout({
                "warp": params.warp_bits, "flushes": 1, "fills": 1, "drops": 1, "begins_line": 1, "urges": 1})),
            "commit": In(commit_flags(params)), "below": Out(count), "cleaned": Out(count),
            "full": Out(params.warps), "again_free": In(1), "waking": Out(1),
            "again": Out(Event(data.StructLayout({"warp": params.warp_bits, "parking": Parking, "fault": 1}))),
            **members_of(self.lines, *_OF_LINES)})
        self.warp = Signal(params.warp_bits)
        """Who is looked at."""
        self.stale = Signal(params.warps)
        """Whose line that is on its way is of no use any more."""
        self._hints = Signal(params.warps, name="hints")
        """Who has something to look at."""
        self._urgent = Signal(params.warps, name="urgent")
        """Who is looked at before others."""
        self._view: Any = Signal(_view(params))
        self._confirmed = Signal()
        """Memory takes the last line of a write-back."""
        self._state, self._actions, self._arrival = Signal(VisitStep), Signal(_ACTIONS), Signal()
        """The step of the visit; what is to be done; whether that is for a line that has come."""
        self._stirred, self._popped, self._begun = (Signal(name=name) for name in ("stirred", "popped", "begun"))
        """What the warp's commits and pushes have done since the visit began."""
        self._number, self._more, self._keep = (
            Signal(bits, name=name) for name, bits in (
                ("number", LINE_BITS), ("more", params.stack_slot_bits), ("keep", TOKENS_PER_LINE)))
        """The line that moves, how many are written behind it, and which tokens of the last one are on the stack."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.lines = self.lines
        self.join(m, self.lines, *_OF_LINES)
        self._look(m)
        self._count(m)
        states, view, lines, back, job, confirmed = (
            self._states, self._view, self.lines, self.again, self.lines.job, self._confirmed)
        change, commit, arrived, installed = self.change, self.commit, lines.arrived, lines.install.valid
        state, arrival, actions = self._state, self._arrival, self._actions

        # What is to be done. As many lines may be on their way to memory as can be counted.
        few, most, all_lines = fills_up_to(self._params), (1 << len(view.writes)) - 1, self._params.stack_lines
        number, more, keep = self._number, self._more, self._keep
        flushes, waits = view.flushing | (view.parked & (view.parking == Parking.SINK)), view.flushing | view.parked
        some = view.memory & Mux(waits, flushes & (view.dirty != 0), view.dirty >= spills_from(self._params))
        over = waits & Mux(flushes, ~view.memory | ((view.dirty == 0) & ~view.leaving & (
            ~view.flushing | (view.writes == 0))), view.lines != 0)
        # A line that memory refuses fails no operation whose dirty lines are still to leave: it asks once more.
        useless = view.stale | Mux(arrived.payload.error, ~view.parked | flushes, view.lines > few)
        with m.If(state == VisitStep.DECIDE):
            m.d.sync += [
                actions.discard.eq(arrival & useless), actions.fail.eq(arrival & ~useless & arrived.payload.error),
                actions.install.eq(arrival & ~useless & ~arrived.payload.error),
                actions.spill.eq(~arrival & some & (
                    view.writes <= Mux(flushes, most - all_lines, most - 1))),
                actions.flush.eq(view.flushing), actions.poll.eq(some), actions.wake.eq(~arrival & over & ~some),
                actions.ask.eq(view.memory & ~flushes & ~view.filling & (view.lines <= few) & ~some & ~arrival),
                more.eq(Mux(flushes, view.dirty - 1, 0)),
                keep.eq(Cat((view.last[:PLACE_BITS] >= place) | ~flushes for place in range(TOKENS_PER_LINE))),
                number.eq(view.last[PLACE_BITS:] - Mux(some & ~arrival, view.dirty - 1, view.lines))]

        # Whether the warp's commit, or a line that it begins, makes that wrong. A line that is to be put in has its
        # place as long as no other one was begun since; lines to be written have others above them as long as nothing
        # was popped.
        stirred, popped, begun, later, given_up = self._stirred, self._popped, self._begun, Signal(), Signal()
        visits, commits = state != VisitStep.SELECT, commit.warp == self.warp
        disturbed = change.begins_line & (change.warp == self.warp)
        m.d.sync += [
            stirred.eq(visits & commits & commit.stirs), begun.eq(visits & (begun | disturbed)),
            popped.eq(visits & (popped | (commits & commit.writes))),
            lines.lowered.valid.eq(commit.lowers), lines.lowered.payload.eq(commit.warp)]
        m.d.comb += given_up.eq(visits & (stirred | ((state == VisitStep.ACT) & actions.spill & popped)))

        # It is done.
        acts, confirms = Signal(), Signal()
        free, blocks, asks = self.again_free & ~confirmed, ~lines.free & ~arrived.valid, job.valid & ~actions.spill
        fills, serves = actions.ask & ~number[-1], ~(arrival | actions.spill)
        m.d.comb += [
            acts.eq((state == VisitStep.ACT) & ~given_up),
            installed.eq(acts & actions.install & ~begun & lines.install_free),
            lines.install.payload.eq(Cat(number[:self._params.stack_slot_bits], self.warp)),
            job.valid.eq(acts & (actions.spill | fills) & lines.free),
            job.payload.warp.eq(self.warp), job.payload.spill.eq(actions.spill), job.payload.slot.eq(number),
            job.payload.more.eq(more), job.payload.keep.eq(keep), job.payload.cleaned.eq(view.next_cleaned),
            job.payload.address.eq(Cat(Const(0, _LINES_PER_GRANULE_BITS), view.region) + number),
            arrived.ready.eq((acts & (actions.discard | (actions.fail & free))) | installed),
            confirms.eq(acts & actions.flush & Mux(actions.spill, lines.free, serves & ~actions.poll & ~actions.wake)),
            # That memory refuses a line which is of no use says nothing of the line that an operation waits for.
            later.eq(given_up | (acts & (
                (actions.discard & (view.stale | ~arrived.payload.error)) | (actions.spill & ~blocks) | (serves & (
                    actions.poll | (fills & ~lines.free) | (actions.wake & ~free)))))),
            self.waking.eq(((state == VisitStep.ACT) & (actions.wake | arrival)) | confirmed),
            back.valid.eq((confirmed & self.again_free) | (free & (
                (acts & (actions.fail | actions.wake)) | (installed & view.parked & ~flushes)))),
            back.payload.warp.eq(Mux(confirmed, lines.acknowledged.payload, self.warp)),
            back.payload.parking.eq(Mux(confirmed | view.flushing, Parking.WRITE_BACK, view.parking)),
            back.payload.fault.eq(actions.fail & ~confirmed)]
        states.below.write(m, installed, self.warp, view.below - 1)
        states.filling.write(m, asks | arrived.ready, self.warp, asks)

        # The next step of the visit. A line that is in may be followed by another at once.
        looks = (state == VisitStep.READ) & ~arrival & ~given_up
        hinted, chosen = self._choose(m, looks, later)
        self._remember(m, asks, confirms)
        with m.Switch(state):
            with m.Case(VisitStep.SELECT):
                m.d.sync += [arrival.eq(arrived.valid), self.warp.eq(Mux(arrived.valid, arrived.payload.warp, chosen))]
                with m.If(arrived.valid | hinted):
                    m.d.sync += state.eq(VisitStep.READ)
            with m.Case(VisitStep.READ):
                m.d.sync += state.eq(VisitStep.DECIDE)
            with m.Case(VisitStep.DECIDE):
                m.d.sync += state.eq(VisitStep.ACT)
            with m.Case(VisitStep.ACT):
                with m.If(installed):
                    m.d.sync += [state.eq(VisitStep.READ), arrival.eq(0)]
                with m.Elif(~((actions.install & ~(begun | disturbed)) | (actions.spill & blocks))):
                    m.d.sync += state.eq(VisitStep.SELECT)
        with m.If(given_up):
            m.d.sync += state.eq(VisitStep.SELECT)
        waiting = states.parked.read(m, back.payload.warp) | states.flushing.read(m, back.payload.warp)
        m.d.sync += [Assert(~arrived.ready | view.filling, "a line has come that nobody asked for"),
                     Assert(~back.valid | waiting, "an operation comes back that is not parked")]
        return m

    def _look(self, m: Module) -> None:
        """Reads the words of the warp that is looked at."""
        leaving, states, view = self.lines.leaving, self._states, self._view
        state, below, cleaned, acknowledged, region, sizes = (words.read(m, self.warp) for words in (
            states.states, states.below, states.cleaned, states.acknowledged, states.regions, states.sizes))
        out = Mux(leaving.warp == self.warp, leaving.lines, 0)
        m.d.sync += [
            view.last.eq(state.last), view.lines.eq(state.entered - below), view.below.eq(below),
            view.dirty.eq(state.dirtied - cleaned - out), view.leaving.eq(out != 0),
            view.next_cleaned.eq(cleaned + out + 1), view.writes.eq(cleaned + out - acknowledged),
            *(view[name].eq(getattr(states, name).read(m, self.warp))
              for name in ("filling", "parking", "parked", "flushing")),
            view.stale.eq(self.stale.bit_select(self.warp, 1)), view.region.eq(region), view.memory.eq(sizes.memory)]

    def _count(self, m: Module) -> None:
        """Counts lines that have gone to memory, and those that memory has taken. A write-back is over with the last
        one of a warp that has given it all."""
        lines, states, told, left = self.lines, self._states, self.lines.acknowledged, self.lines.left
        count, given = (words.read(m, told.payload) for words in (states.acknowledged, states.cleaned))
        next_count, warp = Signal(self._params.stack_count_bits), self.commit.warp
        m.d.comb += [
            next_count.eq(count + 1),
            self._confirmed.eq(told.valid & states.confirming.read(m, told.payload) & (next_count == given)
                               & ((lines.leaving.lines == 0) | (lines.leaving.warp != told.payload))),
            self.below.eq(Mux(lines.install.valid & (self.warp == warp), self._view.below - 1,
                              states.below.read(m, warp))),
            self.cleaned.eq(Mux(left.valid & (left.payload.warp == warp), left.payload.cleaned,
                                states.cleaned.read(m, warp)))]
        states.cleaned.write(m, left.valid, left.payload.warp, left.payload.cleaned)
        states.acknowledged.write(m, told.valid, told.payload, next_count)
        m.d.sync += Assert(~told.valid | (count != given), "memory has taken a line that nobody wrote")

    def _remember(self, m: Module, asks: Any, confirms: Any) -> None:
        """What operations wait for."""
        states, change, commit, back, full, told, spilled, size = (
            self._states, self.change, self.commit, self.again, self.full, self.lines.acknowledged, self.lines.spilled,
            self._warps)
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
        states, change, commit, told, spilled, size = (
            self._states, self.change, self.commit, self.lines.acknowledged, self.lines.spilled, self._warps)
        hints, urgent, some_urgent, turn = self._hints, self._urgent, Signal(), Signal.like(self.warp)
        kept = ~one_hot(self.warp, size, looks)
        m.d.sync += [
            turn.eq(turn + looks), some_urgent.eq(change.urges | (urgent & kept).any()),
            urgent.eq((urgent & kept) | one_hot(change.warp, size, change.urges)),
            hints.eq((hints & kept) | one_hot(self.warp, size, later)
                     | one_hot(commit.warp, size, commit.lacks | commit.parks)
                     | one_hot(spilled.payload.warp, size,
                               spilled.valid & states.parked.read(m, spilled.payload.warp))
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
