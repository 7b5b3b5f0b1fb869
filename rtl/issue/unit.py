"""The issue unit, joined."""

from collections.abc import Iterable
from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component
from rtl.isa.control_code import NO_BARRIER
from rtl.layouts import (
    UNITS,
    Event,
    InstructionKind,
    LaneClient,
    completion,
    fetched_group,
    flow_result,
    issued,
    lane_operation,
    offered_operation,
    redirect,
    scoreboard_event,
)
from rtl.params import SmParams
from rtl.word import field_of

from .arrival import DEPENDENCY_FORMS
from .operations import OperationChooser
from .order import FAVOUR_INTERVAL, Order, window_cycles
from .records import (
    COMPLETE,
    RESULTS,
    TIME_BITS,
    Control,
    Head,
    IssueEvents,
    Need,
    Place,
    Policy,
    WaitReason,
    WarpState,
    unit_rooms,
)
from .results import FlowResults
from .scoreboards import Scoreboards
from .store import InstructionStore
from .warp import ReadyWarp

__all__ = ["COMPLETING", "IssueUnit"]

COMPLETING = ("conversion", "memory", "barrier")
"""Units that tell of completions beside the lanes. A conversion may complete every two cycles, a memory instruction
every three, one of the barrier unit every six."""
_KEEP = {"keep": 1}
"""Synthesis does not rearrange logic across such a wire: the few levels that were meant stay few."""
_COLLECTING_CYCLES = 3
_REPORTED = {"stall": (WaitReason.STALL,), "scoreboard": (WaitReason.SCOREBOARD,), "lanes": (WaitReason.LANES,),
             "unit": (WaitReason.UNIT,), "fetch": (WaitReason.FETCH,),
             "held": (WaitReason.FLOW, WaitReason.DRAIN, WaitReason.RESUME, WaitReason.TRAP)}


