"""The issue unit: its stages of select, read and count, joined."""

from collections.abc import Iterable
from typing import Any

from amaranth.hdl import Assert, Cat, Module, Signal, Value
from amaranth.lib.wiring import connect, flipped

from rtl.component import Component
from rtl.dispatch_queue import DispatchQueue
from rtl.isa.control_code import NO_BARRIER
from rtl.layouts import (
    COMPLETING,
    InstructionKind,
    IssueEvents,
    fetched_group,
)
from rtl.one_hot import one_hot
from rtl.params import SmParams
from rtl.sweep import Sweep
from rtl.wires import KEEP
from rtl.word import field_of
from rtl.words import Words

from .decode import DEPENDENCY_FORMS
from .operations import OPERATIONS, OperationArbiter
from .order import WarpPriority
from .ports import unit_ports
from .records import INCOMPLETE, RESULTS, TIME_BITS, IssueBroadcast, Resource
from .results import FlowResults
from .scoreboards import Scoreboards
from .select import LaneTimer, warp_selector
from .store import InstructionStore
from .warp import ReadyWarp

__all__ = ["IssueUnit"]

_COLLECTING_CYCLES = 3
"""Cycles from the selection of an instruction whose operands are collected until ``collecting``
is 1 for it; meanwhile ``recent`` has it."""


