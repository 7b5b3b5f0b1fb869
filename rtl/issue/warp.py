"""A warp: what must be seen of all warps in one cycle."""

from typing import Any

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.control_code import GROUP_INSTRUCTIONS, SCOREBOARDS
from rtl.layouts import WaitReason
from rtl.wires import KEEP

from .records import BUFFERED_GROUPS, COMPLETE, COUNTS, RESULTS, TIME_BITS, Control, Head, Need, Place, WarpState

__all__ = ["NEEDS", "OfAll", "OfWarp", "ReadyWarp"]

NEEDS = 1 << Need.as_shape().width
_LAST = GROUP_INSTRUCTIONS - 1
_HEADS = 2


OfWarp = data.StructLayout(dict.fromkeys((
    "launched", "result", "flush", "lowered", "complete", "settled", "low", "full", "resume", "hold", "enter", "leave",
    "taken", "issued", "claimed", "arrives", "offered", "revoked"), 1))
"""What happens to one warp in a cycle, a bit each: a new one is in its slot (``launched``); a flow ``result`` of it
comes; it goes on elsewhere, and what is here of it counts for nothing (``flush``). Those of its scoreboards are zero
now that ``zero`` tells (``lowered``), all its instructions ``complete``, its flow results there (``settled``), the
scoreboard that a DEPBAR.LE has named is ``low`` enough; as many of its instructions are in flight as may be (``full``).
For ``resume`` to ``leave`` see IssueUnit. It is selected in this cycle (``taken``), was in the one before (``issued``,
with ``control``); a group will come for it (``claimed``), or comes (``arrives``); the bus brings the next instruction
that is stored of it (``offered``), unless it is ``busy``. The flow result that it had in the cycle before does not let
it go on behind its instruction (``revoked``): what counted on that is not ready after all."""
OfAll = data.StructLayout({
    "over": 1, "terminated": 1, "zero": SCOREBOARDS, "available": NEEDS, "alone": 1, "time": TIME_BITS,
    "control": Control, "entry": range(BUFFERED_GROUPS), "first": range(GROUP_INSTRUCTIONS), "bus": Head, "busy": 1,
    "lanes_free": 1})
"""What all warps are told in a cycle. Of a flow result: it is the last one, of an instruction that holds the warp
(``over``); it has ended. ``available`` has a bit for
each Need: who has room; ``alone``: nothing becomes ready whose operands are collected. Of a group that arrives: its
``entry``, and the ``first`` instruction of a warp that has no others. ``busy``: the ``bus`` brings an instruction that
arrives."""


