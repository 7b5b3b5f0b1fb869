"""When a warp may issue."""

from typing import Any

from amaranth.hdl import Array, Module, Mux, Shape, Signal
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.layouts import InstructionKind

from .buffer import GroupBuffer
from .records import WaitReason
from .scoreboards import COUNTER_BITS, Scoreboards

__all__ = ["FLOW_KINDS", "KIND_CODES", "LANE_KINDS", "SILENT_KINDS", "WarpScheduler", "among"]

KIND_CODES = 1 << Shape.cast(InstructionKind).width
INJECTED_KINDS = (InstructionKind.ENTER, InstructionKind.LEAVE)
"""What the trap unit has a warp do."""
FLOW_KINDS = (InstructionKind.PUSH, InstructionKind.FLOW, InstructionKind.FLOW_INDEXED, InstructionKind.FLOW_READ,
              *INJECTED_KINDS)
"""What the flow unit gives a result for."""
LANE_KINDS = (InstructionKind.LANES, InstructionKind.FLOW_INDEXED, InstructionKind.BARRIER_INDEXED)
"""What passes through the lanes when it issues."""
SILENT_KINDS = (InstructionKind.PUSH, InstructionKind.FLOW, InstructionKind.FLOW_INDEXED, InstructionKind.NOTHING,
                InstructionKind.DEPENDENCY, *INJECTED_KINDS)
"""What is complete with its flow result, or when it issues: no completion is awaited, no scoreboard raised."""
_UNTIL_RESULT = (InstructionKind.FLOW, InstructionKind.FLOW_INDEXED, InstructionKind.FLOW_READ, *INJECTED_KINDS)
_UNTIL_COMPLETE = (InstructionKind.FLOW_READ,)
_AFTER_ALL = (InstructionKind.BARRIER, InstructionKind.BARRIER_INDEXED)
"""What issues when everything before it is complete: behind a barrier, compiled code overwrites the operands of stores
before it that have no read barrier."""
_BEHIND_ALL = (InstructionKind.TRAP,)
"""What issues when everything before it is complete and all its errors are known."""
_UNTIL_RESUMED = (InstructionKind.BARRIER, InstructionKind.BARRIER_INDEXED, InstructionKind.TRAP)
_IN_FLIGHT_BITS = 6
_RESULTS_BITS = 4


def among(kind: Any, kinds: tuple[InstructionKind, ...]) -> Any:
    """Whether a kind is one of these."""
    return kind.as_value().matches(*kinds)


