"""A warp: what must be seen of all warps in one cycle."""

from typing import Any

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.control_code import GROUP_INSTRUCTIONS, SCOREBOARDS

from .records import (
    BUFFERED_GROUPS,
    COMPLETE,
    COUNTS,
    RESULTS,
    TIME_BITS,
    Control,
    Head,
    Need,
    Place,
    WaitReason,
    WarpState,
)

__all__ = ["NEEDS", "ReadyWarp"]

NEEDS = 1 << Need.as_shape().width
_LAST = GROUP_INSTRUCTIONS - 1
_HEADS = 2


class ReadyWarp(Component):
    """A warp's state, the next two of its instructions, and whether the first of them can be selected: known a cycle
    before. A warp is never ready in the cycle after it was selected.

    Members
    -------
    launched : In(1)
        A new warp is in the slot.
    result, over, same, terminated : In(1)
        A flow result of it; if so, whether it is the last one, of an instruction that holds the warp; whether the warp
        goes on behind the instruction it issued last; whether it has ended.
    flush : In(1)
        It goes on elsewhere: what is here of it counts for nothing.
    lowered, zero : In(1), In(SCOREBOARDS)
        Those of its scoreboards are zero now, if ``lowered``.
    settled : In(2)
        All its instructions are complete now; no flow result is to come.
    low : In(1)
        The scoreboard that a DEPBAR.LE has named is as low as that says.
    full : In(1)
        As many of its instructions are in flight as may be.
    resume, hold, enter, leave : In(1)
        See IssueUnit.
    available : In(1 bit a Need)
        Who has room.
    alone : In(1)
        Nothing becomes ready whose operands are collected.
    time : In(TIME_BITS)
        Counts cycles.
    taken, issued, control : In(1), In(1), In(Control)
        It is selected in this cycle; it was in the cycle before, and this follows.
    claimed, arrives, entry, first : In
        A group will come; comes, at this entry, and the warp begins at number ``first`` of it if it has no others.
    offered : In(1)
        The bus brings the next instruction of what is stored, which is at ``next``, unless the bus is ``busy`` with one
        that arrives; that one is for a warp that is ``empty``.
    bus, busy : In(Head), In(1)
    empty, wants, starving, next : Out(1), Out(1), Out(1), Out(Place)
        Nothing of it is here; something is stored, and there is room to look at it; and nothing else is looked at.
    lanes, others : Out(1)
        It is ready, with what passes the lanes, or not; never both.
    enters, leaves : Out(1)
        Beside ``others``: what would be selected is no instruction, but takes the place of one.
    place, collected : Out(Place), Out(1)
        Of the first instruction.
    room, live, drained : Out(1)
        There is a place for a group that none has claimed; launched and not ended; nothing of it is in flight.
    lanes_free, reason : In(1), Out(WaitReason)
    """

    def __init__(self) -> None:
        super().__init__({
            "launched": In(1), "result": In(1), "over": In(1), "same": In(1), "terminated": In(1), "flush": In(1),
            "lowered": In(1), "zero": In(SCOREBOARDS), "settled": In(2), "low": In(1), "full": In(1), "resume": In(1),
            "hold": In(1), "enter": In(1), "leave": In(1), "available": In(NEEDS), "alone": In(1),
            "time": In(TIME_BITS), "taken": In(1), "issued": In(1), "control": In(Control), "claimed": In(1),
            "arrives": In(1), "entry": In(range(BUFFERED_GROUPS)), "first": In(range(GROUP_INSTRUCTIONS)),
            "offered": In(1), "bus": In(Head), "busy": In(1), "empty": Out(1), "wants": Out(1), "starving": Out(1),
            "next": Out(Place),
            "lanes": Out(1), "others": Out(1), "enters": Out(1), "leaves": Out(1), "place": Out(Place),
            "collected": Out(1), "room": Out(1), "live": Out(1), "drained": Out(1), "lanes_free": In(1),
            "reason": Out(WaitReason)})
        self.state: Any = Signal(WarpState)
        self.heads: Any = Signal(data.ArrayLayout(Head, _HEADS))
        self.valid = Signal(_HEADS)
        self.up = Signal(COUNTS)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        state, head, up, valid = self.state, self.heads[0], self.up, self.valid
        expired, wake, ran_out = Signal(init=1), Signal(TIME_BITS), Signal()
        goes, waits, injects, able = Signal(), Signal(COUNTS), Signal(), Signal()
        resumed, room, over = Signal(), Signal(), Signal()

        # Ready in the next cycle. What issued in the cycle before is not counted yet.
        m.d.comb += [
            resumed.eq((state == WarpState.RESUME) & self.resume), over.eq(self.result & self.over),
            goes.eq((state == WarpState.RUNS) | resumed
                    | (state == WarpState.RESULT) & over & self.same & ~self.terminated),
            ran_out.eq(expired | ~self.issued & (wake == self.time)),
            waits.eq(head.wait & up & ~Cat(Const(0, SCOREBOARDS), resumed, over)),
            room.eq(self.available.bit_select(head.need.as_value(), 1) & ~(head.collected & self.alone)),
            able.eq(goes & ~self.full & valid[0] & ran_out & ~(self.issued & head.waits) & ~waits.any() & room
                    & ~self.hold & ~(self.enter | self.leave) & ~self.flush & ~self.taken),
            injects.eq((self.enter | self.leave) & self.live & (state != WarpState.BEGINS) & valid[0] & ~self.issued
                       & ~up[COMPLETE] & ~up[RESULTS] & self.available[Need.FLOW.value] & ~self.flush & ~self.taken)]
        m.d.sync += [
            self.lanes.eq(able & head.lanes), self.others.eq(able & ~head.lanes | injects),
            self.enters.eq(injects & self.enter), self.leaves.eq(injects & ~self.enter)]

        # What an issue changes, and what ends its consequences.
        lowered = Cat(self.zero & self.lowered.replicate(SCOREBOARDS), self.settled[0] | resumed,
                      self.settled[1] | over)
        m.d.sync += [
            up.eq(up & ~lowered | self.control.raises & self.issued.replicate(COUNTS)),
            expired.eq(Mux(self.taken, head.short, ran_out))]
        with m.If(self.issued):
            m.d.sync += wake.eq(self.time + self.control.rest)
        with m.If(self.launched):
            m.d.sync += state.eq(WarpState.BEGINS)
        with m.Elif(self.result & self.terminated):
            m.d.sync += state.eq(WarpState.DEAD)
        with m.Elif(self.issued):
            m.d.sync += state.eq(self.control.after)
        with m.Elif((state == WarpState.BEGINS) & self.result | (state == WarpState.RESULT) & over
                    | (state == WarpState.DRAIN) & ~up[COMPLETE] & ~up[RESULTS] | resumed
                    | (state == WarpState.LIMIT) & self.low):
            m.d.sync += state.eq(WarpState.RUNS)
        m.d.comb += [
            self.live.eq(state != WarpState.DEAD),
            self.drained.eq(~up[COMPLETE] & ~up[RESULTS] & ~self.issued & (state != WarpState.BEGINS))]

        self._bring(m)
        m.d.sync += Assert(~(self.taken & ~(valid[0] & self.live)), "a warp issues that has ended, or nothing to issue")
        # Why it does not issue: its state tells, unless it runs.
        runs = self._reason([
            (self.hold, WaitReason.TRAP), (~valid[0], WaitReason.FETCH), (~ran_out, WaitReason.STALL),
            (waits[:SCOREBOARDS].any() | self.full, WaitReason.SCOREBOARD),
            (waits[SCOREBOARDS:].any(), WaitReason.DRAIN),
            (self.lanes & ~self.lanes_free, WaitReason.LANES), (room, WaitReason.READY)])
        m.d.comb += self.reason.as_value().eq(Mux(
            state == WarpState.RUNS, runs, Mux(state == WarpState.BEGINS, WaitReason.FLOW.value, state.as_value())))
        return m

    def _bring(self, m: Module) -> None:
        """The first two instructions, and what is stored behind them. What comes goes to the first free place."""
        valid, (head, second) = self.valid, self.heads
        places: Any = Signal(data.ArrayLayout(Place, _HEADS))
        groups, claims = (Signal(range(BUFFERED_GROUPS + 1), name=name) for name in ("groups", "claims"))
        moves, filled, stored = Signal(), Signal(), Signal()
        from_bus: Any = Signal(Place)
        m.d.comb += [
            self.empty.eq(~valid[0] & (groups == 0)), self.wants.eq((groups != 0) & ~valid[1]),
            self.starving.eq((groups != 0) & ~valid[0] & ~self.offered),
            moves.eq(self.arrives & self.empty),
            stored.eq(self.offered & ~self.busy & self.wants), filled.eq(moves | stored),
            self.place.eq(places[0]), self.collected.eq(head.collected),
            from_bus.eq(Mux(moves, Cat(self.entry, self.first), self.next.as_value()))]
        with m.If(self.taken | ~valid[0]):
            m.d.sync += [head.eq(Mux(valid[1], second.as_value(), self.bus.as_value())),
                         places[0].eq(Mux(valid[1], places[1].as_value(), from_bus.as_value()))]
        with m.If(filled):
            m.d.sync += [second.eq(self.bus), places[1].eq(from_bus)]
        m.d.sync += valid.eq(Cat(valid[0] & ~self.taken | valid[1] | filled,
                                 Mux(self.taken, valid[1] & filled, valid[1] | valid[0] & filled)))

        # A group is over when its last instruction has gone to the bus; its place is free when that has issued.
        ends, issues_last = Signal(), Signal()
        m.d.comb += [ends.eq(from_bus.number == _LAST), issues_last.eq(self.taken & (places[0].number == _LAST))]
        with m.If(filled):
            m.d.sync += [self.next.number.eq(Mux(ends, 0, from_bus.number + 1)),
                         self.next.entry.eq(from_bus.entry ^ ends)]
        with m.If(self.arrives | filled):
            m.d.sync += groups.eq(groups + self.arrives - (filled & ends))
        with m.If(self.claimed | issues_last):
            m.d.sync += claims.eq(claims + self.claimed - issues_last)
        with m.If(self.flush):
            m.d.sync += [valid.eq(0), groups.eq(0), claims.eq(0)]
        m.d.comb += self.room.eq(self.live & (self.state != WarpState.BEGINS) & (claims != BUFFERED_GROUPS))
        m.d.sync += [
            Assert(~(self.arrives & (groups == BUFFERED_GROUPS)), "a group comes that has no place"),
            Assert(~(self.claimed & (claims == BUFFERED_GROUPS)), "a place is claimed that is not free")]

    def _reason(self, reasons: list[tuple[Any, WaitReason]]) -> Any:
        """The first reason that holds; UNIT if none does."""
        found: Any = WaitReason.UNIT.value
        for holds, reason in reversed(reasons):
            found = Mux(holds, reason.value, found)
        return found