class ReadyWarp(Component):
    """A warp's state, the next two of its instructions, and whether the first of them can be selected: known a cycle
    before. A warp is never ready in the cycle after it was selected.

    Members
    -------
    own, told : In(OfWarp), In(OfAll)
    empty, wants, starving, next : Out(1), Out(1), Out(1), Out(Place)
        Nothing of it is here; something is stored, and there is room to look at it; and nothing else is looked at.
        ``next`` is the first that is stored.
    lanes, others : Out(1)
        It is ready, with what passes the lanes, or not; never both.
    injected : Out(1)
        Beside ``others``: what would be selected is no instruction, but takes the place of one.
    place, collected : Out(Place), Out(1)
        Of the first instruction.
    room, live, drained : Out(1)
        There is a place for a group that none has claimed; launched and not ended; nothing of it is in flight.
    begins : Out(1)
        It waits for the result of its launch.
    reason : Out(WaitReason)
    """

    def __init__(self) -> None:
        super().__init__({
            "own": In(OfWarp), "told": In(OfAll), "next": Out(Place), "place": Out(Place), "reason": Out(WaitReason),
            **{name: Out(1) for name in ("empty", "wants", "starving", "lanes", "others", "injected",
                                         "collected", "room", "live", "drained", "begins")}})
        self.state: Any = Signal(WarpState)
        self.heads: Any = Signal(data.ArrayLayout(Head, _HEADS))
        self.valid = Signal(_HEADS)
        self.up = Signal(COUNTS)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        own, told, state, head, up, valid = self.own, self.told, self.state, self.heads[0], self.up, self.valid
        expired, wake, ran_out = Signal(init=1), Signal(TIME_BITS), Signal()
        goes, waits, injects, able = Signal(), Signal(COUNTS), Signal(), Signal()
        resumed, room, over, passes, other = Signal(), Signal(), Signal(), Signal(), Signal()

        # Ready in the next cycle. What issued in the cycle before is not counted yet. A flow result tells late in its
        # cycle where the warp goes on; so it counts as if that were behind the instruction, and is revoked if not.
        m.d.comb += [
            resumed.eq((state == WarpState.RESUME) & own.resume), over.eq(own.result & told.over),
            goes.eq((state == WarpState.RUNS) | resumed | (state == WarpState.RESULT) & over),
            ran_out.eq(expired | ~own.issued & (wake == told.time)),
            waits.eq(head.wait & up & ~Cat(Const(0, SCOREBOARDS), resumed, over)),
            room.eq(told.available.bit_select(head.need.as_value(), 1) & ~(head.collected & told.alone)),
            able.eq(goes & ~own.full & valid[0] & ran_out & ~(own.issued & head.waits) & ~waits.any() & room
                    & ~own.hold & ~(own.enter | own.leave) & ~own.flush & ~own.taken),
            injects.eq((own.enter | own.leave) & self.live & ~self.begins & valid[0] & ~own.issued
                       & ~up[COMPLETE] & ~up[RESULTS] & told.available[Need.FLOW.value] & ~own.flush & ~own.taken)]
        ready = Signal(2, attrs=KEEP)
        m.d.comb += [ready.eq(Mux(own.revoked, 0, Cat(passes, other))), Cat(self.lanes, self.others).eq(ready)]
        m.d.sync += [
            passes.eq(able & head.lanes), other.eq(able & ~head.lanes | injects), self.injected.eq(injects)]

        # What an issue changes, and what ends its consequences.
        lowered = Cat(told.zero & own.lowered.replicate(SCOREBOARDS), own.complete | resumed, own.settled | over)
        m.d.sync += [
            up.eq(up & ~lowered | told.control.raises & own.issued.replicate(COUNTS)),
            expired.eq(Mux(own.taken, head.short, ran_out))]
        with m.If(own.issued):
            m.d.sync += wake.eq(told.time + told.control.rest)
        with m.If(own.launched):
            m.d.sync += state.eq(WarpState.BEGINS)
        with m.Elif(own.result & told.terminated):
            m.d.sync += state.eq(WarpState.DEAD)
        with m.Elif(own.issued):
            m.d.sync += state.eq(told.control.after)
        with m.Elif(self.begins & own.result | (state == WarpState.RESULT) & over
                    | (state == WarpState.DRAIN) & ~up[COMPLETE] & ~up[RESULTS] | resumed
                    | (state == WarpState.LIMIT) & own.low):
            m.d.sync += state.eq(WarpState.RUNS)
        m.d.comb += [
            self.live.eq(state != WarpState.DEAD), self.begins.eq(state == WarpState.BEGINS),
            self.drained.eq(~up[COMPLETE] & ~up[RESULTS] & ~own.issued & ~self.begins)]

        self._bring(m)
        m.d.sync += Assert(~(own.taken & ~(valid[0] & self.live)), "a warp issues that has ended, or nothing to issue")
        self._tell_why(m, expired, room)
        return m

    def _bring(self, m: Module) -> None:
        """The first two instructions, and what is stored behind them. What comes goes to the first free place."""
        own, told, valid, (head, second) = self.own, self.told, self.valid, self.heads
        places: Any = Signal(data.ArrayLayout(Place, _HEADS))
        groups, claims = (Signal(range(BUFFERED_GROUPS + 1), name=name) for name in ("groups", "claims"))
        moves, filled = Signal(), Signal()
        from_bus: Any = Signal(Place)
        m.d.comb += [
            self.empty.eq(~valid[0] & (groups == 0)), self.wants.eq((groups != 0) & ~valid[1]),
            self.starving.eq((groups != 0) & ~valid[0] & ~own.offered), moves.eq(own.arrives & self.empty),
            filled.eq(moves | own.offered & ~told.busy & self.wants),
            self.place.eq(places[0]), self.collected.eq(head.collected),
            from_bus.eq(Mux(moves, Cat(told.entry, told.first), self.next.as_value()))]
        with m.If(own.taken | ~valid[0]):
            m.d.sync += [head.eq(Mux(valid[1], second.as_value(), told.bus.as_value())),
                         places[0].eq(Mux(valid[1], places[1].as_value(), from_bus.as_value()))]
        with m.If(filled):
            m.d.sync += [second.eq(told.bus), places[1].eq(from_bus)]
        m.d.sync += valid.eq(Cat(valid[0] & ~own.taken | valid[1] | filled,
                                 Mux(own.taken, valid[1] & filled, valid[1] | valid[0] & filled)))

        # A group is over when its last instruction has gone to the bus; its place is free when that has issued.
        ends, issues_last = Signal(), Signal()
        m.d.comb += [ends.eq(from_bus.number == _LAST), issues_last.eq(own.taken & (places[0].number == _LAST))]
        with m.If(filled):
            m.d.sync += [self.next.number.eq(Mux(ends, 0, from_bus.number + 1)),
                         self.next.entry.eq(from_bus.entry ^ ends)]
        with m.If(own.arrives | filled):
            m.d.sync += groups.eq(groups + own.arrives - (filled & ends))
        with m.If(own.claimed | issues_last):
            m.d.sync += claims.eq(claims + own.claimed - issues_last)
        with m.If(own.flush):
            m.d.sync += [valid.eq(0), groups.eq(0), claims.eq(0)]
        m.d.comb += self.room.eq(self.live & ~self.begins & (claims != BUFFERED_GROUPS))
        m.d.sync += [
            Assert(~(own.arrives & (groups == BUFFERED_GROUPS)), "a group comes that has no place"),
            Assert(~(own.claimed & (claims == BUFFERED_GROUPS)), "a place is claimed that is not free")]

    def _tell_why(self, m: Module, expired: Signal, room: Signal) -> None:
        """Why it does not issue: its state tells, unless it runs; then the first of these that holds."""
        own, state, waits = self.own, self.state, self.heads[0].wait & self.up
        runs = state == WarpState.RUNS
        reason: Any = Mux(runs, 0, Mux(self.begins, WaitReason.FLOW.value, state.as_value()))
        for holds, why in ((own.hold, WaitReason.TRAP), (~self.valid[0], WaitReason.FETCH),
                           (~expired, WaitReason.STALL),
                           (waits[:SCOREBOARDS].any() | own.full, WaitReason.SCOREBOARD),
                           (waits[SCOREBOARDS:].any(), WaitReason.DRAIN),
                           (self.lanes & ~self.told.lanes_free, WaitReason.LANES),
                           (room, WaitReason.READY), (Const(1), WaitReason.UNIT)):
            reason, runs = reason | Mux(runs & holds, why.value, 0), runs & ~holds
        m.d.comb += self.reason.as_value().eq(reason)
