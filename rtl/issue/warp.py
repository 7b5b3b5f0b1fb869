"""A warp in issue: the state that is read of all warps in one cycle."""

from typing import Any

from amaranth.hdl import Assert, Cat, Module, Signal
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.control_code import SCOREBOARDS
from rtl.layouts import WaitReason
from rtl.wires import KEEP

from .records import (
    BUFFERED_GROUPS,
    INCOMPLETE,
    PENDING_BITS,
    RESULTS,
    TIME_BITS,
    Blocks,
    IssueBroadcast,
    NextInstruction,
    Resource,
    WarpEvents,
    WarpWaits,
)

__all__ = ["ReadyWarp"]


class ReadyWarp(Component):
    """A warp's state, its next instruction, and whether that one is ready to be selected.

    Readiness is judged a cycle ahead: in cycle T from what is known in T, for a selection in
    T + 1. A warp that is selected in T is never ready in T + 1. ::

        S0  selected         ready -> 0, its instruction is taken
        S1  has issued       pending, stall and blocks become those after the instruction; the bus
                             has the next one, which is judged on the bus if it waits for nothing
        S2                   that one is selected, or is judged like any other

    =============================  ========================================================
    what                           first selection that it allows or prevents
    =============================  ========================================================
    stall, resources, hold,        a cycle later
    resume, the last flow result
    a scoreboard that is zero,     two cycles later: it clears ``pending`` or ``blocks``, which
    is_complete, meets_limit,      are judged in the next cycle. Scoreboards take two cycles
    has_all_results                (lanes, gathers) or three (units) before; see IssueUnit
    what issues                    judged from S1 on. Only an instruction that waits for
                                   nothing can become ready in S1, since ``pending`` does not
                                   have yet what the one before it raises
    a flow result that leads       none: the warp is revoked in the cycle after the result,
    elsewhere                      late, and flushed then or when fetch is redirected
    a branch that is predicted     prevents all from S1 on, until the warp is flushed in S3
    taken
    =============================  ========================================================

    An ENTER or LEAVE is selected like the next instruction, which must be ``valid`` and is used up.
    The warp's buffered instructions then are out of step by one: its flow result flushes them.

    Members
    -------
    events, broadcast : In(WarpEvents), In(IssueBroadcast)
    ready_lanes, ready_others : Out(1)
        It is ready with an instruction that passes the lanes, or with another one; never both.
    may_be_ready : Out(1)
        It is ready, or its readiness is revoked in this cycle; known early in the cycle.
    is_injected : Out(1)
        Beside ``ready_others``: what would be selected is an ENTER or LEAVE in the place of the
        next instruction.
    next_instruction : Out(NextInstruction)
        Without meaning while the warp has none.
    takes_arriving : Out(1)
        It has no instruction, and a group arrives: the bus has to bring the first one of that.
    takes_bus : Out(1)
        It takes the instruction on the bus.
    has_room : Out(1)
        There is a place for a group that none has claimed.
    is_live, is_drained : Out(1)
        Its flow_launch was taken, and it has not ended; nothing of it is in flight.
    awaits_push : Out(1)
        Flow results are to come, among them one of a PUSH, which may fail.
    is_starting : Out(1)
        It waits for the result of its flow_launch.
    waits : Out(WarpWaits)
        Why it does not issue, for counters.
    reason : Out(WaitReason)
        The same, for observers.

    Attributes
    ----------
    runs : 1
        It has started, and has not ended.
    pending : PENDING_BITS
    blocks : Blocks
    requirements : Requirements
        Of its next instruction, if that is ``valid``.
    """

    def __init__(self) -> None:
        super().__init__({
            "events": In(WarpEvents),
            "broadcast": In(IssueBroadcast),
            "ready_lanes": Out(1),
            "ready_others": Out(1),
            "may_be_ready": Out(1),
            "is_injected": Out(1),
            "next_instruction": Out(NextInstruction),
            "takes_arriving": Out(1),
            "takes_bus": Out(1),
            "has_room": Out(1),
            "is_live": Out(1),
            "is_drained": Out(1),
            "awaits_push": Out(1),
            "is_starting": Out(1),
            "waits": Out(WarpWaits),
            "reason": Out(WaitReason),
        })
        self.runs = Signal()
        self.pending = Signal(PENDING_BITS)
        self.blocks: Any = Signal(Blocks)
        self.requirements: Any = self.next_instruction.requirements
        self.valid = Signal()
        self.stall_was_over = Signal(init=1)
        """The stall count had run out in the cycle before."""
        self.stall_end = Signal(TIME_BITS)
        """The time at which it runs out."""

        self._is_resumed = Signal()
        """The unit that the warp waits for releases it."""
        self._has_last_result = Signal()
        """The last flow result comes that the warp waits for."""
        self._stall_is_over = Signal()
        self._takes_following = Signal()
        """It takes its next instruction from the bus, unless that has a group's that arrives."""
        self._hazards = Signal(PENDING_BITS)
        """What is pending and the next instruction waits for."""
        self._has_resource = Signal()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._follow_life(m)
        self._follow_pending(m)
        self._follow_blocks(m)
        self._follow_stall(m)
        self._take_instructions(m)
        self._find_hazards(m)
        self._become_ready(m)
        self._explain(m)
        self._promise(m)
        return m

    def _follow_life(self, m: Module) -> None:
        """From the flow_launch to the result that ends the warp."""
        events = self.events
        m.d.comb += self.is_live.eq(self.is_starting | self.runs)
        with m.If(events.is_launched):
            m.d.sync += self.runs.eq(0)
        with m.Elif(events.has_result):
            m.d.sync += self.runs.eq(~self.broadcast.result_terminates & self.is_live)
        with m.If(events.has_result):
            m.d.sync += self.is_starting.eq(0)
        with m.Elif(events.is_launched):
            m.d.sync += self.is_starting.eq(1)

    def _follow_pending(self, m: Module) -> None:
        """What is pending. An instruction that issues raises it; events lower it. A unit that
        resumes the warp has completed its instruction, which may be counted later."""
        events = self.events
        pending = self.pending
        completes = Signal(attrs=KEEP)
        gets_results = Signal(attrs=KEEP)
        m.d.comb += self._is_resumed.eq(self.blocks.until_resumed & events.is_resumed)
        m.d.comb += self._has_last_result.eq(events.has_result & self.broadcast.result_is_last)
        m.d.comb += completes.eq(events.is_complete | self._is_resumed)
        m.d.comb += gets_results.eq(events.has_all_results | self._has_last_result)

        lowered = Signal(PENDING_BITS)
        raised = Signal(PENDING_BITS)
        with m.If(events.counts_are_zero):
            m.d.comb += lowered[:SCOREBOARDS].eq(self.broadcast.zero)
        m.d.comb += lowered[INCOMPLETE].eq(completes)
        m.d.comb += lowered[RESULTS].eq(gets_results)
        with m.If(events.has_issued):
            m.d.comb += raised.eq(self.broadcast.effects.raises)
        m.d.sync += pending.eq((pending & ~lowered) | raised)

        effects = self.broadcast.effects
        is_push = effects.raises[RESULTS] & ~effects.blocks.until_results
        with m.If(events.has_issued & is_push):
            m.d.sync += self.awaits_push.eq(1)
        with m.Elif(gets_results):
            m.d.sync += self.awaits_push.eq(0)

        is_pending = pending[INCOMPLETE] | pending[RESULTS]
        m.d.comb += self.is_drained.eq(~is_pending & ~events.has_issued & ~self.is_starting)

    def _follow_blocks(self, m: Module) -> None:
        """What the last instruction blocks, and what ends that. ``until_results`` is not cleared by
        a result: it blocks while RESULTS is pending. The result of the flow_launch, and one that
        leads elsewhere, block until fetch is redirected: a cycle later, or more."""
        events = self.events
        blocks = self.blocks
        remaining: Any = Signal(Blocks)
        m.d.comb += remaining.until_results.eq(blocks.until_results & ~events.needs_no_result)
        is_revoked = events.is_revoked & self.runs
        starts = events.has_result & self.is_starting
        m.d.comb += remaining.until_redirected.eq(
            starts | ((blocks.until_redirected | is_revoked) & ~events.is_flushed))
        m.d.comb += remaining.until_resumed.eq(blocks.until_resumed & ~events.is_resumed)
        m.d.comb += remaining.until_limit.eq(blocks.until_limit & ~events.meets_limit)
        m.d.comb += remaining.until_drained.eq(blocks.until_drained & ~self.is_drained)
        with m.If(events.is_launched):
            m.d.sync += blocks.eq(0)
        with m.Elif(events.has_issued):
            m.d.sync += blocks.eq(self.broadcast.effects.blocks)
        with m.Else():
            m.d.sync += blocks.eq(remaining)

    def _follow_stall(self, m: Module) -> None:
        """The stall count. It becomes a time, which is compared: no counter has to count down."""
        events = self.events
        time = self.broadcast.time
        m.d.comb += self._stall_is_over.eq(
            self.stall_was_over | (~events.has_issued & (self.stall_end == time)))
        with m.If(events.is_selected):
            m.d.sync += self.stall_was_over.eq(self.requirements.has_short_stall)
        with m.Else():
            m.d.sync += self.stall_was_over.eq(self._stall_is_over)
        with m.If(events.has_issued):
            m.d.sync += self.stall_end.eq(time + self.broadcast.effects.stall)

    def _take_instructions(self, m: Module) -> None:
        """The next instruction, from the bus; and the warp's groups. A group's place is free when
        its last instruction has issued."""
        events = self.events
        broadcast = self.broadcast
        stored = Signal(BUFFERED_GROUPS)
        claimed = Signal(BUFFERED_GROUPS)
        group_ends = Signal()
        has_following = Signal()
        m.d.comb += group_ends.eq(events.has_issued & self.next_instruction.ends_group)
        m.d.comb += has_following.eq(stored[1] | (stored[0] & ~group_ends))
        m.d.comb += self.takes_arriving.eq(events.group_arrives & ~self.valid & ~has_following)
        m.d.comb += self._takes_following.eq(
            events.bus_has_following & ~self.valid & has_following)
        m.d.comb += self.takes_bus.eq(
            self.takes_arriving | (self._takes_following & ~broadcast.bus.is_arriving))
        with m.If(self.takes_bus):
            m.d.sync += self.next_instruction.eq(broadcast.bus.instruction)
        with m.If(events.is_flushed | events.is_selected):
            m.d.sync += self.valid.eq(0)
        with m.Elif(self.takes_bus):
            m.d.sync += self.valid.eq(1)

        self._count_groups(m, stored, events.group_arrives, group_ends)
        self._count_groups(m, claimed, events.group_is_claimed, group_ends)
        m.d.comb += self.has_room.eq(self.runs & (~claimed[-1] | group_ends))

    def _count_groups(self, m: Module, groups: Signal, comes: Any, ends: Any) -> None:
        """Counts groups in unary: bit n says that there are more than n."""
        with m.If(self.events.is_flushed):
            m.d.sync += groups.eq(0)
        with m.Elif(comes & ends):
            m.d.sync += groups[0].eq(1)
        with m.Elif(comes):
            m.d.sync += groups.eq(Cat(1, groups))
        with m.Elif(ends):
            m.d.sync += groups.eq(groups >> 1)
        m.d.sync += Assert(~(comes & groups[-1] & ~ends), "a group comes that has no place")
        m.d.sync += Assert(~groups[1] | groups[0], "a second group without a first one")

    def _find_hazards(self, m: Module) -> None:
        """What the next instruction lacks. Only these count in the cycle in which they arrive:
        ``resume``, the last flow result and the room of resources (here), and the end of the stall.
        All else clears ``pending`` or ``blocks`` first, and counts a cycle later."""
        requirements = self.requirements
        broadcast = self.broadcast
        waits_for = Signal(PENDING_BITS)
        m.d.comb += waits_for.eq(requirements.waits_for)
        with m.If(self.blocks.until_results):
            m.d.comb += waits_for[RESULTS].eq(1)
        m.d.comb += self._hazards.eq(waits_for & self.pending)
        with m.If(self._is_resumed):
            m.d.comb += self._hazards[INCOMPLETE].eq(0)
        with m.If(self._has_last_result):
            m.d.comb += self._hazards[RESULTS].eq(0)

        has_room = ~(self.next_instruction.resource & ~broadcast.available).any()
        m.d.comb += self._has_resource.eq(
            has_room & ~(requirements.is_collected & broadcast.collects))

    def _become_ready(self, m: Module) -> None:
        """Ready in the next cycle, for one of three reasons. The pc in a flow result is known late
        in its cycle: the warp is judged as if it were that of the next instruction in memory, and
        its selection is revoked in the next cycle if it is not."""
        events = self.events
        blocks = self.blocks
        broadcast = self.broadcast
        is_blocked = (
            (blocks.until_resumed & ~events.is_resumed) | blocks.until_limit
            | blocks.until_drained | blocks.until_redirected)
        is_stopped = Signal()
        m.d.comb += is_stopped.eq(
            events.is_full | events.is_held | events.enters_trap | events.leaves_trap)

        # Its next instruction, which it has.
        can_issue = Signal(attrs=KEEP)
        m.d.comb += can_issue.eq(
            self.runs & ~is_blocked & ~is_stopped & self.valid
            & self._stall_is_over & ~self._hazards.any() & self._has_resource)
        # The instruction on the bus, the next one after that selected in the cycle before. What
        # that one changes is not in the warp's registers yet, so this one must wait for nothing.
        can_follow = Signal(attrs=KEEP)
        m.d.comb += can_follow.eq(
            self._takes_following & events.has_issued & self.stall_was_over & ~is_stopped)
        # An ENTER or LEAVE, in the place of the next instruction, which must be there.
        can_inject = Signal(attrs=KEEP)
        m.d.comb += can_inject.eq(
            (events.enters_trap | events.leaves_trap) & self.is_drained
            & ~blocks.until_redirected & self.valid & self.runs
            & broadcast.available[Resource.FLOW])

        was_ready = Signal()
        with m.If(events.is_flushed | events.is_revoked | events.is_selected):
            m.d.sync += was_ready.eq(0)
            m.d.sync += self.is_injected.eq(0)
        with m.Else():
            m.d.sync += was_ready.eq(
                can_issue | can_inject | (can_follow & broadcast.bus.can_issue))
            m.d.sync += self.is_injected.eq(can_inject)

        is_ready = was_ready & ~events.is_revoked
        uses_lanes = self.requirements.uses_lanes & ~self.is_injected
        ready_lanes = Signal(attrs=KEEP)
        ready_others = Signal(attrs=KEEP)
        m.d.comb += ready_lanes.eq(is_ready & uses_lanes)
        m.d.comb += ready_others.eq(is_ready & ~uses_lanes)
        m.d.comb += self.ready_lanes.eq(ready_lanes)
        m.d.comb += self.ready_others.eq(ready_others)
        m.d.comb += self.may_be_ready.eq(was_ready)

    def _explain(self, m: Module) -> None:
        """Why it does not issue: the first of these that holds."""
        events = self.events
        blocks = self.blocks
        reason = self.reason
        waits = self.waits
        waits_for_scoreboard = (
            self._hazards[:SCOREBOARDS].any() | events.is_full | blocks.until_limit)
        with m.If(~self.is_live):
            m.d.comb += reason.eq(WaitReason.NOT_LIVE)
        with m.Elif(
                self.is_starting | blocks.until_redirected
                | (blocks.until_results & self.pending[RESULTS])):
            m.d.comb += reason.eq(WaitReason.FLOW)
            m.d.comb += waits.held.eq(1)
        with m.Elif(blocks.until_drained):
            m.d.comb += reason.eq(WaitReason.DRAIN)
            m.d.comb += waits.held.eq(1)
        with m.Elif(blocks.until_resumed):
            m.d.comb += reason.eq(WaitReason.RESUME)
            m.d.comb += waits.held.eq(1)
        with m.Elif(events.is_held):
            m.d.comb += reason.eq(WaitReason.TRAP)
            m.d.comb += waits.held.eq(1)
        with m.Elif(~self.stall_was_over | events.has_issued):
            m.d.comb += reason.eq(WaitReason.STALL)
            m.d.comb += waits.stall.eq(1)
        with m.Elif(~self.valid):
            m.d.comb += reason.eq(WaitReason.FETCH)
            m.d.comb += waits.fetch.eq(1)
        with m.Elif(waits_for_scoreboard):
            m.d.comb += reason.eq(WaitReason.SCOREBOARD)
            m.d.comb += waits.scoreboard.eq(1)
        with m.Elif(self._hazards[SCOREBOARDS:].any()):
            m.d.comb += reason.eq(WaitReason.DRAIN)
            m.d.comb += waits.held.eq(1)
        with m.Elif(~self._has_resource):
            m.d.comb += reason.eq(WaitReason.UNIT)
            m.d.comb += waits.unit.eq(1)
        with m.Elif(self.ready_lanes & ~self.broadcast.lanes_are_free):
            m.d.comb += reason.eq(WaitReason.LANES)
        with m.Else():
            m.d.comb += reason.eq(WaitReason.READY)

    def _promise(self, m: Module) -> None:
        """What is promised to the warp, and what it promises."""
        events = self.events
        m.d.sync += Assert(
            ~(events.is_selected & ~(self.valid & self.is_live)),
            "a warp issues that has ended, or nothing to issue")
        m.d.sync += Assert(
            ~(events.is_launched & events.has_result),
            "a flow result comes of a warp that is launched")
        m.d.sync += Assert(
            ~(events.has_issued & (self.ready_lanes | self.ready_others)),
            "a warp is ready in the cycle after it was selected")