class WarpScheduler(Component):
    """A warp's state, its buffer and its scoreboards.

    Parameters
    ----------
    completions, reads : int
        How many sources of completions there are, and of operands_read.

    Members
    -------
    launched : In(1)
        A new warp is in the slot; it waits for a flow result.
    result, same, terminated : In(1)
        A flow result: of it, whether the warp goes on behind the instruction it issued last, or has ended.
    completed : In(completions)
        Instructions that are complete.
    resume : In(1)
        The barrier or the trap unit lets the warp go.
    hold, enter, leave : In(1)
        The trap unit does not let it issue; has it enter the trap, or leave it, once nothing of it is in flight. It
        then waits no longer to be let go.
    available : In(1 bit a kind)
        What can be issued in this cycle.
    taken : In(1)
        The instruction at the head is selected.
    ready, kind, injects, reason : Out(1), Out(InstructionKind), Out(1), Out(WaitReason)
        It can issue; what, and whether that is no instruction but has the place of the one at the head; why not.
    live, drained, redirects : Out(1)
        It has been launched and has not ended; none of its instructions is in flight; it goes on elsewhere, which
        empties the buffer.
    buffer : GroupBuffer
    scoreboards : Scoreboards
    """

    def __init__(self, completions: int, reads: int) -> None:
        self.buffer = GroupBuffer()
        self.scoreboards = Scoreboards(2 * completions + reads)
        super().__init__({
            "launched": In(1), "result": In(1), "same": In(1), "terminated": In(1), "completed": In(completions),
            "resume": In(1), "hold": In(1), "enter": In(1), "leave": In(1), "available": In(KIND_CODES),
            "taken": In(1), "ready": Out(1), "kind": Out(InstructionKind), "injects": Out(1),
            "reason": Out(WaitReason), "live": Out(1), "drained": Out(1), "redirects": Out(1),
            "room": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.buffer = buffer = self.buffer
        m.submodules.scoreboards = scoreboards = self.scoreboards
        head, kind = buffer.head, self.kind
        begins = Signal()       # launched, and no result yet
        until_result, until_complete, until_resumed = Signal(), Signal(), Signal()
        results, in_flight = Signal(_RESULTS_BITS), Signal(_IN_FLIGHT_BITS)
        stall = Signal.like(head.stall)
        raising = Signal()      # what issued last raises its scoreboards, which the counters show a cycle later

        # What it waits for.
        m.d.comb += [
            self.injects.eq(self.enter | self.leave),
            kind.eq(Mux(self.injects, Mux(self.enter, InstructionKind.ENTER, InstructionKind.LEAVE), head.kind))]
        counter = Array([*scoreboards.counters, *[0] * (8 - len(scoreboards.counters))])[head.scoreboard]
        below = Signal(COUNTER_BITS)
        m.d.comb += below.eq(counter)
        clear, counts, drains = Signal(), Signal(), Signal()
        m.d.comb += [
            counts.eq(kind == InstructionKind.DEPENDENCY),
            drains.eq(among(kind, _AFTER_ALL) & (in_flight != 0) | among(kind, _BEHIND_ALL) & ~self.drained)]
        m.d.comb += clear.eq(~((head.wait & ~scoreboards.zero).any() | head.limited & (below > head.count)
                               | counts & raising | scoreboards.crowded | results.all() | in_flight.all()))
        available = self.available.bit_select(kind.as_value(), 1)
        m.d.comb += [
            self.ready.eq(self.live & ~until_result & ~until_complete & buffer.valid & available & Mux(
                self.injects, self.drained, ~self.hold & ~until_resumed & (stall == 0) & clear & ~drains)),
            self.drained.eq((in_flight == 0) & (results == 0)), self.room.eq(self.live & ~begins & buffer.room)]
        m.d.comb += self.reason.eq(self._reason([
            (~self.live, WaitReason.NOT_LIVE), (until_result, WaitReason.FLOW), (self.hold, WaitReason.TRAP),
            (until_resumed, WaitReason.RESUME), (until_complete, WaitReason.DRAIN),
            (~buffer.valid, WaitReason.FETCH), (stall != 0, WaitReason.STALL), (~clear, WaitReason.SCOREBOARD),
            (drains, WaitReason.DRAIN), (available, WaitReason.READY),
            (among(kind, LANE_KINDS), WaitReason.LANES)]))

        # Issue.
        flow = self.taken & among(kind, FLOW_KINDS)
        counted = self.taken & ~among(kind, SILENT_KINDS)
        m.d.comb += buffer.taken.eq(self.taken)
        m.d.sync += raising.eq(self.taken)
        with m.If(self.taken):
            m.d.sync += [
                stall.eq(head.stall), until_result.eq(among(kind, _UNTIL_RESULT)),
                until_complete.eq(among(kind, _UNTIL_COMPLETE) | head.alone & ~self.injects),
                until_resumed.eq(among(kind, _UNTIL_RESUMED))]
        with m.Elif(stall != 0):
            m.d.sync += stall.eq(stall - 1)
        with m.If(counted | self.completed.any()):
            m.d.sync += in_flight.eq(in_flight + counted - sum(self.completed[source]
                                                               for source in range(len(self.completed))))
        with m.If(flow | self.result | self.launched):
            m.d.sync += results.eq(results + flow + self.launched - self.result)

        # Go on.
        with m.If(self.resume):
            m.d.sync += until_resumed.eq(0)
        with m.If(until_complete & self.drained):
            m.d.sync += until_complete.eq(0)
        decides = self.result & until_result & (results == 1)
        m.d.comb += [
            self.redirects.eq(decides & ~self.terminated & (begins | ~self.same)), buffer.flush.eq(self.redirects)]
        with m.If(decides):
            m.d.sync += [until_result.eq(0), begins.eq(0)]
        with m.If(self.result & self.terminated):
            m.d.sync += self.live.eq(0)
        with m.If(self.launched):
            m.d.sync += [
                self.live.eq(1), begins.eq(1), until_result.eq(1), until_complete.eq(0), until_resumed.eq(0),
                stall.eq(0)]
        return m

    def _reason(self, reasons: list[tuple[Any, WaitReason]]) -> Any:
        """The first reason that holds; UNIT if none does."""
        found: Any = WaitReason.UNIT.value
        for holds, reason in reversed(reasons):
            found = Mux(holds, reason.value, found)
        return found
