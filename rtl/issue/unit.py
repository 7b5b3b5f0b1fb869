"""The issue unit, joined."""

from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from rtl.component import Component, members_of, pass_on
from rtl.dispatch_queue import DispatchQueue
from rtl.isa.control_code import NO_BARRIER
from rtl.layouts import COMPLETING, UNITS, Event, InstructionKind, IssueEvents, Policy, completion, issued, unit_rooms
from rtl.one_hot import number_of, one_hot
from rtl.params import SmParams
from rtl.sweep import Sweep
from rtl.wires import KEEP
from rtl.word import field_of
from rtl.words import Words

from .operations import OPERATIONS, OperationChooser
from .order import FAVOUR_INTERVAL, Order, window_cycles
from .records import COMPLETE, NEEDS, RESULTS, TIME_BITS, After
from .results import FlowResults
from .scoreboards import Scoreboards
from .store import DEPENDENCY_FORMS, InstructionStore, StoredInstruction
from .warp import OfAll, OfWarp, ReadyWarp

__all__ = ["IssueUnit"]

_COLLECTING_CYCLES = 3
_PORTS = {"store": ("group",), "scoreboards": ("lanes", "gathered", "units"), "results": ("result", "redirect"),
          "chooser": ("gather", "write", *OPERATIONS)}
