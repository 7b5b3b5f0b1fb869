"""The issue unit, joined."""

from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component, pass_on
from rtl.dispatch_queue import DispatchQueue
from rtl.isa.control_code import NO_BARRIER
from rtl.layouts import (
    COMPLETING,
    UNITS,
    Event,
    InstructionKind,
    IssueEvents,
    LaneClient,
    Policy,
    completion,
    fetched_group,
    flow_result,
    issued,
    lane_operation,
    offered_operation,
    redirect,
    scoreboard_event,
    unit_rooms,
)
from rtl.one_hot import number_of, one_hot
from rtl.params import SmParams
from rtl.wires import KEEP
from rtl.word import field_of
from rtl.words import Words

from .arrival import DEPENDENCY_FORMS
from .operations import OperationChooser
from .order import FAVOUR_INTERVAL, Order, window_cycles
from .records import COMPLETE, NEEDS, RESULTS, TIME_BITS, After
from .results import FlowResults
from .scoreboards import Scoreboards
from .store import InstructionStore, StoredInstruction
from .warp import OfAll, OfWarp, ReadyWarp

__all__ = ["IssueUnit"]

_COLLECTING_CYCLES = 3
_OPERATIONS = tuple(f"operation_{client.value}" for client in LaneClient)
_REPORTED = "stall", "scoreboard", "lanes", "unit", "fetch", "held"


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
    events : Out(IssueEvents)
        Of two cycles before.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        warps = params.warps
        super().__init__(dict.fromkeys(_OPERATIONS, In(stream.Signature(lane_operation(params)))) | {
            "group": In(Event(fetched_group(params))), "claimed": In(Event(params.warp_bits)), "room": Out(warps),
            "redirect": Out(Event(redirect(params))), "launched": In(Event(params.warp_bits)),
            "result": In(Event(flow_result(params))), "lanes": In(Event(scoreboard_event(params))),
            "units": In(Event(scoreboard_event(params))).array(len(COMPLETING)), "resume": In(warps),
            "hold": In(warps), "enter": In(warps), "leave": In(warps), "taken": Out(warps), "rooms": In(unit_rooms()),
            "collecting": In(1), "policy": In(Policy), "instruction": Out(Event(issued(params))),
            "completion": Out(completion(params)), "operation": Out(Event(offered_operation(params))),
            "live": Out(warps), "drained": Out(warps), "events": Out(IssueEvents)})
        self.operations = [getattr(self, name) for name in _OPERATIONS]
        self.warps = [ReadyWarp() for _ in range(warps)]
        self.store = InstructionStore(params)
        self.scoreboards = Scoreboards(params, len(COMPLETING))
        self.results = FlowResults(params)
        self.chooser = OperationChooser(params)
        self.last = Words(32, warps)
        """For whoever looks on: of each warp, the address of the instruction that it issued last."""
        self.reasons = [warp.reason for warp in self.warps]
        """The same: why it does not issue."""
        self._places = Order(warps, "warp")
        self._preferred = Signal(warps)
        self._behind = DispatchQueue(params.warp_bits, under_way=2, bypass=True)
        self._injected = Signal()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for number, warp in enumerate(self.warps):
            m.submodules[f"warp_{number}"] = warp
        m.submodules.store = self.store
        m.submodules.scoreboards = self.scoreboards
        m.submodules.results = self.results
        m.submodules.operation_chooser = self.chooser
        m.submodules.behind = self._behind
        m.submodules.last = self.last
        warps = self._params.warps
        taken, gone = (Signal(warps, attrs=KEEP, name=name) for name in ("selected", "issued"))
        number, time = Signal(self._params.warp_bits), Signal(TIME_BITS)
        told: Any = Signal(OfAll)
        m.d.sync += [gone.eq(taken), time.eq(time + 1)]
        m.d.comb += [told.time.eq(time), self.scoreboards.time.eq(time)]

        self._select(m, taken, gone, number, told)
        control = self._read(m, gone, told)
        self._order(m, gone, control)
        self._bring(m, gone, number, told)
        self._count(m, told)
        m.d.sync += [
            Assert(~(self.instruction.valid & self.operation.valid), "an operation beside an instruction"),
            Assert(~(self.enter & self.leave).any(), "a warp enters the trap and leaves it")]
        self._tell_warps(m, told, {"taken": taken, "issued": gone})
        return m

    def _all(self, name: str) -> Any:
        """One bit of each warp."""
        return Cat(getattr(warp, name) for warp in self.warps)

    def _select(self, m: Module, taken: Signal, gone: Signal, number: Signal, told: Any) -> None:
        """S0: an operation; else what passes the lanes, if they are free; else something else. Each time the first
        one, and its number."""
        beats, count, chooser = self._params.beats, self._params.warps, self.chooser
        lanes, others, wanted, selected = self._all("lanes"), self._all("others"), Signal(), Signal()
        free, passes, operates, goes, room = Signal(init=1), Signal(), Signal(), Signal(), self._behind.room
        first = [Signal(count, attrs=KEEP, name=f"first_{which}") for which in ("lanes", "others")]
        self.join(m, chooser, "operation", *_OPERATIONS)
        m.d.comb += [
            wanted.eq((lanes | others).any() & room), operates.eq(free & chooser.first), told.lanes_free.eq(free),
            goes.eq(operates | free & chooser.wants & ~wanted), passes.eq(free & lanes.any() & room & ~operates),
            chooser.room.eq(self.scoreboards.room), chooser.goes.eq(goes), chooser.passes.eq(passes),
            selected.eq(wanted & ~operates & (passes | others.any())),
            self.taken.eq(taken & ~self._all("injected"))]
        goes_on = room & ~operates
        if beats == 1:
            m.d.comb += [first[0].eq(self._first(lanes | others)), taken.eq(first[0] & goes_on.replicate(count)),
                         number.eq(number_of(first[0]))]
        else:
            m.d.comb += [
                first[0].eq(self._first(lanes)), first[1].eq(self._first(others)),
                taken.eq(Mux(passes, first[0], first[1] & goes_on.replicate(count))),
                number.eq(Mux(passes, *map(number_of, first)))]
            busy = Signal(beats - 1)
            m.d.sync += [busy.eq(Cat(passes | goes, busy)), free.eq(~(passes | goes | busy[:-1].any()))]

        # One collects at a time.
        collected, recent = self._all("collected"), Signal(_COLLECTING_CYCLES)
        quiet, lowers = ~recent.any() & ~self.collecting, self.scoreboards.room
        also = {"flow": quiet, "barrier": quiet, "trap": lowers}
        m.d.sync += recent.eq(Cat((first[0] & collected).any() & passes, recent))
        m.d.comb += [
            told.available.eq(Cat(1, *(self.rooms[unit] & also.get(unit, 1) for unit in UNITS), lowers)),
            told.alone.eq(((lanes | others) & collected).any() if beats == 1 else 0)]

        # Events, a cycle later and then put together.
        idle, happened, injected = Signal(), self.events, self._injected
        m.d.sync += [
            injected.eq((taken & self._all("injected")).any()), idle.eq(~selected & ~goes),
            happened.idle.eq(idle), happened.issued.eq(gone.any() & ~injected), happened.operation.eq(chooser.went)]
        for name in _REPORTED:
            seen = Signal(name=f"seen_{name}")
            m.d.sync += [seen.eq(lanes.any() & ~free if name == "lanes" else self._all(name).any()),
                         happened[name].eq(idle & seen)]

    def _first(self, wanting: Any) -> Any:
        """The one that is preferred, if it wants; else the first one."""
        preferred = wanting & self._preferred
        return Mux(preferred.any(), preferred, self._places.first(wanting))

    def _read(self, m: Module, gone: Signal, told: Any) -> Any:
        """S1: what was selected; it leaves in S2, where it is counted. What it changes."""
        store, out, control, injected = self.store, self.instruction, told.control, self._injected
        moves, leaves, limits, raises = Signal(), Signal(), Signal(), Signal.like(control.raises)
        m.d.comb += [control.eq(store.control), told.last.eq(store.last)]
        with m.If(injected):
            m.d.comb += [control.after.eq(After.const({"results": 1})), control.raises.eq(1 << RESULTS)]

        payload = out.payload
        warp, serial = Signal.like(store.warp), Signal.like(payload.serial)
        m.d.sync += [
            out.valid.eq(gone.any()), warp.eq(store.warp), serial.eq(serial + out.valid), raises.eq(control.raises),
            limits.eq(control.after.limit), moves.eq(injected), leaves.eq((gone & self.leave).any())]
        pass_on(m, store.instruction, payload, *StoredInstruction.as_shape().members)
        m.d.comb += [payload.pc.eq(store.pc), payload.warp.eq(warp), payload.serial.eq(serial)]
        with m.If(moves):
            m.d.comb += [
                payload.word.eq(0), payload.constant_missing.eq(0),
                payload.kind.eq(Mux(leaves, InstructionKind.LEAVE, InstructionKind.ENTER))]
        done = self.completion
        self.last.write(m, out.valid, warp, payload.pc)
        pass_on(m, payload, done, "warp", "serial")
        m.d.comb += [
            done.valid.eq(out.valid & ~raises[COMPLETE] & ~raises[RESULTS]),
            done.write_barrier.eq(NO_BARRIER), done.read_barrier.eq(NO_BARRIER)]

        counted, flow, at_most = self.scoreboards.raised, self.results.issued, DEPENDENCY_FORMS["at_most"].fields
        m.d.comb += [
            counted.valid.eq(out.valid), counted.payload.warp.eq(payload.warp), counted.payload.raises.eq(raises),
            counted.payload.counted.eq(raises[COMPLETE]), counted.payload.limits.eq(limits),
            counted.payload.scoreboard.eq(field_of(payload.word, at_most["scoreboard"])),
            counted.payload.count.eq(field_of(payload.word, at_most["count"])),
            flow.valid.eq(out.valid & raises[RESULTS]), flow.payload.warp.eq(payload.warp),
            flow.payload.holds.eq(payload.kind != InstructionKind.PUSH)]
        return control

    def _order(self, m: Module, gone: Signal, control: Any) -> None:
        """Who goes first from now on."""
        count, window = self._params.warps, window_cycles(self._params.beats)
        greedy, yields, last, favoured = Signal(), Signal(count), Signal(count), Signal(count, init=1)
        clock, favours = Signal(range(FAVOUR_INTERVAL * window)), Signal()
        launched = one_hot(self.launched.payload, count, self.launched.valid)
        m.d.comb += greedy.eq(self.policy == Policy.GREEDY_THEN_OLDEST)
        m.d.sync += [
            yields.eq(Mux(greedy & ~control.no_yield, gone, 0)), clock.eq(clock + 1),
            favours.eq(clock[(window - 1).bit_length():].all()), self._preferred.eq(Mux(favours, favoured, last))]
        with m.If(gone.any()):
            m.d.sync += last.eq(Mux(greedy & control.no_yield, gone, 0))
        with m.If(clock.all()):
            m.d.sync += favoured.eq(favoured.rotate_left(1))
        self._places.update(m, Mux(greedy, 0, gone) | yields | launched)

    def _bring(self, m: Module, gone: Signal, number: Signal, told: Any) -> None:
        """S1: groups are stored, and a bus brings what decides when an instruction can issue to its warp: of a group
        that comes for a warp without instructions; else what is behind that which was selected, in turn."""
        store, queue, behind = self.store, self._behind, self.store.behind
        self.join(m, store, "group")
        m.d.sync += store.warp.eq(number)
        m.d.comb += [
            queue.arriving.valid.eq(gone.any()), queue.arriving.payload.eq(store.warp),
            store.next_warp.eq(queue.head.payload), queue.head.ready.eq(~store.busy),
            store.busy.eq(self._all("begun").any()), store.brings.eq(self._all("brought").any()),
            told.bus.eq(store.bus), told.needs.eq(one_hot(store.bus.need.as_value(), NEEDS)),
            told.follows.eq(~behind.waits & ~(behind.collected & told.alone)
                            & told.available.bit_select(behind.need.as_value(), 1))]

    def _count(self, m: Module, told: Any) -> None:
        """What goes down, and what goes on."""
        scoreboards, results = self.scoreboards, self.results
        self.join(m, scoreboards, "lanes", "units")
        self.join(m, results, "result", "redirect")
        m.d.comb += [
            results.begins.eq(self._all("begins")), told.zero.eq(scoreboards.zero), told.over.eq(results.over),
            told.terminated.eq(self.result.payload.terminated)]

    def _tell_warps(self, m: Module, told: Any, own: dict[str, Any]) -> None:
        """What each warp is told, and tells."""
        count, scoreboards, result, redirected = self._params.warps, self.scoreboards, self.result, self.redirect
        group, behind = self.group, self._behind.head
        own |= {
            "arrives": one_hot(group.payload.warp, count, group.valid),
            "offered": one_hot(behind.payload, count, behind.valid & behind.ready),
            "launched": one_hot(self.launched.payload, count, self.launched.valid),
            "result": one_hot(result.payload.warp, count, result.valid),
            "flush": one_hot(redirected.payload.warp, count, redirected.valid),
            "claimed": one_hot(self.claimed.payload, count, self.claimed.valid),
            "settled": self.results.settled, "revoked": self.results.revoked,
            **{name: getattr(scoreboards, name) for name in ("lowered", "complete", "low", "full")},
            **{name: getattr(self, name) for name in ("resume", "hold", "enter", "leave")}}
        assert own.keys() == OfWarp.members.keys()
        m.d.comb += [getattr(self, name).eq(self._all(name)) for name in ("room", "live", "drained")]
        for number, warp in enumerate(self.warps):
            m.d.comb += [warp.told.eq(told), warp.own.eq(Cat(own[name][number] for name in OfWarp.members))]
