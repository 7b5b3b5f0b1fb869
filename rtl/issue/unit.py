"""The issue unit: its stages of select, read and count, joined."""

from collections.abc import Iterable
from functools import reduce
from operator import or_
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
from rtl.structs import common_fields, struct_value
from rtl.sweep import Sweep
from rtl.wires import KEEP
from rtl.word import field_of
from rtl.words import Words

from .decode import DEPENDENCY_FORMS
from .operations import OperationArbiter
from .order import WarpPriority
from .ports import unit_ports
from .records import (
    INCOMPLETE,
    RESULTS,
    TIME_BITS,
    BusInstruction,
    Effects,
    IssueBroadcast,
    Limit,
    NextInstruction,
    Resource,
    WarpEvents,
    WarpWaits,
)
from .redirects import Redirects, predicted_branch
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
    """Selects in each cycle an instruction of one warp, or an operation of the lanes that a unit
    requests. ::

        group --> store --- bus ----> warps (a ReadyWarp each) -- ready --> SELECT --> operations
                    ^  ^                 ^                                    | S0
                    |  '- refill queue <-|------------------------------------|
                    |                    |                                    v
                    '--------------------'<--------- effects ---------------- READ --> instruction
                                         |                                    | S1       S2
        result ---> results -------------|                                    v
        lanes, units --> scoreboards ----'<---------------------------------- COUNT S2
        results --> redirects <-- branches that are predicted taken ------------'
                       '--> redirect

    =====  ==========================================================================
    stage  what happens
    =====  ==========================================================================
    S0     one of the ready warps is selected, or operations; see WarpSelector
    S1     word, constant, address and effects are read by the warp's number; the
           effects reach the warp. The bus has the warp's next instruction
    S2     the instruction leaves; scoreboards and flow results count it; the target of a
           branch that is predicted taken is added up. Fetch is redirected to it in S3
    =====  ==========================================================================

    Priority in S0: operations that are due; an instruction; operations that are pending. Of
    instructions, those that pass the lanes if these are free, see WarpSelector; then by
    WarpPriority. Priority on the bus: the first instruction of a group that arrives for a warp
    without instructions; else the next instructions of warps that have issued, in the order of
    issue.

    A direct branch or call that is predicted taken (see rtl.flow_forms) redirects fetch when it
    issues. If all threads surely take it, its warp issues the first instruction at the target as
    soon as that is there: 7 cycles after the selection of the branch if its group is in the cache.
    Else the warp waits for the flow result, which says whether the prediction was right.

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

    That all instructions of a warp are complete is known a cycle after C2, so its selection is one
    later. The limit of its DEPBAR.LE is checked in the cycle after the event, and known a cycle
    after C2 as well: its selection is two later.

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
        Completes PUSH, FLOW and FLOW_INDEXED, which have no other completion.
    lanes : In(Event of scoreboard_event)
        Completes LANES, REFUSED, TRAP, and what a write completes.
    gathered : In(Event of operands_read)
        A gather has read an instruction's registers.
    units : In(array of Event of scoreboard_event), by COMPLETING
        Completes all other instructions but NOTHING and DEPENDENCY, and lowers their scoreboards
        earlier.
    resume : In(1 bit a warp)
        A BARRIER, BARRIER_INDEXED or TRAP instruction is complete, and its warp continues.
    gather_offers, write_offers
        See OperationArbiter.
    rooms : In(unit_rooms)
        Each unit can take UNDER_WAY instructions more than were dispatched to it.
    collecting : In(1)
        Operands of a FLOW_INDEXED or BARRIER_INDEXED instruction are collected: from 4 cycles after
        its selection at the latest, until it is dispatched.
    control : In(WarpControl)
        Of the trap unit: from the next cycle on a warp in ``hold`` issues no instruction; it enters
        the trap, or leaves it, when nothing of it is in flight and its next instruction is there,
        by an ENTER or LEAVE in the place of that one. A warp is ``live`` from the cycle on in which
        its flow_launch was taken until it ends.
    policy : In(Policy)
    instruction : Out(Event of issued)
        Two cycles after it was selected.
    completion : Out(Event of completion)
        Of NOTHING and DEPENDENCY, beside ``instruction``.
    gather, write : Out(Event of offered_operation)
        Operations, two cycles after they were selected: one of each at a time, if there are several
        beats.
    drained : Out(1 bit a warp)
        Nothing of the warp is in flight.
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
        self.redirects = Redirects(params)
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
        self._time = Signal(TIME_BITS, name="time")
        """What stall counts are compared with."""
        self._available = Signal(len(Resource), name="available")
        """See IssueBroadcast."""
        self._collects = Signal(name="collects")
        """See IssueBroadcast."""
        self._selected = Signal(warps, name="selected", attrs=KEEP)
        """S0, one-hot."""
        self._issued = Signal(warps, name="issued", attrs=KEEP)
        """S1, one-hot."""
        self._operations_go = Signal()
        """S0: operations are selected."""
        self._effects: Any = Signal(Effects, name="effects")
        """S1: what becomes of the warp that has issued."""
        self._bus: Any = Signal(BusInstruction, name="bus")
        """S1: what the bus has."""
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
        self._predict(m)
        self._count(m)
        self._connect_priority(m)
        self._connect_warps(m)
        m.d.sync += Assert(
            ~(self.instruction.valid & (self.gather.valid | self.write.valid)),
            "an operation beside an instruction")
        both = self.control.enter & self.control.leave
        m.d.sync += Assert(~both.any(), "a warp enters the trap and leaves it")
        return m

    def _add_parts(self, m: Module) -> None:
        for number, warp in enumerate(self.warps):
            m.submodules[f"warp_{number}"] = warp
        m.submodules.store = self.store
        m.submodules.scoreboards = self.scoreboards
        m.submodules.results = self.results
        m.submodules.redirects = self.redirects
        m.submodules.operations = self.operations
        m.submodules.priority = self.priority
        m.submodules.selector = self.selector
        m.submodules.lane_timer = self.lane_timer
        m.submodules.refill_queue = self.refill_queue
        m.submodules.sweep = self.sweep
        m.submodules.last = self.last

    def _connect_ports(self, m: Module) -> None:
        """Connects the ports that belong to a part."""
        connect(m, flipped(self.group), self.store.group)
        connect(m, flipped(self.lanes), self.scoreboards.lanes)
        connect(m, flipped(self.gathered), self.scoreboards.gathered)
        for outer, inner in zip(self.units, self.scoreboards.units, strict=True):
            connect(m, flipped(outer), inner)
        connect(m, flipped(self.result), self.results.result)
        connect(m, self.results.redirect, self.redirects.result)
        connect(m, self.redirects.redirect, flipped(self.redirect))
        for outer, inner in zip(self.gather_offers, self.operations.gather_offers, strict=True):
            connect(m, flipped(outer), inner)
        for outer, inner in zip(self.write_offers, self.operations.write_offers, strict=True):
            connect(m, flipped(outer), inner)
        connect(m, self.operations.gather, flipped(self.gather))
        connect(m, self.operations.write, flipped(self.write))
        m.d.comb += self.room.eq(Cat(warp.has_room for warp in self.warps))
        m.d.comb += self.control.live.eq(Cat(warp.is_live for warp in self.warps))
        m.d.comb += self.drained.eq(Cat(warp.is_drained for warp in self.warps))

    def _select(self, m: Module) -> None:
        """S0: operations that are due; else an instruction; else other operations. They do not
        replace an instruction that is revoked, either: that is known too late."""
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
        m.d.comb += self.control.taken.eq(self._selected & ~is_injected)
        m.d.sync += was_injected.eq(is_injected)
        m.d.comb += self._issues_injected.eq((self._issued & was_injected).any())

    def _use_lanes(self, m: Module) -> None:
        """S0: what is selected for the lanes."""
        timer = self.lane_timer
        selector = self.selector
        candidate = selector.lanes_candidate & selector.ready_lanes
        is_quarter = Cat(
            warp.next_instruction.requirements.is_quarter for warp in self.warps)
        m.d.comb += timer.starts.eq(selector.lanes_are_used | self._operations_go)
        m.d.comb += timer.quarter_starts.eq(
            selector.lanes_are_used & (candidate & is_quarter).any())

    def _find_resources(self, m: Module) -> None:
        """Which resources have room for an instruction that is selected in the next cycle. From two
        cycles after the selection of an instruction whose operands are collected until its dispatch
        the flow and the barrier unit have none, for no instruction, ENTER and LEAVE included. An
        instruction of a quarter of the rate completes in a cycle in which nothing else may send
        events of the lanes."""
        rooms = self.rooms
        available = self._available
        selector = self.selector
        is_collected = Cat(
            warp.next_instruction.requirements.is_collected for warp in self.warps)
        recent = Signal(_COLLECTING_CYCLES)
        starts_collecting = selector.lanes_are_used & (
            selector.lanes_candidate & is_collected).any()
        m.d.sync += recent.eq(Cat(starts_collecting, recent))
        can_collect = ~recent.any() & ~self.collecting
        may_send_events = self.scoreboards.room & ~self.lane_timer.quarter_completes
        m.d.comb += available[Resource.NONE].eq(1)
        m.d.comb += available[Resource.FLOW].eq(
            rooms.flow & can_collect & self.redirects.has_room)
        m.d.comb += available[Resource.MEMORY].eq(rooms.memory)
        m.d.comb += available[Resource.CONVERSION].eq(rooms.conversion)
        m.d.comb += available[Resource.BARRIER].eq(rooms.barrier & can_collect)
        m.d.comb += available[Resource.TRAP].eq(rooms.trap & may_send_events)
        m.d.comb += available[Resource.EVENTS].eq(may_send_events)
        if self._params.beats == 1:
            # With several beats the lanes are busy until ``recent`` has its effect.
            is_ready = selector.ready_lanes | selector.ready_others
            m.d.comb += self._collects.eq((is_ready & is_collected).any())

    def _count_events(self, m: Module) -> None:
        """Events, two cycles later: reasons are gathered in one, and count in the next."""
        events = self.events
        selector = self.selector
        is_idle = Signal()
        waits: Any = Signal(WarpWaits)
        seen: Any = Signal(IssueEvents)
        m.d.sync += is_idle.eq(~selector.is_selected & ~self._operations_go)
        m.d.comb += waits.eq(reduce(or_, (warp.waits.as_value() for warp in self.warps)))
        m.d.sync += common_fields(seen, waits)
        m.d.sync += seen.lanes.eq(selector.ready_lanes.any() & ~self.lane_timer.free)
        m.d.sync += events.eq(0)
        with m.If(is_idle):
            m.d.sync += events.eq(seen)
        m.d.sync += events.idle.eq(is_idle)
        m.d.sync += events.operation.eq(self.operations.was_granted)
        m.d.sync += events.issued.eq(self._issued.any() & ~self._issues_injected)

    def _read(self, m: Module) -> None:
        """S1: what was selected, and what becomes of its warp."""
        store = self.store
        effects = self._effects
        m.d.comb += store.is_injected.eq(self._issues_injected)
        m.d.comb += store.leaves_trap.eq((self._issued & self.control.leave).any())
        m.d.comb += effects.eq(store.effects)
        with m.If(self._issues_injected):
            # The warp continues with its flow result.
            m.d.comb += effects.raises.eq(1 << RESULTS)
            m.d.comb += effects.blocks.eq(0)
            m.d.comb += effects.blocks.until_results.eq(1)

    def _refill(self, m: Module) -> None:
        """S1: the bus has what decides when an instruction can issue, for its warp."""
        store = self.store
        queue = self.refill_queue
        following = store.following
        arrives = _any(warp.takes_arriving for warp in self.warps)
        m.d.comb += queue.arriving.valid.eq(self._issued.any())
        m.d.comb += queue.arriving.payload.eq(store.warp)
        m.d.comb += queue.head.ready.eq(~arrives)
        m.d.comb += store.following_warp.eq(queue.head.payload)
        m.d.comb += store.bus_has_arriving.eq(arrives)
        m.d.comb += store.bus_is_taken.eq(_any(warp.takes_bus for warp in self.warps))

        next_instruction = struct_value(
            NextInstruction,
            requirements=store.bus,
            resource=one_hot(store.bus.resource, len(Resource)),
            ends_group=store.bus_ends_group)
        following_can_issue = (
            ~following.has_waits & ~(following.is_collected & self._collects)
            & self._available.bit_select(following.resource, 1))
        m.d.comb += self._bus.eq(struct_value(
            BusInstruction,
            instruction=next_instruction,
            is_arriving=arrives,
            can_issue=~arrives & following_can_issue))

    def _leave(self, m: Module) -> None:
        """S2: the instruction. One that is done when it issues is complete beside it."""
        store = self.store
        leaving = self.instruction.payload
        done = self.completion
        m.d.sync += self.instruction.valid.eq(self._issued.any())
        m.d.sync += leaving.warp.eq(store.warp)
        m.d.sync += leaving.sequence.eq(leaving.sequence + self.instruction.valid)
        m.d.comb += leaving.pc.eq(store.pc)
        m.d.comb += common_fields(leaving, store.instruction)
        self.last.write(m, self.instruction.valid, leaving.warp, leaving.pc)

        raises = self.scoreboards.counted.payload.raises
        m.d.comb += done.valid.eq(
            self.instruction.valid & ~raises[INCOMPLETE] & ~raises[RESULTS])
        m.d.comb += done.payload.eq(struct_value(
            done.payload.shape(), warp=leaving.warp, sequence=leaving.sequence,
            write_barrier=NO_BARRIER, read_barrier=NO_BARRIER))

    def _predict(self, m: Module) -> None:
        """S2: a branch that is predicted taken redirects fetch. If the result of a push is to come
        when it issues, its warp waits for that, since a push may fail."""
        stored = self.store.instruction
        branch = self.redirects.branch
        awaits_push = Cat(warp.awaits_push for warp in self.warps)
        awaited_push = Signal()
        m.d.sync += awaited_push.eq((self._issued & awaits_push).any())
        m.d.comb += branch.valid.eq(self.instruction.valid & stored.is_predicted)
        m.d.comb += branch.payload.eq(struct_value(
            predicted_branch(self._params),
            warp=self.instruction.payload.warp,
            pc=self.store.pc,
            word=stored.word,
            is_unconditional=stored.is_unconditional & ~awaited_push))

    def _count(self, m: Module) -> None:
        """S2: scoreboards and flow results count what leaves."""
        leaving = self.instruction.payload
        results = self.results
        counted = self.scoreboards.counted
        effects: Any = Signal(Effects, name="leaving_effects")
        at_most = DEPENDENCY_FORMS["at_most"].fields
        limit = struct_value(
            Limit,
            scoreboard=field_of(leaving.word, at_most["scoreboard"]),
            most=field_of(leaving.word, at_most["count"]))
        m.d.sync += effects.eq(self._effects)
        m.d.comb += self.scoreboards.time.eq(self._time)
        m.d.comb += counted.valid.eq(self.instruction.valid)
        m.d.comb += counted.payload.eq(struct_value(
            counted.payload.shape(),
            warp=leaving.warp,
            raises=effects.raises,
            has_limit=effects.blocks.until_limit,
            limit=limit))

        m.d.comb += results.is_starting.eq(Cat(warp.is_starting for warp in self.warps))
        m.d.comb += results.issued.valid.eq(
            self.instruction.valid & counted.payload.raises[RESULTS])
        m.d.comb += results.issued.payload.eq(leaving.warp)
        m.d.comb += results.blocks.eq(
            (leaving.kind != InstructionKind.PUSH) & ~self.redirects.needs_no_result)

    def _connect_priority(self, m: Module) -> None:
        """Updates the priorities."""
        priority = self.priority
        launched = self.launched
        m.d.comb += priority.policy.eq(self.policy)
        m.d.comb += priority.issued.eq(self._issued)
        m.d.comb += priority.no_yield.eq(self._effects.no_yield)
        m.d.comb += priority.launched.eq(
            one_hot(launched.payload, self._params.warps, launched.valid))

    def _connect_warps(self, m: Module) -> None:
        """What happens to each warp, and what all of them have to know."""
        warps = self._params.warps
        scoreboards = self.scoreboards
        results = self.results
        broadcast: Any = Signal(IssueBroadcast)
        m.d.sync += self._time.eq(self._time + 1)
        m.d.comb += broadcast.eq(struct_value(
            IssueBroadcast,
            time=self._time,
            result_is_last=results.is_last,
            result_terminates=self.result.payload.terminated,
            zero=scoreboards.zero,
            available=self._available,
            collects=self._collects,
            lanes_are_free=self.lane_timer.free,
            effects=self._effects,
            bus=self._bus))

        refilled = self.refill_queue.head
        launched = one_hot(self.launched.payload, warps, self.launched.valid)
        has_result = one_hot(self.result.payload.warp, warps, self.result.valid)
        flushed = one_hot(self.redirect.payload.warp, warps, self.redirect.valid)
        needs_no_result = flushed & self.redirects.is_final.replicate(warps)
        claimed = one_hot(self.claimed.payload, warps, self.claimed.valid)
        arrives = one_hot(self.group.payload.warp, warps, self.group.valid)
        follows = one_hot(refilled.payload, warps, refilled.valid)
        for number, warp in enumerate(self.warps):
            m.d.comb += warp.broadcast.eq(broadcast)
            m.d.comb += warp.events.eq(struct_value(
                WarpEvents,
                is_launched=launched[number],
                has_result=has_result[number],
                is_flushed=flushed[number],
                is_revoked=results.revoked[number],
                needs_no_result=needs_no_result[number],
                counts_are_zero=scoreboards.lowered[number],
                is_complete=scoreboards.complete[number],
                has_all_results=results.settled[number],
                meets_limit=scoreboards.low[number],
                is_full=scoreboards.full[number],
                is_resumed=self.resume[number],
                is_held=self.control.hold[number],
                enters_trap=self.control.enter[number],
                leaves_trap=self.control.leave[number],
                is_selected=self._selected[number],
                has_issued=self._issued[number],
                group_is_claimed=claimed[number],
                group_arrives=arrives[number],
                bus_has_following=follows[number]))


def _any(bits: Iterable[Value]) -> Value:
    """Whether one of these is 1."""
    return Cat(bits).any()
