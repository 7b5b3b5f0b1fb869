"""Counters of each warp: its scoreboards, and its instructions that are not complete."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Array, Assert, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.dispatch_queue import DispatchQueue
from rtl.isa.control_code import NO_BARRIER, SCOREBOARDS
from rtl.layouts import Event, operands_read, scoreboard_event
from rtl.one_hot import one_hot
from rtl.params import SmParams
from rtl.structs import struct_value
from rtl.sweep import Sweep
from rtl.words import Words

from .records import COUNTER_BITS, INCOMPLETE, TIME_BITS, Limit, counted

__all__ = ["Scoreboards"]

_FULL_BITS = 3
"""A counter is nearly full when its upper bits are ones."""
_QUEUE_PLACES = 16
_QUEUE_UNDER_WAY = 8
"""Events that may still arrive when a queue reports that it is full, counted from selection."""
_TURN_BITS = 4
"""Of the time: in one of so many cycles no event leaves a queue, and the next warp is checked."""


def _step(params: SmParams) -> data.StructLayout:
    """C0 to C1: what a cycle counts.

    Fields
    ------
    warp
        The warp of an event; if there is none, one whose limit is checked.
    lowers : SCOREBOARDS
        Scoreboards that are lowered.
    completes : 1
        An instruction is complete; not set for one that passes the lanes.
    """
    return data.StructLayout({
        "warp": params.warp_bits,
        "lowers": SCOREBOARDS,
        "completes": 1,
    })


class Scoreboards(Component):
    """Counts, for each warp, how often a scoreboard was raised and how often it was lowered, in two
    memories with one writer each: it is zero when they are equal. Incomplete instructions are
    counted alike, with two memories for completions: of instructions that pass the lanes, and of
    others. ::

        units ----> a register each ---.
        lanes ----> queue -------------+--> C0 select --> C1 count --> C2 zero --> C3 complete, low
        gathered -> queue -------------'

    =====  =======================================================================
    cycle  what happens
    =====  =======================================================================
    C0     one event is selected, or a warp to check
    C1     counters are read and written
    C2     ``lowered`` and ``zero``; not if the warp has raised the same since
    C3     ``complete`` and ``low``, likewise
    =====  =======================================================================

    An event of the lanes or a gather arrives in C0, if it is selected at once; one of a unit at
    least a cycle before C0. Completions of what passes the lanes are not queued, and are always in
    C1 a cycle after they arrive.

    C0, highest first: units, in their order, each of which has a register: each has so few events
    that its register is free in time; events of the lanes; gathers. The queues pass what arrives in
    the same cycle if they are empty. If there is no event, one warp is checked for a satisfied
    DEPBAR.LE: the warp that has just issued one or had the last event, or else each in rotation. In
    one of 16 cycles no queue is served, so that this does not starve.

    Instructions that a warp issued two cycles before, or earlier, are included.

    Members
    -------
    time : In
    counted : In(Event of counted)
        Two cycles after its selection.
    lanes, gathered : In(Event of scoreboard_event), In(Event of operands_read)
        None may come any more 8 cycles after ``room`` is 0.
    units : In(array of Event of scoreboard_event)
    room : Out(1)
    lowered, zero : Out(warps), Out(SCOREBOARDS)
        One warp, one-hot; those of its scoreboards that have become zero.
    complete, low : Out(warps)
        Everything of it is complete; the limit of its DEPBAR.LE is met.
    full : Out(warps)
        Nearly full: the counter has room only for the instructions that may still issue before the
        warp stops. No scoreboard is ever full, since none is raised more often.

    Attributes
    ----------
    ups, downs : list of Words
        By scoreboard: how often it was raised, less one, and how often it was lowered. The last one
        of ``ups``: instructions that may be not complete.
    completed : dict of Words
        How many of these have completed: "lanes", "others".
    limits : Words of Limit
        The limit of each warp's last DEPBAR.LE.
    """

    def __init__(self, params: SmParams, units: int) -> None:
        self._params = params
        super().__init__({
            "time": In(TIME_BITS),
            "counted": In(Event(counted(params))),
            "lanes": In(Event(scoreboard_event(params))),
            "gathered": In(Event(operands_read(params))),
            "units": In(Event(scoreboard_event(params))).array(units),
            "room": Out(1),
            "lowered": Out(params.warps),
            "zero": Out(SCOREBOARDS),
            "complete": Out(params.warps),
            "low": Out(params.warps),
            "full": Out(params.warps),
        })
        self.sweep = Sweep(params.warps)
        self.ups = [self._counter((1 << COUNTER_BITS) - 1) for _ in range(SCOREBOARDS)]
        self.ups.append(self._counter())
        self.downs = [self._counter() for _ in range(SCOREBOARDS)]
        self.completed = {name: self._counter() for name in ("lanes", "others")}
        self.limits = Words(Limit, params.warps)
        self.lane_events = DispatchQueue(
            scoreboard_event(params), places=_QUEUE_PLACES, under_way=_QUEUE_UNDER_WAY,
            bypass=True)
        self.gather_events = DispatchQueue(
            operands_read(params), places=_QUEUE_PLACES, under_way=_QUEUE_UNDER_WAY, bypass=True)

        self._is_check_cycle = Signal()
        """In this cycle no queue is served: a warp is checked, unless a unit has an event."""
        self._has_event = Signal()
        self._event: Any = Signal(scoreboard_event(params))
        """C0: the event that is selected."""
        self._event_completes = Signal()
        """It completes an instruction that does not pass the lanes."""
        self._step: Any = Signal(_step(params))
        """C1."""
        self._lane_event: Any = Signal.like(self.lanes.payload)
        """An instruction that has passed the lanes and ``completes``; counted by itself."""

    def _counter(self, initial: int = 0) -> Words:
        """A number for each warp."""
        return Words(COUNTER_BITS, self._params.warps, self.sweep, initial)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.sweep = self.sweep
        m.d.comb += self._is_check_cycle.eq(self.time[:_TURN_BITS] == 0)
        self._select_event(m)
        self._select_warp(m)
        counts = self._count_scoreboards(m)
        self._check_limit(m, counts)
        self._count_instructions(m)
        return m

    def _select_event(self, m: Module) -> None:
        """C0: which event lowers scoreboards."""
        layout = scoreboard_event(self._params)
        is_free: Value = Const(1)
        granted = []
        for index, source in enumerate(self.units):
            kept = Signal(layout, name=f"kept_{index}")
            is_full = Signal(name=f"full_{index}")
            leaves = Signal(name=f"leaves_{index}")
            m.d.comb += leaves.eq(is_full & is_free)
            m.d.sync += is_full.eq(source.valid | (is_full & ~leaves))
            with m.If(source.valid):
                m.d.sync += kept.eq(source.payload)
            m.d.sync += Assert(
                ~(source.valid & is_full & ~leaves), "completions come too close to each other")
            granted.append((leaves, kept.as_value()))
            is_free = is_free & ~is_full

        queued: Any = Signal(layout)
        from_queue = Signal()
        self._queue_events(m, queued, from_queue, is_free & ~self._is_check_cycle)
        granted.append((from_queue, queued.as_value()))
        m.d.comb += self._event.eq(reduce(or_, (Mux(when, event, 0) for when, event in granted)))
        m.d.comb += self._has_event.eq(Cat(when for when, _ in granted).any())
        m.d.comb += self._event_completes.eq(self._event.completes & ~from_queue)

    def _queue_events(self, m: Module, queued: Any, leaves: Signal, is_free: Value) -> None:
        """The events of the lanes, and then those of gathers, in one format. Only what lowers a
        scoreboard is queued."""
        m.submodules.lane_events = passed = self.lane_events
        m.submodules.gather_events = gathers = self.gather_events
        lanes = self.lanes.payload
        gathered = self.gathered.payload
        names_scoreboard = (
            (lanes.write_barrier != NO_BARRIER) | (lanes.read_barrier != NO_BARRIER))
        m.d.comb += passed.arriving.valid.eq(self.lanes.valid & names_scoreboard)
        m.d.comb += passed.arriving.payload.eq(lanes)
        m.d.comb += gathers.arriving.valid.eq(
            self.gathered.valid & (gathered.barrier != NO_BARRIER))
        m.d.comb += gathers.arriving.payload.eq(gathered)
        m.d.comb += self.room.eq(passed.room & gathers.room)

        m.d.comb += passed.head.ready.eq(is_free)
        m.d.comb += gathers.head.ready.eq(is_free & ~passed.head.valid)
        m.d.comb += leaves.eq(is_free & (passed.head.valid | gathers.head.valid))
        with m.If(passed.head.valid):
            m.d.comb += queued.eq(passed.head.payload)
        with m.Else():
            gather = gathers.head.payload
            m.d.comb += queued.eq(struct_value(
                queued.shape(), warp=gather.warp, completes=0,
                write_barrier=NO_BARRIER, read_barrier=gather.barrier))

    def _select_warp(self, m: Module) -> None:
        """C0: what C1 counts, or the warp that it checks. A warp is checked once after its last
        event and after its DEPBAR.LE. A check cycle delays that; an event replaces it by the check
        of its own warp."""
        step = self._step
        event = self._event
        latest = Signal(self._params.warp_bits)
        other = Signal(self._params.warp_bits)
        latest_is_due = Signal()
        has_limit = self.counted.valid & self.counted.payload.has_limit
        m.d.sync += latest_is_due.eq(
            has_limit | self._has_event | (latest_is_due & self._is_check_cycle))
        with m.If(has_limit):
            m.d.sync += latest.eq(self.counted.payload.warp)
        with m.Elif(self._has_event):
            m.d.sync += latest.eq(event.warp)

        m.d.sync += step.completes.eq(self._event_completes)
        m.d.sync += step.lowers.eq(0)
        with m.If(self._has_event):
            m.d.sync += step.warp.eq(event.warp)
            m.d.sync += step.lowers.eq(Cat(
                (event.write_barrier == number) | (event.read_barrier == number)
                for number in range(SCOREBOARDS)))
        with m.Elif(latest_is_due & ~self._is_check_cycle):
            m.d.sync += step.warp.eq(latest)
        with m.Else():
            m.d.sync += step.warp.eq(other)
            m.d.sync += other.eq(other + 1)

    def _count_scoreboards(self, m: Module) -> list[tuple[Any, Any]]:
        """C1: counts; C2: which scoreboards have become zero. What is raised in either cycle is not
        in the counters that were read. Returns what was read of ``ups`` and ``downs``, by
        scoreboard."""
        step = self._step
        raised = self.counted.payload
        raises_now = Signal()
        raises_late = Signal()
        late_warp = Signal(self._params.warp_bits)
        zero = Signal(SCOREBOARDS)
        counts = []
        m.d.sync += late_warp.eq(step.warp)
        m.d.sync += self.lowered.eq(one_hot(step.warp, self._params.warps))
        m.d.comb += raises_now.eq(self.counted.valid & (raised.warp == step.warp))
        m.d.comb += raises_late.eq(self.counted.valid & (raised.warp == late_warp))
        for number in range(SCOREBOARDS):
            raises = raised.raises[number]
            lowers = step.lowers[number]
            ups = self.ups[number]
            downs = self.downs[number]
            self._count(m, f"ups_{number}", ups, raised.warp, self.counted.valid & raises)
            self._count(m, f"downs_{number}", downs, step.warp, lowers)
            # How often it was raised, less one, and how often it was lowered.
            ahead = ups.read(m, step.warp)
            behind = downs.read(m, step.warp)
            m.d.sync += zero[number].eq(lowers & (ahead == behind) & ~(raises & raises_now))
            is_zero = (ahead + 1)[:COUNTER_BITS] == behind
            m.d.sync += Assert(
                ~(lowers & is_zero), "a scoreboard is lowered more often than raised")
            counts.append((ahead, behind))
        m.d.comb += self.zero.eq(zero)
        with m.If(raises_late):
            m.d.comb += self.zero.eq(zero & ~raised.raises)
        return counts

    def _count(self, m: Module, name: str, counter: Words, warp: Any, counts: Any) -> None:
        """Increments a warp's number."""
        m.submodules[name] = counter
        counter.write(m, counts, warp, counter.read(m, warp) + 1)

    def _check_limit(self, m: Module, counts: list[tuple[Any, Any]]) -> None:
        """C1, C2: whether the scoreboard that a warp's DEPBAR.LE names is low enough, as it was
        before C1; known in C3."""
        raised = self.counted.payload
        m.submodules.limits = self.limits
        sets_limit = self.counted.valid & raised.has_limit
        self.limits.write(m, sets_limit, raised.warp, raised.limit.as_value())
        limit = self.limits.read(m, self._step.warp)

        ahead = Signal(COUNTER_BITS)
        behind = Signal(COUNTER_BITS)
        most = Signal(COUNTER_BITS)
        m.d.sync += ahead.eq(Array(up for up, _ in counts)[limit.scoreboard])
        m.d.sync += behind.eq(Array(down for _, down in counts)[limit.scoreboard])
        m.d.sync += most.eq(limit.most)

        # The scoreboard's count less one, which is all ones if it is zero.
        less_one = Signal(COUNTER_BITS)
        is_low = Signal()
        warps = Signal(self._params.warps)
        recent = Signal(2)
        m.d.comb += less_one.eq(ahead - behind)
        m.d.sync += is_low.eq(less_one.all() | (less_one < most))
        m.d.sync += warps.eq(self.lowered)
        m.d.sync += recent.eq(Cat(sets_limit, recent))
        # A limit of the last cycles was not there when the counters were read.
        with m.If(is_low & ~sets_limit & ~recent.any()):
            m.d.comb += self.low.eq(warps)

    def _count_instructions(self, m: Module) -> None:
        """Instructions that are not complete. Instructions that pass the lanes are counted apart
        from the events, since one may complete in every cycle."""
        lanes = self.lanes
        raised = self.counted.payload
        raises = Signal()
        m.d.comb += raises.eq(self.counted.valid & raised.raises[INCOMPLETE])
        self._count(m, f"ups_{INCOMPLETE}", self.ups[INCOMPLETE], raised.warp, raises)
        m.d.sync += self._lane_event.eq(lanes.payload)
        m.d.sync += self._lane_event.completes.eq(lanes.valid & lanes.payload.completes)

        by_lanes = self._count_completions(m, "lanes", self._lane_event, raises)
        by_others = self._count_completions(m, "others", self._step, raises)
        m.d.comb += self.complete.eq(by_lanes[0] | by_others[0])

        # A warp is full when it issues the last of so many; what it issues before it stops is
        # counted, too.
        many = Signal(self._params.warps)
        is_many = raises & self._in_flight(m, raised.warp)[-_FULL_BITS:].all()
        m.d.sync += many.eq(one_hot(raised.warp, self._params.warps, is_many))
        m.d.sync += self.full.eq((self.full & ~(by_lanes[1] | by_others[1])) | many)

    def _in_flight(self, m: Module, warp: Any) -> Value:
        """How many of a warp's instructions are not complete."""
        begun = self.ups[INCOMPLETE].read(m, warp)
        by_lanes = self.completed["lanes"].read(m, warp)
        by_others = self.completed["others"].read(m, warp)
        return (begun - by_lanes - by_others)[:COUNTER_BITS]

    def _count_completions(
            self, m: Module, name: str, event: Any, raises: Signal) -> tuple[Value, Value]:
        """Counts what is complete. Returns, two cycles later, the warp with all instructions
        complete, and the one that is no longer full; one-hot."""
        self._count(m, f"downs_{name}", self.completed[name], event.warp, event.completes)
        raised_warp = self.counted.payload.warp

        # A cycle later, when both memories are up to date.
        warp = Signal.like(event.warp, name=f"{name}_warp")
        was_completed = Signal(name=f"{name}_was_completed")
        in_flight = Signal(COUNTER_BITS, name=f"{name}_in_flight")
        m.d.sync += warp.eq(event.warp)
        m.d.sync += was_completed.eq(event.completes)
        m.d.comb += in_flight.eq(self._in_flight(m, warp))
        m.d.sync += Assert(
            ~(was_completed & in_flight.all()), "an instruction is complete that was not issued")

        # A cycle later; not complete if the warp has issued more since.
        warp_late = Signal.like(event.warp, name=f"{name}_warp_late")
        warps = Signal(self._params.warps, name=f"{name}_warps")
        is_over = Signal(name=f"{name}_is_over")
        is_fewer = Signal(name=f"{name}_is_fewer")
        m.d.sync += warp_late.eq(warp)
        m.d.sync += warps.eq(one_hot(warp, self._params.warps))
        m.d.sync += is_over.eq(
            was_completed & ~in_flight.any() & ~(raises & (raised_warp == warp)))
        m.d.sync += is_fewer.eq(was_completed & ~in_flight[-_FULL_BITS:].all())
        complete = Mux(is_over & ~(raises & (raised_warp == warp_late)), warps, 0)
        return complete, Mux(is_fewer, warps, 0)
