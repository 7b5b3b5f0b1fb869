"""A warp: what must be seen of all warps in one cycle."""

from typing import Any

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.control_code import SCOREBOARDS
from rtl.layouts import WaitReason
from rtl.wires import KEEP

from .records import BUFFERED_GROUPS, COMPLETE, COUNTS, NEEDS, RESULTS, TIME_BITS, After, Control, Head

__all__ = ["OfAll", "OfWarp", "ReadyWarp"]

_FLOW = NEEDS.index("flow")
OfWarp = data.StructLayout(dict.fromkeys((
    "launched", "result", "flush", "lowered", "complete", "settled", "low", "full", "resume", "hold", "enter", "leave",
    "taken", "issued", "claimed", "arrives", "offered", "revoked"), 1))
"""What happens to one warp in a cycle, a bit each: a new one is in its slot (``launched``); a flow ``result`` of it
comes; it goes on elsewhere, and what is here of it counts for nothing (``flush``). Those of its scoreboards are zero
now that ``zero`` tells (``lowered``), all its instructions ``complete``, its flow results there (``settled``), the
scoreboard that a DEPBAR.LE has named is ``low`` enough; as many of its instructions are in flight as may be (``full``).
For ``resume`` to ``leave`` see IssueUnit. It is selected in this cycle (``taken``), was in the one before (``issued``,
with ``control``); a group will come for it (``claimed``), or comes (``arrives``); the bus brings what is stored
behind its last instruction, if anything is (``offered``). The flow result that it had in the cycle before does not let
it go on behind its instruction (``revoked``): what counted on that is not ready after all."""
OfAll = data.StructLayout({
    "over": 1, "terminated": 1, "zero": SCOREBOARDS, "available": len(NEEDS), "alone": 1, "time": TIME_BITS,
    "control": Control, "bus": Head, "last": 1, "busy": 1, "needs": len(NEEDS), "follows": 1, "lanes_free": 1})
"""What all warps are told in a cycle. Of a flow result: it is the last one, of an instruction that holds the warp
(``over``); it has ended. Of each of NEEDS: it has room (``available``). Nothing becomes ready whose operands are
collected (``alone``). Of who was selected in the cycle before: its ``control``. The ``bus`` brings an
instruction, the ``last`` one of its group or not, which ``needs`` one of ``available``: of a group that arrives for a
warp without instructions (``busy``), or to whom it is offered; that one can issue if its warp can (``follows``)."""