class IssueUnit(Component):
    """Selects in each cycle an instruction of one warp, or an operation that a unit wants of the lanes.

    Parameters
    ----------
    params : SmParams

    Members
    -------
    group, claimed, room, redirect
        See FetchUnit.
    launched : In(Event of a warp)
        A flow_launch of the warp was taken. The warp goes on with its flow result.
    result : In(Event of flow_result)
        Completes PUSH, FLOW and FLOW_INDEXED, for which no completion may come.
    lanes : In(Event of scoreboard_event)
        Completes LANES, REFUSED, TRAP, and what an operation completes; lowers scoreboards of what an operation reads.
    units : In(array of Event of scoreboard_event), by COMPLETING
        Completes all other instructions but NOTHING and DEPENDENCY, and lowers their scoreboards earlier.
    resume : In(1 bit a warp)
        A BARRIER, BARRIER_INDEXED or TRAP instruction, which is complete, lets its warp go on.
    operation_0.. : In(stream of lane_operation), one for each LaneClient
    rooms : In(unit_rooms)
        Each unit can take 5 instructions more than it was given.
    collecting : In(1)
        Operands of a FLOW_INDEXED or BARRIER_INDEXED instruction are collected: from 4 cycles after its selection at
        the latest, until it is given to its unit.
    hold, enter, leave : In(1 bit a warp)
        Of the trap unit: from the next cycle on the warp issues no instruction; it enters the trap, or leaves it, when
        nothing of it is in flight, by something of kind ENTER or LEAVE in the place of its next instruction.
    taken : Out(1 bit a warp)
        An instruction of the warp is selected.
    policy : In(Policy)
    instruction : Out(Event of issued)
        Two cycles after it was selected.
    completion : Out(completion)
        Of NOTHING and DEPENDENCY, beside ``instruction``.
    operation : Out(Event of offered_operation)
        Two cycles after it was selected.
    live, drained : Out(1 bit a warp)
        Launched and not ended; nothing of it is in flight.
    reasons : Out(WaitReason of each warp)
    events : Out(IssueEvents)
        Of two cycles before.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        warps = params.warps
        operations = {f"operation_{client.value}": In(stream.Signature(lane_operation(params)))
                      for client in LaneClient}
        super().__init__(operations | {
            "group": In(Event(fetched_group(params))), "claimed": In(Event(params.warp_bits)), "room": Out(warps),
            "redirect": Out(Event(redirect(params))), "launched": In(Event(params.warp_bits)),
            "result": In(Event(flow_result(params))), "lanes": In(Event(scoreboard_event(params))),
            "units": In(Event(scoreboard_event(params))).array(len(COMPLETING)), "resume": In(warps),
            "hold": In(warps), "enter": In(warps), "leave": In(warps), "taken": Out(warps), "rooms": In(unit_rooms()),
            "collecting": In(1), "policy": In(Policy), "instruction": Out(Event(issued(params))),
            "completion": Out(completion(params)), "operation": Out(Event(offered_operation(params))),
            "live": Out(warps), "drained": Out(warps), "reasons": Out(data.ArrayLayout(WaitReason, warps)),
            "events": Out(IssueEvents)})
        self.operations = [getattr(self, name) for name in operations]
        self.warps = [ReadyWarp() for _ in range(warps)]
        self.store = InstructionStore(params)
        self.scoreboards = Scoreboards(params, len(COMPLETING))
        self.results = FlowResults(params)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for number, warp in enumerate(self.warps):
            m.submodules[f"warp_{number}"] = warp
        m.submodules.store = self.store
        m.submodules.scoreboards = self.scoreboards
        m.submodules.results = self.results
        warps = self._params.warps
        taken, gone = (Signal(warps, attrs=_KEEP, name=name) for name in ("selected", "issued"))
        place, time = Signal(Place), Signal(TIME_BITS)
        m.d.sync += [gone.eq(taken), time.eq(time + 1)]

        self._select(m, taken, gone, place)
        self._read(m, gone, place)
        self._bring(m, taken)
        self._count(m, time)
        self._tell_warps(m, taken, gone, time)
        return m

    def _all(self, name: str) -> Any:
        """One bit of each warp."""
        return Cat(getattr(warp, name) for warp in self.warps)

    def _select(self, m: Module, taken: Signal, gone: Signal, place: Any) -> None:
        """S0: an operation; else what passes the lanes, if they are free; else something else. Each time the first
        one, and where it is."""
        params, count = self._params, self._params.warps
        m.submodules.operation_chooser = chooser = OperationChooser(params)
        self._order = order = Order(count, "warp")
        lanes, others, wanted = self._all("lanes"), self._all("others"), Signal()
        free, passes, operates, goes = Signal(init=1), Signal(), Signal(), Signal()
        first = [Signal(count, attrs=_KEEP, name=f"first_{which}") for which in ("lanes", "others")]
        places = [warp.place.as_value() for warp in self.warps]
        m.d.comb += [
            wanted.eq((lanes | others).any()), operates.eq(free & chooser.first),
            goes.eq(operates | free & chooser.wants & ~wanted), passes.eq(free & lanes.any() & ~operates)]
        if params.beats == 1:
            m.d.comb += [first[0].eq(order.first(lanes | others)),
                         taken.eq(first[0] & (~operates).replicate(count))]
            m.d.sync += place.as_value().eq(_chosen(first[0], places))
        else:
            m.d.comb += [
                first[0].eq(order.first(lanes)), first[1].eq(order.first(others)),
                taken.eq(Mux(passes, first[0], first[1] & (~operates).replicate(count)))]
            m.d.sync += place.as_value().eq(Mux(passes, *(_chosen(each, places) for each in first)))
            busy = Signal(params.beats - 1)
            m.d.sync += [busy.eq(Cat(passes | goes, busy)), free.eq(~(passes | goes | busy[:-1].any()))]
        self._lanes_free, self._selected = free, Signal()
        m.d.comb += self._selected.eq(wanted & ~operates & (passes | others.any()))

        for own, outer in zip(chooser.operations, self.operations, strict=True):
            connect(m, flipped(outer), own)
        connect(m, chooser.operation, flipped(self.operation))
        m.d.comb += [chooser.room.eq(self.scoreboards.room), chooser.goes.eq(goes), chooser.passes.eq(passes)]

        # One collects at a time.
        collected, recent = self._all("collected"), Signal(_COLLECTING_CYCLES)
        m.d.sync += recent.eq(Cat((first[0] & collected).any() & passes, recent))
        quiet, rooms = ~recent.any() & ~self.collecting, self.rooms
        self._available = Cat(1, *(rooms[unit] & (quiet if unit in ("flow", "barrier") else 1) & (
            self.scoreboards.room if unit == "trap" else 1) for unit in UNITS), self.scoreboards.room)
        assert tuple(need.name.lower() for need in Need)[1:] == (*UNITS, "events")
        self._alone = ((lanes | others) & collected).any() if params.beats == 1 else 0

        m.d.comb += self.taken.eq(taken & ~self._all("enters") & ~self._all("leaves"))

        # Events, a cycle later and then put together.
        idle, happened, injects = Signal(), self.events, Signal(len(gone))
        m.d.sync += injects.eq(self._all("enters") | self._all("leaves"))
        m.d.sync += [
            idle.eq(~self._selected & ~goes), happened.idle.eq(idle), happened.issued.eq((gone & ~injects).any()),
            happened.operation.eq(chooser.went)]
        for name, reasons in _REPORTED.items():
            seen = Signal(name=f"seen_{name}")
            m.d.sync += [
                seen.eq(Cat(warp.reason.as_value().matches(*reasons) for warp in self.warps).any()),
                happened[name].eq(idle & seen)]

    def _read(self, m: Module, gone: Signal, place: Any) -> None:
        """S1: what was selected; it leaves in S2, where it is counted."""
        store, out, params = self.store, self.instruction, self._params
        number, valid = Signal(params.warp_bits), Signal()
        enters, leaves = Signal(params.warps), Signal(params.warps)
        found: Any = store.instruction
        control: Any = Signal(Control)
        self._control = control
        m.d.sync += [enters.eq(self._all("enters")), leaves.eq(self._all("leaves"))]
        enter, leave, injected = Signal(), Signal(), Signal()
        m.d.comb += [
            number.eq(_number_of(gone)), valid.eq(gone.any()), enter.eq((gone & enters).any()),
            leave.eq((gone & leaves).any()), injected.eq(enter | leave),
            store.warp.eq(number), store.place.eq(place), control.eq(found.control)]
        with m.If(injected):
            m.d.comb += [control.after.eq(WarpState.RESULT), control.raises.eq(1 << RESULTS)]

        payload = out.payload
        limits = Signal()
        raises = Signal.like(control.raises)
        m.d.sync += [
            out.valid.eq(valid), payload.warp.eq(number), payload.pc.eq(store.pc),
            payload.word.eq(Mux(injected, 0, found.word)), payload.kind.as_value().eq(
                Mux(enter, InstructionKind.ENTER.value, Mux(leave, InstructionKind.LEAVE.value,
                                                            found.kind.as_value()))),
            payload.error.eq(found.error), payload.constant.eq(found.constant),
            payload.constant_missing.eq(found.constant_missing & ~injected),
            payload.write_barrier.eq(found.write_barrier), payload.read_barrier.eq(found.read_barrier),
            raises.eq(control.raises), limits.eq(control.after == WarpState.LIMIT)]
        with m.If(out.valid):
            m.d.sync += payload.serial.eq(payload.serial + 1)
        told = self.completion
        m.d.comb += [
            told.valid.eq(out.valid & ~raises[COMPLETE] & ~raises[RESULTS]), told.warp.eq(payload.warp),
            told.serial.eq(payload.serial), told.write_barrier.eq(NO_BARRIER), told.read_barrier.eq(NO_BARRIER)]

        counted, flow = self.scoreboards.raised, self.results.issued
        at_most = DEPENDENCY_FORMS["at_most"].fields
        m.d.comb += [
            counted.valid.eq(out.valid), counted.payload.warp.eq(payload.warp), counted.payload.raises.eq(raises),
            counted.payload.counted.eq(raises[COMPLETE]), counted.payload.limits.eq(limits),
            counted.payload.scoreboard.eq(field_of(payload.word, at_most["scoreboard"])),
            counted.payload.count.eq(field_of(payload.word, at_most["count"])),
            flow.valid.eq(out.valid), flow.payload.warp.eq(payload.warp), flow.payload.pc.eq(payload.pc),
            flow.payload.flow.eq(raises[RESULTS]), flow.payload.holds.eq(payload.kind != InstructionKind.PUSH)]

        # Who goes first from now on.
        greedy, yields = self.policy == Policy.GREEDY_THEN_OLDEST, Signal(params.warps)
        last, launched = Signal(params.warps), Signal(params.warps)
        m.d.comb += launched.eq(Cat(self.launched.valid & (self.launched.payload == warp)
                                    for warp in range(params.warps)))
        m.d.sync += yields.eq(gone & (greedy & ~control.no_yield).replicate(params.warps))
        with m.If(valid):
            m.d.sync += last.eq(gone & (greedy & control.no_yield).replicate(params.warps))
        window = window_cycles(params.beats)
        clock = Signal(range(FAVOUR_INTERVAL * window))
        favoured, favours = Signal(params.warps, init=1), Signal()
        m.d.sync += [clock.eq(clock + 1), favours.eq(clock[(window - 1).bit_length():].all())]
        with m.If(clock.all()):
            m.d.sync += favoured.eq(favoured.rotate_left(1))
        self._order.update(m, gone & (~greedy).replicate(params.warps) | yields | launched,
                           Mux(favours, favoured, last))

    def _bring(self, m: Module, taken: Signal) -> None:
        """Groups are stored. A bus brings what decides when an instruction can issue to its warp: of a group that comes
        for a warp without instructions; of whoever was selected; if nobody was, of one that wants more; after some
        patience, of one that has none."""
        store, count, group = self.store, self._params.warps, self.group
        offered, waiting, arriving = (Signal(count, name=name) for name in ("offered", "waiting", "arriving"))
        patience, next_waiting, turn, urgent = Signal(2), Signal(count), Signal(), Signal()
        starving = self._all("starving")
        stays = waiting.any() & (urgent | ~starving.any())
        connect(m, flipped(group), store.group)
        m.d.comb += [
            next_waiting.eq(waiting & (~waiting + 1)), turn.eq(urgent & patience.all() | ~self._selected),
            arriving.eq(Cat(group.valid & (group.payload.warp == warp) for warp in range(count))),
            store.next_warp.eq(_number_of(offered)),
            store.next.as_value().eq(_chosen(offered, [warp.next.as_value() for warp in self.warps]))]
        m.d.sync += [
            patience.eq(Mux(waiting.any() & ~turn, patience + 1, 0)),
            offered.eq(Mux(turn, Mux(waiting.any(), next_waiting, arriving), taken)),
            waiting.eq(Mux(stays, waiting & ~(next_waiting & turn.replicate(count)),
                           Mux(starving.any(), starving, self._all("wants") & ~offered))),
            urgent.eq(Mux(stays, urgent, starving.any()))]
        self._arriving, self._offered, self._bus, self._bus_busy = arriving, offered, Signal(Head), Signal()
        m.d.comb += [
            self._bus_busy.eq((arriving & self._all("empty")).any()),
            self._bus.eq(Mux(self._bus_busy, store.arriving.as_value(), store.head.as_value()))]

    def _count(self, m: Module, time: Signal) -> None:
        """What goes down, and what goes on."""
        scoreboards, results = self.scoreboards, self.results
        connect(m, flipped(self.lanes), scoreboards.lanes)
        for source, own in zip(self.units, scoreboards.units, strict=True):
            connect(m, flipped(source), own)
        connect(m, flipped(self.result), results.result)
        connect(m, results.redirect, flipped(self.redirect))
        m.d.comb += [
            scoreboards.time.eq(time),
            results.begins.eq(Cat(warp.state == WarpState.BEGINS for warp in self.warps))]

    def _tell_warps(self, m: Module, taken: Signal, gone: Signal, time: Signal) -> None:
        """What each warp is told, and tells."""
        scoreboards, results, result = self.scoreboards, self.results, self.result
        claimed, redirect, available = self.claimed, self.redirect, Signal(len(self._available))
        m.d.comb += available.eq(self._available)
        for number, warp in enumerate(self.warps):
            m.d.comb += [
                warp.launched.eq(self.launched.valid & (self.launched.payload == number)),
                warp.result.eq(result.valid & (result.payload.warp == number)), warp.over.eq(results.over),
                warp.same.eq(results.same), warp.terminated.eq(result.payload.terminated),
                warp.flush.eq(redirect.valid & (redirect.payload.warp == number)),
                warp.lowered.eq(scoreboards.lowered[number]), warp.zero.eq(scoreboards.zero),
                warp.settled.eq(Cat(scoreboards.complete[number], results.settled[number])),
                warp.low.eq(scoreboards.low[number]),
                warp.full.eq(scoreboards.full[number]), warp.resume.eq(self.resume[number]),
                warp.hold.eq(self.hold[number]), warp.enter.eq(self.enter[number]), warp.leave.eq(self.leave[number]),
                warp.available.eq(available), warp.alone.eq(self._alone), warp.time.eq(time),
                warp.taken.eq(taken[number]), warp.issued.eq(gone[number]), warp.control.eq(self._control),
                warp.claimed.eq(claimed.valid & (claimed.payload == number)),
                warp.arrives.eq(self._arriving[number]), warp.entry.eq(self.store.entry),
                warp.first.eq(self.group.payload.first), warp.offered.eq(self._offered[number]),
                warp.bus.eq(self._bus), warp.busy.eq(self._bus_busy), warp.lanes_free.eq(self._lanes_free),
                self.room[number].eq(warp.room), self.live[number].eq(warp.live),
                self.drained[number].eq(warp.drained), self.reasons[number].eq(warp.reason)]


def _any_of(values: Iterable[Any]) -> Any:
    """The one value that is not 0."""
    return reduce(or_, values)


def _chosen(one_hot: Any, values: list[Any]) -> Any:
    """The value of the one that is chosen."""
    return _any_of(Mux(one_hot[number], value, 0) for number, value in enumerate(values))


def _number_of(one_hot: Signal) -> Any:
    """The number of the one that is chosen."""
    return _any_of(Mux(one_hot[number], number, 0) for number in range(len(one_hot)))