"""Ports that are those of a part."""


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
        Completes LANES, REFUSED, TRAP, and what a write completes.
    gathered : In(Event of operands_read)
        A gather has read an instruction's registers.
    units : In(array of Event of scoreboard_event), by COMPLETING
        Completes all other instructions but NOTHING and DEPENDENCY, and lowers their scoreboards earlier.
    resume : In(1 bit a warp)
        A BARRIER, BARRIER_INDEXED or TRAP instruction, which is complete, lets its warp go on.
    gather_0.., write_0..
        See OperationChooser.
    rooms : In(unit_rooms)
        Each unit can take UNDER_WAY instructions more than it was given.
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
    gather, write : Out(Event of offered_operation)
        Operations, two cycles after they were selected: one of each at a time, if there are several beats.
    live, drained : Out(1 bit a warp)
        Launched and not ended; nothing of it is in flight.
    events : Out(IssueEvents)
        Of two cycles before.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        warps = params.warps
        self.warps = [ReadyWarp() for _ in range(warps)]
        self.store = InstructionStore(params)
        self.scoreboards = Scoreboards(params, len(COMPLETING))
        self.results = FlowResults(params)
        self.chooser = OperationChooser(params)
        self.behind = DispatchQueue(params.warp_bits, under_way=2, bypass=True)
        """Warps that have issued, and wait for what is behind that."""
        self.sweep = Sweep(warps)
        self.last = Words(32, warps, self.sweep)
        """For whoever looks on: of each warp, the address of the instruction that it issued last."""
        self.reasons = [warp.reason for warp in self.warps]
        """The same: why it does not issue."""
        self._places = Order(warps, "warp")
        self._preferred = Signal(warps)
        self._last = Signal(warps)
        self._favoured = Signal(warps, init=1)
        self._clock = Signal(range(FAVOUR_INTERVAL * window_cycles(params.beats)))
        self._free = Signal(init=1)
        self._beyond, self._busy = Signal(range(params.quarter_cycles)), Signal(params.beats - 1)
        super().__init__({
            **{own: member for part, names in _PORTS.items()
               for own, member in members_of(getattr(self, part), *names).items()},
            "claimed": In(Event(params.warp_bits)), "launched": In(Event(params.warp_bits)), "rooms": In(unit_rooms()),
            "collecting": In(1), "policy": In(Policy), "instruction": Out(Event(issued(params))),
            "completion": Out(completion(params)), "events": Out(IssueEvents),
            **{name: In(warps) for name in ("resume", "hold", "enter", "leave")},
            **{name: Out(warps) for name in ("room", "taken", "live", "drained")}})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for number, warp in enumerate(self.warps):
            m.submodules[f"warp_{number}"] = warp
        for name in (*_PORTS, "behind", "sweep", "last"):
            m.submodules[name] = getattr(self, name)
            self.join(m, getattr(self, name), *_PORTS.get(name, ()))
        warps, told = self._params.warps, Signal(OfAll)
        taken, gone = (Signal(warps, attrs=KEEP, name=name) for name in ("selected", "issued"))
        injecting, injected, time = Signal(warps), Signal(), Signal(TIME_BITS)
        m.d.sync += [gone.eq(taken), injecting.eq(self._all("injected")), time.eq(time + 1)]
        m.d.comb += [
            injected.eq((gone & injecting).any()), told.time.eq(time), self.scoreboards.time.eq(time)]

        self._select(m, taken, told)
        self._bring(m, gone, told)
        self._read(m, gone, injected, told)
        self._order(m, gone, told.control)
        self._tell_warps(m, told, {"taken": taken, "issued": gone})
        m.d.sync += [
            self.events.issued.eq(gone.any() & ~injected),
            Assert(~(self.instruction.valid & (self.gather.valid | self.write.valid)),
                   "an operation beside an instruction"),
            Assert(~(self.enter & self.leave).any(), "a warp enters the trap and leaves it")]
        return m

    def _all(self, name: str) -> Any:
        """One bit of each warp."""
        return Cat(getattr(warp, name) for warp in self.warps)

    def _select(self, m: Module, taken: Signal, told: Any) -> None:
        """S0: an operation; else what passes the lanes, if they are free; else something else. Each time the first
        one, and its number. Operations do not go instead of what is revoked, either: that would be known late."""
        params, chooser, room = self._params, self.chooser, self.behind.room
        beats, count = params.beats, params.warps
        lanes, others, wanted, selected = self._all("lanes"), self._all("others"), Signal(), Signal()
        free, passes, operates, goes = self._free, Signal(), Signal(), Signal()
        first = [Signal(count, attrs=KEEP, name=f"first_{which}") for which in ("lanes", "others")]
        m.d.comb += [
            wanted.eq(self._all("likely").any() & room), operates.eq(free & chooser.first), told.lanes_free.eq(free),
            goes.eq(operates | free & chooser.wants & ~wanted), passes.eq(free & lanes.any() & room & ~operates),
            chooser.room.eq(self.scoreboards.room), chooser.goes.eq(goes), chooser.passes.eq(free & wanted & ~operates),
            selected.eq(room & ~operates & (passes | others.any())), self.taken.eq(taken & ~self._all("injected"))]
        instead = (room & ~operates).replicate(count)
        if beats == 1:
            m.d.comb += [first[0].eq(self._first(lanes & free.replicate(count) | others)), taken.eq(first[0] & instead)]
            m.d.sync += self.store.warp.eq(number_of(first[0]))
        else:
            m.d.comb += [first[0].eq(self._first(lanes)), first[1].eq(self._first(others)),
                         taken.eq(Mux(passes, first[0], first[1] & instead))]
            m.d.sync += self.store.warp.eq(Mux(passes, *map(number_of, first)))

        # The lanes are busy for a cycle a beat, or for as long as the full ones take.
        begins, beyond, busy = Signal(), self._beyond, self._busy
        m.d.comb += begins.eq(passes & (first[0] & lanes & self._all("quarter")).any())
        m.d.sync += [
            beyond.eq(Mux(begins, params.quarter_cycles - 1, beyond - beyond.any())), busy.eq(Cat(passes | goes, busy)),
            free.eq(~(begins | (beyond > 1) | busy[:-1].any() | (passes | goes if beats > 1 else 0)))]

        # One collects at a time.
        collected, recent = self._all("collected"), Signal(_COLLECTING_CYCLES)
        # What the full lanes have done is complete in the cycle in which nothing else may be: what is selected beside
        # its last part.
        quiet, lowers = ~recent.any() & ~self.collecting, self.scoreboards.room & (beyond != 2)
        also = {"flow": quiet, "barrier": quiet, "trap": lowers}
        m.d.sync += recent.eq(Cat((first[0] & collected).any() & passes, recent))
        m.d.comb += [
            told.available.eq(Cat(1, *(self.rooms[unit] & also.get(unit, 1) for unit in UNITS), lowers)),
            told.alone.eq(((lanes | others) & collected).any() if beats == 1 else 0)]

        # Events, a cycle later and then put together.
        idle, happened = Signal(), self.events
        m.d.sync += [idle.eq(~selected & ~goes), happened.idle.eq(idle), happened.operation.eq(chooser.went)]
        for name in ("stall", "scoreboard", "lanes", "unit", "fetch", "held"):
            seen = Signal(name=f"seen_{name}")
            m.d.sync += [seen.eq(lanes.any() & ~free if name == "lanes" else self._all(name).any()),
                         happened[name].eq(idle & seen)]

    def _first(self, wanting: Any) -> Any:
        """The one that is preferred, if it wants; else the first one."""
        preferred = wanting & self._preferred
        return Mux(preferred.any(), preferred, self._places.first(wanting))

    def _bring(self, m: Module, gone: Signal, told: Any) -> None:
        """S1: a bus brings what decides when an instruction can issue to its warp: of a group that comes for a warp
        without instructions; else what is behind that which was selected, in turn."""
        store, queue, behind = self.store, self.behind, self.store.behind
        m.d.comb += [
            queue.arriving.valid.eq(gone.any()), queue.arriving.payload.eq(store.warp),
            store.next_warp.eq(queue.head.payload), queue.head.ready.eq(~store.busy),
            store.busy.eq(self._all("begun").any()), store.brings.eq(self._all("brought").any()),
            told.needs.eq(one_hot(store.bus.need, len(NEEDS))), told.busy.eq(store.busy),
            told.follows.eq(~store.busy & ~behind.waits & ~(behind.collected & told.alone)
                            & told.available.bit_select(behind.need, 1))]

    def _read(self, m: Module, gone: Signal, injected: Signal, told: Any) -> None:
        """S1: what was selected, and what that changes; it leaves in S2, where it is counted."""
        store, left, done, control = self.store, self.instruction.payload, self.completion, told.control
        counted = self.scoreboards.counted.payload
        at_most = DEPENDENCY_FORMS["at_most"].fields
        m.d.comb += [
            control.eq(store.control), store.injected.eq(injected), store.leaves.eq((gone & self.leave).any())]
        with m.If(injected):
            m.d.comb += [control.after.eq(After.const({"results": 1})), control.raises.eq(1 << RESULTS)]
        m.d.sync += [
            self.instruction.valid.eq(gone.any()), left.warp.eq(store.warp),
            left.serial.eq(left.serial + self.instruction.valid), counted.raises.eq(control.raises),
            counted.limits.eq(control.after.limit)]

        pass_on(m, store.instruction, left, *StoredInstruction.as_shape().members)
        m.d.comb += left.pc.eq(store.pc)
        self.last.write(m, self.instruction.valid, left.warp, left.pc)
        pass_on(m, left, done, "warp", "serial")
        m.d.comb += [
            done.valid.eq(self.instruction.valid & ~counted.raises[COMPLETE] & ~counted.raises[RESULTS]),
            done.write_barrier.eq(NO_BARRIER), done.read_barrier.eq(NO_BARRIER),
            self.scoreboards.counted.valid.eq(self.instruction.valid), counted.warp.eq(left.warp),
            self.results.issued.valid.eq(self.instruction.valid & counted.raises[RESULTS]),
            self.results.issued.payload.eq(left.warp), self.results.holds.eq(left.kind != InstructionKind.PUSH),
            counted.scoreboard.eq(field_of(left.word, at_most["scoreboard"])),
            counted.most.eq(field_of(left.word, at_most["count"]))]

    def _order(self, m: Module, gone: Signal, control: Any) -> None:
        """Who goes first from now on."""
        count, window = self._params.warps, window_cycles(self._params.beats)
        greedy, yields, last, favoured = Signal(), Signal(count), self._last, self._favoured
        clock, favours = self._clock, Signal()
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

    def _tell_warps(self, m: Module, told: Any, own: dict[str, Any]) -> None:
        """What each warp is told, and tells."""
        count, scoreboards, results, behind = self._params.warps, self.scoreboards, self.results, self.behind.head
        pass_on(m, scoreboards, told, "zero")
        pass_on(m, results, told, "over")
        pass_on(m, self.store, told, "last", "bus")
        for name, event in (("launched", self.launched), ("claimed", self.claimed)):
            own[name] = one_hot(event.payload, count, event.valid)
        for name, event in (("result", self.result), ("flush", self.redirect), ("arrives", self.group)):
            own[name] = one_hot(event.payload.warp, count, event.valid)
        own["offered"] = one_hot(behind.payload, count, behind.valid)
        for part, names in ((scoreboards, ("lowered", "complete", "low", "full")), (results, ("settled", "revoked")),
                            (self, ("resume", "hold", "enter", "leave"))):
            own |= {name: getattr(part, name) for name in names}
        assert own.keys() == OfWarp.members.keys()
        m.d.comb += [
            told.terminated.eq(self.result.payload.terminated), results.begins.eq(self._all("begins")),
            *(getattr(self, name).eq(self._all(name)) for name in ("room", "live", "drained"))]
        for number, warp in enumerate(self.warps):
            m.d.comb += [warp.told.eq(told), warp.own.eq(Cat(own[name][number] for name in OfWarp.members))]
