"""What is counted of warps: scoreboards, instructions that are not complete."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Array, Assert, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component, pass_on
from rtl.dispatch_queue import DispatchQueue
from rtl.isa.control_code import NO_BARRIER, SCOREBOARDS
from rtl.layouts import Event, operands_read, scoreboard_event
from rtl.one_hot import one_hot
from rtl.params import SmParams
from rtl.sweep import Sweep
from rtl.words import Words

from .records import COMPLETE, COUNTER_BITS, TIME_BITS, counted

__all__ = ["Scoreboards"]

_FULL_BITS = 3
"""A counter is as good as full when its upper bits are ones."""
_PLACES, _UNDER_WAY = 16, 8
"""Of a queue of events; and those that may still come when it is full: from selection on."""
_TURN_BITS = 4
"""Of the time: in one of so many cycles neither queue is asked, and the next warp is looked at."""


class Scoreboards(Component):
    """Counts, for each warp, how often a scoreboard was raised and how often it was lowered, in two memories with one
    writer each; it is zero when they are equal. So are instructions that are not complete: they are lowered in two
    memories, by what passes the lanes and by others.

    One event a cycle lowers scoreboards (C1). Those of units go first, in the order of the units, each of which has a
    place: so few come of each that it is free in time. Events of the lanes, and then those of gathers, wait in a queue,
    and pass it in the same cycle if it is empty and no other goes first. If no event goes, a warp is looked at whose
    DEPBAR.LE may be satisfied: the one that has issued it or that the last event was of, or else each in turn. However
    many events wait, now and then none of them goes, so that the turn goes on. What a warp has issued until two cycles
    before counts; so who has issued since is not told that something is zero.

    Members
    -------
    time : In
    counted : In(Event of counted)
        Two cycles after its selection.
    lanes, gathered : In(Event of scoreboard_event), In(Event of operands_read)
        None may come any more 8 cycles after ``room`` is 0.
    units : In(array of Event of scoreboard_event)
    room : Out(1)
    lowered, zero : Out(1 bit a warp), Out(SCOREBOARDS)
        One warp, whose scoreboards of ``zero`` are zero.
    complete, low : Out(1 bit a warp)
        Everything of it is complete; its DEPBAR.LE is satisfied.
    full : Out(1 bit a warp)
        So many of its instructions are not complete that few more can be counted; so no scoreboard is ever full.
    """

    def __init__(self, params: SmParams, units: int) -> None:
        self._params = params
        super().__init__({
            "time": In(TIME_BITS), "counted": In(Event(counted(params))), "lanes": In(Event(scoreboard_event(params))),
            "gathered": In(Event(operands_read(params))), "units": In(Event(scoreboard_event(params))).array(units),
            "room": Out(1), "zero": Out(SCOREBOARDS),
            **{name: Out(params.warps) for name in ("lowered", "complete", "low", "full")}})
        self.sweep = Sweep(params.warps)
        self.ups = [self._counter((1 << COUNTER_BITS) - 1) for _ in range(SCOREBOARDS)] + [self._counter()]
        """How often each scoreboard was raised, less one; instructions that may be not complete."""
        self.downs = [self._counter() for _ in range(SCOREBOARDS)]
        self.completed = {name: self._counter() for name in ("lanes", "others")}
        self.limits = Words(
            data.StructLayout({"scoreboard": range(SCOREBOARDS), "most": COUNTER_BITS}), params.warps)
        """What each warp's DEPBAR.LE asks for."""
        self._event: Any = Signal(data.StructLayout({"warp": params.warp_bits, "lowers": SCOREBOARDS, "completes": 1}))
        self._passed: Any = Signal.like(self.lanes.payload)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        warps, bits, up, up_valid = self._params.warps, self._params.warp_bits, self.counted.payload, self.counted.valid
        m.submodules.sweep = self.sweep

        # C0: what lowers, or whom to look at.
        looks, other, fresh, turn = Signal(bits), Signal(bits), Signal(), self.time[:_TURN_BITS] == 0
        event, (lowers, completes, chosen) = self._event, self._choose(m, turn)
        again, limits = fresh & ~turn, up_valid & up.limits
        m.d.sync += [
            event.completes.eq(completes), event.warp.eq(Mux(lowers, chosen.warp, Mux(again, looks, other))),
            event.lowers.eq(Mux(lowers, Cat((chosen.write_barrier == number) | (chosen.read_barrier == number)
                                            for number in range(SCOREBOARDS)), 0)),
            fresh.eq(limits | lowers | (fresh & turn)), other.eq(other + ~(lowers | again))]
        with m.If(limits | lowers):
            m.d.sync += looks.eq(Mux(limits, up.warp, chosen.warp))

        # C1: counted.
        here, again = Signal(), Signal()      # what was raised now, and a cycle ago, is of the same warp
        last, counts, zero = Signal(bits), [], Signal(SCOREBOARDS)
        m.d.comb += [here.eq(up_valid & (up.warp == event.warp)), again.eq(up_valid & (up.warp == last))]
        m.d.sync += [last.eq(event.warp), self.lowered.eq(one_hot(event.warp, warps))]
        for number in range(SCOREBOARDS):
            raises = up_valid & up.raises[number]
            ups = self._count(m, f"ups_{number}", self.ups[number], up.warp, raises)
            downs = self._count(m, f"downs_{number}", self.downs[number], event.warp, event.lowers[number])
            ahead, behind = ups.read(m, event.warp), downs.read(m, event.warp)
            m.d.sync += [
                zero[number].eq(event.lowers[number] & (ahead == behind) & ~(raises & here)),
                Assert(~(event.lowers[number] & ((ahead + 1)[:COUNTER_BITS] == behind)),
                       "a scoreboard is lowered that nobody has raised")]
            counts.append((ahead, behind))
        # C2: told.
        m.d.comb += self.zero.eq(zero & ~(up.raises & again.replicate(SCOREBOARDS)))

        self._limit(m, event, counts)
        self._complete(m, event)
        return m

    def _choose(self, m: Module, turn: Value) -> tuple[Any, Any, Any]:
        """Whether an event goes, whether it completes an instruction other than by the lanes, and the event. In a
        ``turn`` none of the queues does."""
        fields, free = scoreboard_event(self._params), Const(1)
        lowers, event, chosen = Signal(), Signal(fields), []
        for index, source in enumerate(self.units):
            kept = Signal(fields, name=f"kept_{index}")
            full, goes = (Signal(name=f"{name}_{index}") for name in ("full", "goes"))
            m.d.comb += goes.eq(full & free)
            m.d.sync += [full.eq(source.valid | full & ~goes),
                         Assert(~(source.valid & full & ~goes), "completions come too close behind each other")]
            with m.If(source.valid):
                m.d.sync += kept.eq(source.payload)
            chosen.append((goes, kept.as_value()))
            free = free & ~full

        m.submodules.passed, m.submodules.gathers = passed, gathers = [
            DispatchQueue(shape, places=_PLACES, under_way=_UNDER_WAY, bypass=True)
            for shape in (fields, operands_read(self._params))]
        passing, read, ours = self.lanes.payload, Signal(fields), Signal()
        pass_on(m, gathers.head.payload, read, "warp")
        m.d.comb += [
            passed.arriving.valid.eq(self.lanes.valid & ((passing.write_barrier != NO_BARRIER)
                                                         | (passing.read_barrier != NO_BARRIER))),
            passed.arriving.payload.eq(passing), passed.head.ready.eq(free & ~turn),
            gathers.arriving.valid.eq(self.gathered.valid & (self.gathered.payload.barrier != NO_BARRIER)),
            gathers.arriving.payload.eq(self.gathered.payload), read.write_barrier.eq(NO_BARRIER),
            read.read_barrier.eq(gathers.head.payload.barrier),
            gathers.head.ready.eq(passed.head.ready & ~passed.head.valid), self.room.eq(passed.room & gathers.room),
            ours.eq(passed.head.ready & (passed.head.valid | gathers.head.valid))]
        chosen.append((ours, Mux(passed.head.valid, passed.head.payload.as_value(), read.as_value())))
        m.d.comb += [
            event.eq(reduce(or_, (Mux(here, source, 0) for here, source in chosen))),
            lowers.eq(Cat(here for here, _ in chosen).any())]
        return lowers, event.completes & ~ours, event

    def _counter(self, initial: int = 0) -> Words:
        """A number for each warp."""
        return Words(COUNTER_BITS, self._params.warps, self.sweep, initial)

    def _count(self, m: Module, name: str, counter: Words, warp: Any, steps: Any) -> Words:
        """The number of a warp goes up by one."""
        m.submodules[name] = counter
        counter.write(m, steps, warp, counter.read(m, warp) + 1)
        return counter

    def _limit(self, m: Module, event: Any, counts: list[Any]) -> None:
        """Whether the scoreboard that the warp's DEPBAR.LE names is low enough, as it was before this event."""
        up, warps = self.counted.payload, self._params.warps
        m.submodules.limits = limits = self.limits
        ahead, behind, most, above = (Signal(COUNTER_BITS, name=name) for name in ("ahead", "behind", "most", "above"))
        low, looked, recent, limiting = Signal(), Signal(warps), Signal(2), self.counted.valid & up.limits
        limits.write(m, limiting, up.warp, {"scoreboard": up.scoreboard, "most": up.most})
        limit = limits.read(m, event.warp)
        m.d.comb += above.eq(ahead - behind)
        m.d.sync += [
            *(each.eq(Array(read)[limit.scoreboard])
              for each, read in zip((ahead, behind), zip(*counts, strict=True), strict=True)), most.eq(limit.most),
            low.eq(above.all() | (above < most)), looked.eq(self.lowered), recent.eq(Cat(limiting, recent))]
        # A limit of the last cycles was not there when the counters were read.
        m.d.comb += self.low.eq(looked & (low & ~limiting & ~recent.any()).replicate(warps))

    def _complete(self, m: Module, event: Any) -> None:
        """Instructions that are not complete."""
        up, warps = self.counted.payload, self._params.warps
        passed = self._passed
        raises = self.counted.valid & up.raises[COMPLETE]
        m.d.sync += [
            passed.eq(self.lanes.payload), passed.completes.eq(self.lanes.valid & self.lanes.payload.completes)]
        sources = {"lanes": (passed.warp, passed.completes), "others": (event.warp, event.completes)}
        ups = self._count(m, f"ups_{COMPLETE}", self.ups[COMPLETE], up.warp, raises)
        downs = [self._count(m, f"downs_{name}", self.completed[name], warp, steps)
                 for name, (warp, steps) in sources.items()]

        def under_way(warp: Any) -> Value:
            """How many of a warp's instructions are not complete."""
            return (ups.read(m, warp) - sum((each.read(m, warp) for each in downs), start=0))[:COUNTER_BITS]

        told, fewer = [], []
        for name, (warp, steps) in sources.items():
            # A cycle later, when both memories are up to date.
            looked, before = (Signal.like(warp, name=f"{name}_{which}") for which in ("looked", "before"))
            asks, over, few = (Signal(name=f"{name}_{which}") for which in ("asks", "over", "few"))
            left, of = Signal(COUNTER_BITS, name=f"{name}_left"), Signal(warps, name=f"{name}_of")
            m.d.comb += left.eq(under_way(looked))
            m.d.sync += [
                looked.eq(warp), before.eq(looked), asks.eq(steps),
                of.eq(self.lowered if name == "others" else one_hot(looked, warps)),
                few.eq(asks & ~left[-_FULL_BITS:].all()),
                over.eq(asks & ~left.any() & ~(raises & (up.warp == looked))),
                Assert(~(asks & left.all()), "an instruction is complete that was not issued")]
            fewer.append(Mux(few, of, 0))
            told.append(Mux(over & ~(raises & (up.warp == before)), of, 0))
        m.d.comb += self.complete.eq(told[0] | told[1])

        # Full is who has issued the last of so many; what issues until that is seen is counted, too.
        many = Signal(warps)
        m.d.sync += [
            many.eq(one_hot(up.warp, warps, raises & under_way(up.warp)[-_FULL_BITS:].all())),
            self.full.eq(self.full & ~(fewer[0] | fewer[1]) | many)]