class IssueUnit(Component):
    """Selects in each cycle an instruction of one warp, or an operation that a unit wants of the
    lanes. ::

        group --> store --- bus ----> warps (a ReadyWarp each) -- ready --> SELECT --> operations
                    ^  ^                 ^                                    | S0
                    |  '- refill queue <-|------------------------------------|
                    |                    |                                    v
                    '--------------------'<--------- effects ---------------- READ --> instruction
                                         |                                    | S1       S2
        result ---> results -------------|                                    v
        lanes, units --> scoreboards ----'<---------------------------------- COUNT S2

    =====  ==========================================================================
    stage  what happens
    =====  ==========================================================================
    S0     one of the ready warps is selected, or operations; see WarpSelector
    S1     word, constant, address and effects are read by the warp's number; the
           effects reach the warp. The bus has the warp's next instruction
    S2     the instruction leaves; scoreboards and flow results count it
    =====  ==========================================================================

    Who goes first in S0: operations that are due; an instruction; operations that are pending. Of
    instructions, those that pass the lanes if these are free, see WarpSelector; then by
    WarpPriority. Who has the bus: the first instruction of a group that arrives for a warp without
    instructions; else the next instructions of warps that have issued, in the order of issue.

    From an event in cycle E to the first selection that it allows (C0 to C2 are the cycles of
    Scoreboards, J is where ReadyWarp judges):

    ==============================  =====  =====  =====  =========  =======  =========
    event                           C0     C1     C2     pending 0  J        selection
    ==============================  =====  =====  =====  =========  =======  =========
    room, hold, resume, last flow                                   E        E + 1
    result
    lanes, gathered: a scoreboard   E      E + 1  E + 2  E + 3      E + 3    E + 4
    is zero, if no queue holds it
    units: the same; these have a   E + 1  E + 2  E + 3  E + 4      E + 4    E + 5
    register first
    ==============================  =====  =====  =====  =========  =======  =========

    That all instructions of a warp are complete, or the limit of its DEPBAR.LE is met, is known a
    cycle after C2, so its selection is one later as well.

    An ENTER or LEAVE takes the place of the warp's next instruction: it needs that one to be there,
    and uses it up. The flow result of the ENTER or LEAVE then flushes the warp, which fetches that
    instruction again if it still is the next one.

    Parameters
    ----------
    params : SmParams

    Members
    -------
    group, claimed, room, redirect
        See FetchUnit.
    launched : In(Event of a warp)
        The warp's flow_launch was taken in the cycle before (its warp_launch came earlier, and does
        not concern issue). The warp begins with the flow result of that.
    result : In(Event of flow_result)
        Completes PUSH, FLOW and FLOW_INDEXED, for which no completion may come.
    lanes : In(Event of scoreboard_event)
        Completes LANES, REFUSED, TRAP, and what a write completes.
    gathered : In(Event of operands_read)
        A gather has read an instruction's registers.
    units : In(array of Event of scoreboard_event), by COMPLETING
        Completes all other instructions but NOTHING and DEPENDENCY, and lowers their scoreboards
        earlier.
    resume : In(1 bit a warp)
        A BARRIER, BARRIER_INDEXED or TRAP instruction, which is complete, lets its warp go on.
    gather_0.., write_0..
        See OperationArbiter.
    rooms : In(unit_rooms)
        Each unit can take UNDER_WAY instructions more than it was given.
    collecting : In(1)
        Operands of a FLOW_INDEXED or BARRIER_INDEXED instruction are collected: from 4 cycles after
        its selection at the latest, until it is given to its unit.
    hold, enter, leave : In(1 bit a warp)
        Of the trap unit: from the next cycle on the warp issues no instruction; it enters the trap,
        or leaves it, when nothing of it is in flight and its next instruction is there, by an ENTER
        or LEAVE in the place of that one.
    taken : Out(1 bit a warp)
        An instruction of the warp is selected.
    policy : In(Policy)
    instruction : Out(Event of issued)
        Two cycles after it was selected.
    completion : Out(Event of completion)
        Of NOTHING and DEPENDENCY, beside ``instruction``.
    gather, write : Out(Event of offered_operation)
        Operations, two cycles after they were selected: one of each at a time, if there are several
        beats.
    live, drained : Out(1 bit a warp)
        Its flow_launch was taken, and it has not ended; nothing of it is in flight.
    events : Out(IssueEvents)
        Of two cycles before.

    Attributes
    ----------
    last : Words
        For observers: of each warp, the address of the instruction that it issued last.
    reasons : list of Signal
        The same: why each warp does not issue.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        warps = params.warps
        self.warps = [ReadyWarp() for _ in range(warps)]
        self.store = InstructionStore(params)
        self.scoreboards = Scoreboards(params, len(COMPLETING))
        self.results = FlowResults(params)
        self.operations = OperationArbiter(params)
        self.priority = WarpPriority(params)
        self.selector = warp_selector(params, self.priority)
        self.lane_timer = LaneTimer(params)
        self.refill_queue = DispatchQueue(params.warp_bits, under_way=2, bypass=True)
        """Warps that have issued, and need their next instruction."""
        self.sweep = Sweep(warps)
        self.last = Words(32, warps, self.sweep)
        self.reasons = [warp.reason for warp in self.warps]
        super().__init__(unit_ports(params, fetched_group(params)))
        self._broadcast: Any = Signal(IssueBroadcast)
        self._selected = Signal(warps, name="selected", attrs=KEEP)
        """S0, one-hot."""
        self._issued = Signal(warps, name="issued", attrs=KEEP)
        """S1, one-hot."""
        self._operations_go = Signal()
        """S0: operations are selected."""
        self._issues_injected = Signal()
        """S1: what has issued is an ENTER or LEAVE."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._add_parts(m)
        self._connect_ports(m)
        self._select(m)
        self._use_lanes(m)
        self._find_resources(m)
        self._count_events(m)
        self._read(m)
        self._refill(m)
        self._leave(m)
        self._count(m)
        self._connect_priority(m)
        self._connect_warps(m)
        m.d.sync += Assert(
            ~(self.instruction.valid & (self.gather.valid | self.write.valid)),
            "an operation beside an instruction")
        m.d.sync += Assert(~(self.enter & self.leave).any(), "a warp enters the trap and leaves it")
        return m

    def _add_parts(self, m: Module) -> None:
        for number, warp in enumerate(self.warps):
            m.submodules[f"warp_{number}"] = warp
        m.submodules.store = self.store
        m.submodules.scoreboards = self.scoreboards
        m.submodules.results = self.results
        m.submodules.operations = self.operations
        m.submodules.priority = self.priority
        m.submodules.selector = self.selector
        m.submodules.lane_timer = self.lane_timer
        m.submodules.refill_queue = self.refill_queue
        m.submodules.sweep = self.sweep
        m.submodules.last = self.last

    def _connect_ports(self, m: Module) -> None:
        """Ports that are those of a part."""
        connect(m, flipped(self.group), self.store.group)
        connect(m, flipped(self.lanes), self.scoreboards.lanes)
        connect(m, flipped(self.gathered), self.scoreboards.gathered)
        for outer, inner in zip(self.units, self.scoreboards.units, strict=True):
            connect(m, flipped(outer), inner)
        connect(m, flipped(self.result), self.results.result)
        connect(m, self.results.redirect, flipped(self.redirect))
        for name in OPERATIONS:
            connect(m, flipped(getattr(self, name)), getattr(self.operations, name))
        connect(m, self.operations.gather, flipped(self.gather))
        connect(m, self.operations.write, flipped(self.write))
        m.d.comb += self.room.eq(Cat(warp.has_room for warp in self.warps))
        m.d.comb += self.live.eq(Cat(warp.is_live for warp in self.warps))
        m.d.comb += self.drained.eq(Cat(warp.is_drained for warp in self.warps))

    def _select(self, m: Module) -> None:
        """S0: operations that are due; else an instruction; else other operations. These do not go
        instead of an instruction that is revoked, either: that would be known late."""
        operations = self.operations
        selector = self.selector
        lanes_are_free = self.lane_timer.free
        may_issue = Signal()
        m.d.comb += may_issue.eq(
            _any(warp.may_be_ready for warp in self.warps) & self.refill_queue.room)
        m.d.comb += selector.ready_lanes.eq(Cat(warp.ready_lanes for warp in self.warps))
        m.d.comb += selector.ready_others.eq(Cat(warp.ready_others for warp in self.warps))
        m.d.comb += selector.lanes_are_free.eq(lanes_are_free)
        with m.If(lanes_are_free & operations.is_due):
            m.d.comb += self._operations_go.eq(1)
        with m.Else():
            m.d.comb += selector.enable.eq(self.refill_queue.room)
            with m.If(may_issue):
                m.d.comb += operations.instruction_passes.eq(lanes_are_free)
            with m.Else():
                m.d.comb += self._operations_go.eq(lanes_are_free & operations.is_pending)
        m.d.comb += operations.has_room.eq(self.scoreboards.room)
        m.d.comb += operations.granted.eq(self._operations_go)

        m.d.comb += self._selected.eq(selector.selected)
        m.d.sync += self._issued.eq(self._selected)
        m.d.sync += self.store.warp.eq(selector.number)
        is_injected = Cat(warp.is_injected for warp in self.warps)
        was_injected = Signal(len(is_injected))
        m.d.comb += self.taken.eq(self._selected & ~is_injected)
        m.d.sync += was_injected.eq(is_injected)
        m.d.comb += self._issues_injected.eq((self._issued & was_injected).any())

    def _use_lanes(self, m: Module) -> None:
        """S0: what is selected for the lanes."""
        timer = self.lane_timer
        selector = self.selector
        candidate = selector.lanes_candidate & selector.ready_lanes
        is_quarter = Cat(warp.is_quarter for warp in self.warps)
        m.d.comb += timer.starts.eq(selector.lanes_are_used | self._operations_go)
        m.d.comb += timer.quarter_starts.eq(
            selector.lanes_are_used & (candidate & is_quarter).any())

    def _find_resources(self, m: Module) -> None:
        """Which resources have room for an instruction that is selected in the next cycle. From two
        cycles after the selection of an instruction whose operands are collected until its dispatch
        the flow and the barrier unit have none, for no instruction, ENTER and LEAVE included. What
        the lanes do at a quarter of the rate is complete in a cycle in which nothing else may be
        that sends events of the lanes."""
        rooms = self.rooms
        broadcast = self._broadcast
        available = broadcast.available
        selector = self.selector
        is_collected = Cat(warp.is_collected for warp in self.warps)
        recent = Signal(_COLLECTING_CYCLES)
        starts_collecting = selector.lanes_are_used & (
            selector.lanes_candidate & is_collected).any()
        m.d.sync += recent.eq(Cat(starts_collecting, recent))
        can_collect = ~recent.any() & ~self.collecting
        may_send_events = self.scoreboards.room & ~self.lane_timer.quarter_completes
        m.d.comb += available[Resource.NONE].eq(1)
        m.d.comb += available[Resource.FLOW].eq(rooms.flow & can_collect)
        m.d.comb += available[Resource.MEMORY].eq(rooms.memory)
        m.d.comb += available[Resource.CONVERSION].eq(rooms.conversion)
        m.d.comb += available[Resource.BARRIER].eq(rooms.barrier & can_collect)
        m.d.comb += available[Resource.TRAP].eq(rooms.trap & may_send_events)
        m.d.comb += available[Resource.EVENTS].eq(may_send_events)
        if self._params.beats == 1:
            # With several beats the lanes are busy until ``recent`` is seen.
            is_ready = selector.ready_lanes | selector.ready_others
            m.d.comb += broadcast.collects.eq((is_ready & is_collected).any())

    def _count_events(self, m: Module) -> None:
        """Events, two cycles later: reasons are gathered in one, and count in the next."""
        events = self.events
        selector = self.selector
        is_idle = Signal()
        seen: Any = Signal(IssueEvents)
        m.d.sync += is_idle.eq(~selector.is_selected & ~self._operations_go)
        m.d.sync += seen.stall.eq(_any(warp.stall for warp in self.warps))
        m.d.sync += seen.scoreboard.eq(_any(warp.scoreboard for warp in self.warps))
        m.d.sync += seen.lanes.eq(selector.ready_lanes.any() & ~self.lane_timer.free)
        m.d.sync += seen.unit.eq(_any(warp.unit for warp in self.warps))
        m.d.sync += seen.fetch.eq(_any(warp.fetch for warp in self.warps))
        m.d.sync += seen.held.eq(_any(warp.held for warp in self.warps))
        m.d.sync += events.eq(0)
        with m.If(is_idle):
            m.d.sync += events.eq(seen)
        m.d.sync += events.idle.eq(is_idle)
        m.d.sync += events.operation.eq(self.operations.was_granted)
        m.d.sync += events.issued.eq(self._issued.any() & ~self._issues_injected)

    def _read(self, m: Module) -> None:
        """S1: what was selected, and what becomes of its warp."""
        store = self.store
        effects = self._broadcast.effects
        m.d.comb += store.is_injected.eq(self._issues_injected)
        m.d.comb += store.leaves_trap.eq((self._issued & self.leave).any())
        m.d.comb += effects.eq(store.effects)
        with m.If(self._issues_injected):
            # The warp goes on with its flow result.
            m.d.comb += effects.raises.eq(1 << RESULTS)
            m.d.comb += effects.blocks.eq(0)
            m.d.comb += effects.blocks.until_results.eq(1)

    def _refill(self, m: Module) -> None:
        """S1: the bus has what decides when an instruction can issue, for its warp."""
        store = self.store
        queue = self.refill_queue
        broadcast = self._broadcast
        following = store.following
        arrives = _any(warp.takes_arriving for warp in self.warps)
        m.d.comb += queue.arriving.valid.eq(self._issued.any())
        m.d.comb += queue.arriving.payload.eq(store.warp)
        m.d.comb += queue.head.ready.eq(~arrives)
        m.d.comb += store.following_warp.eq(queue.head.payload)
        m.d.comb += store.bus_has_arriving.eq(arrives)
        m.d.comb += store.bus_is_taken.eq(_any(warp.takes_bus for warp in self.warps))

        m.d.comb += broadcast.bus.eq(store.bus)
        m.d.comb += broadcast.bus_resource.eq(one_hot(store.bus.resource, len(Resource)))
        m.d.comb += broadcast.bus_ends_group.eq(store.bus_ends_group)
        m.d.comb += broadcast.bus_has_arriving.eq(arrives)
        m.d.comb += broadcast.bus_can_issue.eq(
            ~arrives & ~following.has_waits
            & ~(following.is_collected & broadcast.collects)
            & broadcast.available.bit_select(following.resource, 1))

    def _leave(self, m: Module) -> None:
        """S2: the instruction. One that is done when it issues is complete beside it."""
        store = self.store
        leaving = self.instruction.payload
        stored = store.instruction
        done = self.completion
        m.d.sync += self.instruction.valid.eq(self._issued.any())
        m.d.sync += leaving.warp.eq(store.warp)
        m.d.sync += leaving.serial.eq(leaving.serial + self.instruction.valid)
        m.d.comb += leaving.pc.eq(store.pc)
        m.d.comb += leaving.word.eq(stored.word)
        m.d.comb += leaving.kind.eq(stored.kind)
        m.d.comb += leaving.quarter.eq(stored.quarter)
        m.d.comb += leaving.error.eq(stored.error)
        m.d.comb += leaving.constant.eq(stored.constant)
        m.d.comb += leaving.constant_missing.eq(stored.constant_missing)
        m.d.comb += leaving.write_barrier.eq(stored.write_barrier)
        m.d.comb += leaving.read_barrier.eq(stored.read_barrier)
        self.last.write(m, self.instruction.valid, leaving.warp, leaving.pc)

        raises = self.scoreboards.counted.payload.raises
        m.d.comb += done.valid.eq(
            self.instruction.valid & ~raises[INCOMPLETE] & ~raises[RESULTS])
        m.d.comb += done.payload.warp.eq(leaving.warp)
        m.d.comb += done.payload.serial.eq(leaving.serial)
        m.d.comb += done.payload.write_barrier.eq(NO_BARRIER)
        m.d.comb += done.payload.read_barrier.eq(NO_BARRIER)

    def _count(self, m: Module) -> None:
        """S2: scoreboards and flow results count what leaves."""
        effects = self._broadcast.effects
        leaving = self.instruction.payload
        results = self.results
        counted = self.scoreboards.counted
        at_most = DEPENDENCY_FORMS["at_most"].fields
        m.d.comb += self.scoreboards.time.eq(self._broadcast.time)
        m.d.comb += counted.valid.eq(self.instruction.valid)
        m.d.comb += counted.payload.warp.eq(leaving.warp)
        m.d.sync += counted.payload.raises.eq(effects.raises)
        m.d.sync += counted.payload.has_limit.eq(effects.blocks.until_limit)
        m.d.comb += counted.payload.limit.scoreboard.eq(
            field_of(leaving.word, at_most["scoreboard"]))
        m.d.comb += counted.payload.limit.most.eq(field_of(leaving.word, at_most["count"]))

        m.d.comb += results.is_starting.eq(Cat(warp.is_starting for warp in self.warps))
        m.d.comb += results.issued.valid.eq(
            self.instruction.valid & counted.payload.raises[RESULTS])
        m.d.comb += results.issued.payload.eq(leaving.warp)
        m.d.comb += results.blocks.eq(leaving.kind != InstructionKind.PUSH)

    def _connect_priority(self, m: Module) -> None:
        """Who goes first from now on."""
        priority = self.priority
        launched = self.launched
        m.d.comb += priority.policy.eq(self.policy)
        m.d.comb += priority.issued.eq(self._issued)
        m.d.comb += priority.no_yield.eq(self._broadcast.effects.no_yield)
        m.d.comb += priority.launched.eq(
            one_hot(launched.payload, self._params.warps, launched.valid))

    def _connect_warps(self, m: Module) -> None:
        """What each warp hears."""
        warps = self._params.warps
        scoreboards = self.scoreboards
        results = self.results
        broadcast = self._broadcast
        time = Signal(TIME_BITS)
        m.d.sync += time.eq(time + 1)
        m.d.comb += broadcast.time.eq(time)
        m.d.comb += broadcast.result_is_last.eq(results.is_last)
        m.d.comb += broadcast.result_terminates.eq(self.result.payload.terminated)
        m.d.comb += broadcast.zero.eq(scoreboards.zero)
        m.d.comb += broadcast.lanes_are_free.eq(self.lane_timer.free)

        refilled = self.refill_queue.head
        launched = one_hot(self.launched.payload, warps, self.launched.valid)
        has_result = one_hot(self.result.payload.warp, warps, self.result.valid)
        flushed = one_hot(self.redirect.payload.warp, warps, self.redirect.valid)
        claimed = one_hot(self.claimed.payload, warps, self.claimed.valid)
        arrives = one_hot(self.group.payload.warp, warps, self.group.valid)
        follows = one_hot(refilled.payload, warps, refilled.valid)
        for number, warp in enumerate(self.warps):
            events = warp.events
            m.d.comb += warp.broadcast.eq(broadcast)
            m.d.comb += events.is_launched.eq(launched[number])
            m.d.comb += events.has_result.eq(has_result[number])
            m.d.comb += events.is_flushed.eq(flushed[number])
            m.d.comb += events.is_revoked.eq(results.revoked[number])
            m.d.comb += events.counts_are_zero.eq(scoreboards.lowered[number])
            m.d.comb += events.is_complete.eq(scoreboards.complete[number])
            m.d.comb += events.has_all_results.eq(results.settled[number])
            m.d.comb += events.meets_limit.eq(scoreboards.low[number])
            m.d.comb += events.is_full.eq(scoreboards.full[number])
            m.d.comb += events.is_resumed.eq(self.resume[number])
            m.d.comb += events.is_held.eq(self.hold[number])
            m.d.comb += events.enters_trap.eq(self.enter[number])
            m.d.comb += events.leaves_trap.eq(self.leave[number])
            m.d.comb += events.is_selected.eq(self._selected[number])
            m.d.comb += events.has_issued.eq(self._issued[number])
            m.d.comb += events.group_is_claimed.eq(claimed[number])
            m.d.comb += events.group_arrives.eq(arrives[number])
            m.d.comb += events.bus_has_following.eq(follows[number])


def _any(bits: Iterable[Value]) -> Value:
    """Whether one of these is 1."""
    return Cat(bits).any()
