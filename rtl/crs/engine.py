"""The spill and fill engine: looks at one warp after the other, and decides what moves between cache and memory."""

from typing import Any

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, enum, memory
from amaranth.lib.wiring import In, Out

from rtl.arbiter import lowest
from rtl.component import Component
from rtl.isa.tokens import CRS_GRANULE, LINE_BYTES, TOKENS_PER_LINE
from rtl.layouts import BLOCK_ADDRESS_BITS, DEPTH_BITS, LINE_BITS, Event
from rtl.params import LINE_ADDRESS_BITS, SmParams

from .flags import engine_flags
from .records import COUNT_BITS, FILLS_UP_TO, SLOT_BITS, SPILLS_FROM, Parking, StackState, again

__all__ = ["SpillFillEngine", "line_job"]

_LINES_PER_GRANULE_BITS = (CRS_GRANULE // LINE_BYTES - 1).bit_length()
_WRITES = 6
"""Lines of a warp on their way to memory, from which on no further one follows: two more may be under way before that
is seen, and they are counted modulo 8."""


def line_job(params: SmParams) -> data.StructLayout:
    """A line to write or read: the tokens of it that are on the stack, its slot, what ``cleaned`` is when it is
    written."""
    return data.StructLayout({"warp": params.warp_bits, "spill": 1, "address": LINE_ADDRESS_BITS, "slot": SLOT_BITS,
                              "keep": TOKENS_PER_LINE, "cleaned": COUNT_BITS})


class _State(enum.Enum, shape=3):
    """What the engine does."""

    SELECT = 0
    """A warp is chosen: that whose line has come, else the next that has a hint."""
    READ = 1
    """Its words are read."""
    DECIDE = 2
    ACT = 3
    INSTALL = 4
    """A line that has come is written into the cache."""


class _View(data.Struct):
    """A warp, as it is read."""

    last: unsigned(DEPTH_BITS)
    lines: unsigned(COUNT_BITS)
    """On chip."""
    dirty: unsigned(COUNT_BITS)
    """Of those, and not about to be written."""
    below: unsigned(COUNT_BITS)
    next_cleaned: unsigned(COUNT_BITS)
    """What ``cleaned`` is when the next line is written."""
    leaving: unsigned(1)
    """One is about to be written."""
    writes: unsigned(COUNT_BITS)
    """Lines on their way to memory."""
    parked: unsigned(1)
    parking: Parking
    memory: unsigned(1)
    filling: unsigned(1)
    stale: unsigned(1)
    region: unsigned(BLOCK_ADDRESS_BITS)


class SpillFillEngine(Component):
    """A visit to a warp takes four cycles. Meanwhile pushes and unwinds go on: by them neither the line below those on
    chip changes, nor the oldest dirty line as long as another one is dirty. If something else changes they are given
    up.

    Members
    -------
    warp : Out
        Who is looked at.
    hints, urgent, parked, stale : In(warps)
        See WarpFlags.
    stirred, lowered : In(1), In(1)
        What StackCommit has said a cycle ago of the warp that is looked at.
    state, memory, region : In(StackState), In(1), In(BLOCK_ADDRESS_BITS)
        Of that warp.
    park, park_warp, parking : In(1), In, In(Parking)
        An operation is parked.
    read_warp, below, cleaned, read_parking : In, Out(COUNT_BITS), Out(COUNT_BITS), Out(Parking)
        The engine's words of another warp.
    left_warp, left_below, left_cleaned : In, Out(COUNT_BITS), Out(COUNT_BITS)
        Of a third one, as they are with what is written in this cycle.
    job, job_free, spilling, spilling_warp : Out(Event(line_job)), In(1), In(1), In
        What is to move; a line is on its way out of the cache.
    clean, clean_warp, cleaned_count : In(1), In, In(COUNT_BITS)
        That line is out.
    acknowledged : In(Event(warp))
        Memory has taken a line.
    arrived, arrived_warp, arrived_error, consumed : In(1), In, In(1), Out(1)
        A line has come, or cannot be read.
    install, install_slot, installed, disturbed : Out(1), Out, In(1), In(1)
        It is to be put into the cache; it is there with the end of this cycle; it is about to change its warp's window.
    again, again_free, waking : Out(Event(again)), In(1), Out(1)
        An operation comes back into the pipeline; ``waking``: perhaps in this cycle, nobody else may.
    flags : Out(engine_flags)
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        bits, warps = params.warp_bits, params.warps
        super().__init__({
            "warp": Out(bits), "hints": In(warps), "urgent": In(warps), "parked": In(warps), "stale": In(warps),
            "stirred": In(1), "lowered": In(1),
            "state": In(StackState), "memory": In(1), "region": In(BLOCK_ADDRESS_BITS),
            "park": In(1), "park_warp": In(bits), "parking": In(Parking),
            "read_warp": In(bits), "below": Out(COUNT_BITS), "cleaned": Out(COUNT_BITS), "read_parking": Out(Parking),
            "left_warp": In(bits), "left_below": Out(COUNT_BITS), "left_cleaned": Out(COUNT_BITS),
            "job": Out(Event(line_job(params))), "job_free": In(1), "spilling": In(1), "spilling_warp": In(bits),
            "clean": In(1), "clean_warp": In(bits), "cleaned_count": In(COUNT_BITS),
            "acknowledged": In(Event(bits)), "arrived": In(1), "arrived_warp": In(bits), "arrived_error": In(1),
            "consumed": Out(1), "install": Out(1), "install_slot": Out(SLOT_BITS), "installed": In(1),
            "disturbed": In(1),
            "again": Out(Event(again(params))), "again_free": In(1), "waking": Out(1),
            "flags": Out(engine_flags(params))})
        self.words = {name: memory.Memory(shape=shape, depth=warps, init=[]) for name, shape in (
            ("below", COUNT_BITS), ("cleaned", COUNT_BITS), ("acknowledged", COUNT_BITS), ("filling", 1),
            ("parking", Parking))}

    def elaborate(self, platform: object) -> Module:
        m = Module()
        view: Any = Signal(_View)
        state, arrival = Signal(_State), Signal()
        self._read(m, view)
        flags, job = self.flags, self.job.payload

        # What is to be done: a spill; or a return into the pipeline, a fill, or both.
        confirms = view.parking == Parking.WRITE_BACK
        flushes = view.parked & ((view.parking == Parking.SINK) | confirms)
        spill, wake, ask, poll = (Signal(name=name) for name in ("spill", "wake", "ask", "poll"))
        dirty, over, low = Signal(), Signal(), Signal()
        number, keep = Signal(LINE_BITS), Signal(TOKENS_PER_LINE)
        spills = dirty & (view.writes < _WRITES)
        next_number = (view.last[2:] - Mux(spills & ~arrival, view.dirty - 1, view.lines))[:LINE_BITS]
        m.d.comb += [
            dirty.eq(view.memory & Mux(view.parked, flushes & (view.dirty != 0), view.dirty >= SPILLS_FROM)),
            over.eq(view.parked & Mux(flushes, ~view.memory | ((view.dirty == 0) & ~view.leaving & (
                ~confirms | (view.writes == 0))), view.lines != 0)),
            low.eq(view.memory & ~flushes & ~view.filling & (view.lines <= FILLS_UP_TO))]
        m.d.sync += [
            spill.eq(spills), wake.eq(over & ~dirty), ask.eq(low & ~dirty),
            poll.eq(dirty), keep.eq(Mux(
                view.dirty == 1, Cat(view.last[:2] >= place for place in range(TOKENS_PER_LINE)), ~0))]
        with m.If(state == _State.DECIDE):
            m.d.sync += number.eq(next_number)
        m.d.comb += [
            job.warp.eq(self.warp), job.spill.eq(spill), job.slot.eq(number), job.keep.eq(keep),
            job.address.eq(Cat(Const(0, _LINES_PER_GRANULE_BITS), view.region) + number),
            job.cleaned.eq(view.next_cleaned), self.install_slot.eq(number), flags.warp.eq(self.warp),
            self.waking.eq((state == _State.ACT) & (wake | arrival)),
            flags.wakes.eq(self.again.valid), self.again.payload.warp.eq(self.warp),
            self.again.payload.parking.eq(view.parking), self.again.payload.fault.eq(arrival)]
        below, filling = self.words["below"].write_port(), self.words["filling"].write_port()
        m.d.comb += [
            below.addr.eq(self.warp), below.data.eq(view.below - 1), below.en.eq(self.installed),
            filling.addr.eq(self.warp), filling.en.eq(flags.asks | self.consumed), filling.data.eq(flags.asks)]

        # A line that has come is put in, thrown away, or is an error that an operation has waited for.
        useless = view.stale | Mux(self.arrived_error, ~view.parked | confirms, view.lines > FILLS_UP_TO)
        lowered = Signal()
        m.d.sync += lowered.eq((state != _State.SELECT) & (lowered | self.lowered))
        with m.If((state != _State.SELECT) & (self.stirred | ((state == _State.ACT) & ~arrival & spill & (
                lowered | self.lowered)))):
            m.d.sync += state.eq(_State.SELECT)
            m.d.comb += flags.again.eq(1)
        with m.Else(), m.Switch(state):
            with m.Case(_State.SELECT):
                hints = Signal.like(self.hints)
                later = Cat(hint & (self.warp < place) for place, hint in enumerate(hints))
                chosen = Mux(later.any(), lowest(later), lowest(hints))
                m.d.comb += hints.eq(Mux(self.urgent.any(), self.urgent, self.hints))
                m.d.sync += [arrival.eq(self.arrived), self.warp.eq(Mux(self.arrived, self.arrived_warp, chosen))]
                with m.If(self.arrived | hints.any()):
                    m.d.sync += state.eq(_State.READ)
            with m.Case(_State.READ):
                m.d.comb += flags.looks.eq(~arrival)
                m.d.sync += state.eq(_State.DECIDE)
            with m.Case(_State.DECIDE):
                m.d.sync += state.eq(_State.ACT)
            with m.Case(_State.ACT):
                m.d.sync += state.eq(_State.SELECT)
                with m.If(arrival & useless):
                    m.d.comb += [self.consumed.eq(1), flags.again.eq(~self.arrived_error)]
                with m.Elif(arrival & self.arrived_error):
                    m.d.comb += [self.consumed.eq(self.again_free), self.again.valid.eq(self.again_free)]
                with m.Elif(arrival):
                    m.d.sync += state.eq(_State.INSTALL)
                with m.Elif(spill):
                    m.d.comb += [self.job.valid.eq(self.job_free), flags.again.eq(self.job_free | self.arrived)]
                    with m.If(~self.job_free & ~self.arrived):
                        m.d.sync += state.eq(_State.ACT)
                with m.Else():
                    below_bottom = number[-1]
                    m.d.comb += [
                        flags.asks.eq(ask & ~below_bottom & self.job_free), self.job.valid.eq(flags.asks),
                        self.again.valid.eq(wake & self.again_free),
                        flags.again.eq(poll | (ask & ~below_bottom & ~self.job_free) | (wake & ~self.again_free))]
            with m.Case(_State.INSTALL):
                m.d.comb += [self.install.eq(1), self.consumed.eq(self.installed)]
                with m.If(self.installed):
                    m.d.sync += [state.eq(_State.READ), arrival.eq(0)]
                with m.Elif(self.disturbed):
                    m.d.sync += state.eq(_State.SELECT)
        m.d.sync += Assert(~self.consumed | view.filling, "a line has come that nobody asked for")
        return m

    def _read(self, m: Module, view: Any) -> None:
        """Reads the words of the warp that is looked at, and those of others."""
        for name, word in self.words.items():
            m.submodules[f"words_{name}"] = word

        def read(name: str, warp: Any) -> Any:
            port = self.words[name].read_port(domain="comb")
            m.d.comb += port.addr.eq(warp)
            return port.data

        below, cleaned, acknowledged = (read(name, self.warp) for name in ("below", "cleaned", "acknowledged"))
        leaves = self.spilling & (self.spilling_warp == self.warp)
        m.d.sync += [
            view.last.eq(self.state.last), view.lines.eq(self.state.entered - below),
            view.dirty.eq(self.state.dirtied - cleaned - leaves), view.leaving.eq(leaves), view.below.eq(below),
            view.next_cleaned.eq(cleaned + leaves + 1), view.writes.eq(cleaned - acknowledged),
            view.parked.eq(self.parked.bit_select(self.warp, 1)), view.parking.eq(read("parking", self.warp)),
            view.memory.eq(self.memory), view.filling.eq(read("filling", self.warp)),
            view.stale.eq(self.stale.bit_select(self.warp, 1)), view.region.eq(self.region)]
        m.d.comb += [self.below.eq(read("below", self.read_warp)), self.cleaned.eq(read("cleaned", self.read_warp)),
                     self.read_parking.eq(read("parking", self.read_warp)),
                     self.left_below.eq(Mux(self.installed & (self.warp == self.left_warp), view.below - 1,
                                            read("below", self.left_warp))),
                     self.left_cleaned.eq(Mux(self.clean & (self.clean_warp == self.left_warp), self.cleaned_count,
                                              read("cleaned", self.left_warp)))]

        cleans, parks, told = (self.words[name].write_port() for name in ("cleaned", "parking", "acknowledged"))
        taken = self.acknowledged.payload
        count = read("acknowledged", taken)
        m.d.comb += [
            cleans.en.eq(self.clean), cleans.addr.eq(self.clean_warp), cleans.data.eq(self.cleaned_count),
            parks.en.eq(self.park), parks.addr.eq(self.park_warp), parks.data.eq(self.parking),
            told.en.eq(self.acknowledged.valid), told.addr.eq(taken), told.data.eq(count + 1)]
        m.d.sync += Assert(~self.acknowledged.valid | (count != read("cleaned", taken)),
                           "memory has taken a line that nobody wrote")