class ReadyWarp(Component):
    """A warp's state, its next instruction, and whether that can be selected: known a cycle before. A warp is never
    ready in the cycle after it was selected.

    Members
    -------
    own, told : In(OfWarp), In(OfAll)
    begun, brought : Out(1)
        A group arrives of which its next instruction is brought; any instruction is.
    lanes, others : Out(1)
        It is ready, with what passes the lanes, or not; never both.
    likely : Out(1)
        It is, or its readiness is revoked in this cycle; known early.
    injected : Out(1)
        Beside ``others``: what would be selected is no instruction, but takes the place of one.
    collected : Out(1)
        Operands of the next instruction are collected.
    quarter : Out(1)
        It passes the full lanes only, if it passes the lanes.
    room, live, drained : Out(1)
        There is a place for a group that none has claimed; launched and not ended; nothing of it is in flight.
    begins : Out(1)
        It waits for the result of its launch.
    stall, scoreboard, unit, fetch, held : Out(1)
        Why it does not issue, as IssueEvents tell it.
    reason : Out(WaitReason)
    """

    def __init__(self) -> None:
        super().__init__({
            "own": In(OfWarp), "told": In(OfAll), "reason": Out(WaitReason),
            **{name: Out(1) for name in (
                "begun", "brought", "lanes", "others", "likely", "injected", "collected", "quarter", "room", "live",
                "drained", "begins", "stall", "scoreboard", "unit", "fetch", "held")}})
        self.runs = Signal()
        self.after: Any = Signal(After)
        self.head: Any = Signal(Head)
        self.needs = Signal(len(NEEDS))
        self.last = Signal()
        self.valid = Signal()
        self.up = Signal(COUNTS)
        self._expired = Signal(init=1)
        self._wake = Signal(TIME_BITS)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        own, told, head, after, up, runs = self.own, self.told, self.head, self.after, self.up, self.runs
        expired, wake, ran_out = self._expired, self._wake, Signal()
        goes, free, waits, room, ready = Signal(), Signal(), Signal(COUNTS), Signal(), Signal()
        resumed, over, brought, ended = Signal(), Signal(), Signal(), Signal(2, attrs=KEEP)
        able, injects, next_ = (Signal(attrs=KEEP, name=name) for name in ("able", "injects", "next"))

        # Ready in the next cycle. What issued in the cycle before is not counted yet; so what is brought behind it is
        # ready if it waits for nothing. A flow result tells late in its cycle where the warp goes on; so it counts as
        # if that were behind the instruction, and is revoked if not.
        m.d.comb += [
            self.live.eq(self.begins | runs),
            self.drained.eq(~up[COMPLETE] & ~up[RESULTS] & ~own.issued & ~self.begins),
            resumed.eq(after.resume & own.resume), over.eq(own.result & told.over),
            ended.eq(Cat(own.complete | resumed, own.settled | over)),
            goes.eq(runs & (~after.resume | own.resume) & ~after.limit & ~after.drain),
            free.eq(~(own.full | own.hold | own.enter | own.leave)),
            ran_out.eq(expired | ~own.issued & (wake == told.time)),
            waits.eq((head.wait | Cat(Const(0, RESULTS), after.results)) & up
                     & ~Cat(Const(0, SCOREBOARDS), resumed, over)),
            room.eq(~(self.needs & ~told.available).any() & ~(head.collected & told.alone)),
            next_.eq(brought & own.issued & expired & free),
            able.eq(goes & free & self.valid & ran_out & ~waits.any() & room),
            injects.eq((own.enter | own.leave) & self.drained & self.valid & runs & told.available[_FLOW])]
        m.d.sync += [ready.eq(able | injects | next_ & told.follows), self.injected.eq(injects)]
        with m.If(own.flush | own.taken):
            m.d.sync += [ready.eq(0), self.injected.eq(0), self.valid.eq(0)]
        with m.Elif(self.brought):
            m.d.sync += self.valid.eq(1)
        now, lanes = Signal(2, attrs=KEEP), head.lanes & ~self.injected
        m.d.comb += [now.eq(Mux(ready & ~own.revoked, Cat(lanes, ~lanes), 0)), Cat(self.lanes, self.others).eq(now),
                     self.likely.eq(ready)]

        # What an issue changes, and what ends its consequences.
        lowered = Cat(told.zero & own.lowered.replicate(SCOREBOARDS), ended)
        m.d.sync += [
            up.eq(up & ~lowered | told.control.raises & own.issued.replicate(COUNTS)),
            expired.eq(Mux(own.taken, head.short, ran_out)),
            after.resume.eq(after.resume & ~own.resume), after.limit.eq(after.limit & ~own.low),
            after.drain.eq(after.drain & ~self.drained),
            runs.eq(Mux(own.result, ~told.terminated & self.live, runs))]
        with m.If(own.issued):
            m.d.sync += [after.eq(told.control.after), wake.eq(told.time + told.control.rest)]
        with m.If(own.launched):
            m.d.sync += [after.eq(0), runs.eq(0)]
        with m.If(own.result):
            m.d.sync += self.begins.eq(0)
        with m.Elif(own.launched):
            m.d.sync += self.begins.eq(1)

        self._bring(m, brought)
        m.d.sync += [
            Assert(~(own.taken & ~(self.valid & self.live)), "a warp issues that has ended, or nothing to issue"),
            Assert(~(own.launched & own.result), "a flow result comes of a warp that is launched")]
        self._tell_why(m, expired, waits, room)
        return m

    def _bring(self, m: Module, brought: Signal) -> None:
        """Its next instruction, and the groups: those that are stored, and those that have a place, of which a bit is 1
        for the first, and one for the second. A group's place is free when its last instruction has issued."""
        own, told, valid = self.own, self.told, self.valid
        stored, claimed = Signal(BUFFERED_GROUPS), Signal(BUFFERED_GROUPS)
        leaves, behind = Signal(), Signal()
        m.d.comb += [
            leaves.eq(own.issued & self.last), behind.eq(stored[1] | stored[0] & ~leaves),
            self.begun.eq(own.arrives & ~valid & ~behind), brought.eq(own.offered & ~valid & behind),
            self.brought.eq(self.begun | brought & ~told.busy), self.collected.eq(self.head.collected),
            self.quarter.eq(self.head.quarter), self.room.eq(self.runs & (~claimed[-1] | leaves))]
        with m.If(self.brought):
            m.d.sync += [self.head.eq(told.bus), self.needs.eq(told.needs), self.last.eq(told.last)]
        for (first, second), comes in ((stored, own.arrives), (claimed, own.claimed)):
            m.d.sync += [first.eq(comes | second | first & ~leaves),
                         second.eq(first & comes & ~leaves | second & (comes | ~leaves)),
                         Assert(~(comes & second & ~leaves), "a group comes that has no place")]
        with m.If(own.flush):
            m.d.sync += [stored.eq(0), claimed.eq(0)]

    def _tell_why(self, m: Module, expired: Signal, waits: Signal, room: Signal) -> None:
        """Why it does not issue: the first of these that holds."""
        reason: Any = 0
        open_: Any = Const(1)
        told: dict[str | None, Any] = {}
        for holds, why, event in (
                (~self.live, WaitReason.NOT_LIVE, None),
                (self.begins | self.after.results & self.up[RESULTS], WaitReason.FLOW, "held"),
                (self.after.drain, WaitReason.DRAIN, "held"), (self.after.resume, WaitReason.RESUME, "held"),
                (self.own.hold, WaitReason.TRAP, "held"),
                (~self.valid, WaitReason.FETCH, "fetch"), (~expired, WaitReason.STALL, "stall"),
                (waits[:SCOREBOARDS].any() | self.own.full | self.after.limit, WaitReason.SCOREBOARD, "scoreboard"),
                (waits[SCOREBOARDS:].any(), WaitReason.DRAIN, "held"),
                (~room, WaitReason.UNIT, "unit"), (self.lanes & ~self.told.lanes_free, WaitReason.LANES, None),
                (Const(1), WaitReason.READY, None)):
            here = open_ & holds
            reason, open_ = reason | Mux(here, why.value, 0), open_ & ~holds
            told[event] = told.get(event, 0) | here
        m.d.comb += [self.reason.as_value().eq(reason),
                     *(getattr(self, event).eq(holds) for event, holds in told.items() if event)]
