"""What is counted of warps: scoreboards, instructions that are not complete."""

from typing import Any

from amaranth.hdl import Array, Assert, Cat, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.control_code import SCOREBOARDS
from rtl.layouts import Event, operands_read, scoreboard_event
from rtl.one_hot import one_hot
from rtl.params import SmParams
from rtl.words import Words

from .events import LoweringQueue, lowering
from .records import COMPLETE, TIME_BITS

__all__ = ["COUNTER_BITS", "Scoreboards", "raised"]

COUNTER_BITS = 6
_FULL_BITS = 3
"""A counter is as good as full when its upper bits are ones."""


def raised(params: SmParams) -> data.StructLayout:
    """An instruction that has issued: its scoreboards; whether its completion is awaited; whether it is a DEPBAR.LE,
    which holds its warp until a scoreboard is at ``count`` or less."""
    return data.StructLayout({
        "warp": params.warp_bits, "raises": SCOREBOARDS, "counted": 1, "limits": 1, "scoreboard": range(SCOREBOARDS),
        "count": COUNTER_BITS})


class Scoreboards(Component):
    """Counts, for each warp, how often a scoreboard was raised and how often it was lowered, in two memories with one
    writer each; it is zero when they are equal. So are instructions that are not complete: they are lowered in two
    memories, by what passes the lanes and by others.

    One event a cycle lowers scoreboards (C1). If none does, one warp after the other is looked at whose DEPBAR.LE may
    be satisfied. What a warp has issued until two cycles before counts; so who has issued since is not told that
    something is zero.

    Members
    -------
    time : In
    raised : In(Event of raised)
        Two cycles after its selection.
    lanes, gathered, units, room
        See LoweringQueue.
    lowered, zero : Out(1 bit a warp), Out(SCOREBOARDS)
        One warp, whose scoreboards of ``zero`` are zero.
    complete : Out(1 bit a warp)
        Everything of it is complete.
    low : Out(1 bit a warp)
        Its DEPBAR.LE is satisfied.
    full : Out(1 bit a warp)
        So many of its instructions are not complete that few more can be counted; so no scoreboard is ever full.
    """

    def __init__(self, params: SmParams, units: int) -> None:
        self._params = params
        self.queue = LoweringQueue(params, units)
        super().__init__({
            "time": In(TIME_BITS), "raised": In(Event(raised(params))), "lanes": In(Event(scoreboard_event(params))),
            "gathered": In(Event(operands_read(params))),
            "units": In(Event(scoreboard_event(params))).array(units), "room": Out(1), "zero": Out(SCOREBOARDS),
            **{name: Out(params.warps) for name in ("lowered", "complete", "low", "full")}})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.queue = queue = self.queue
        warps, bits = self._params.warps, self._params.warp_bits
        up, up_valid = self.raised.payload, self.raised.valid
        self.join(m, queue, "lanes", "gathered", "units", "room")

        # C0: what lowers, or whom to look at.
        event, looks = Signal(lowering(self._params)), Signal(bits)
        m.d.comb += queue.rests.eq(self.time == 0)
        m.d.sync += [
            event.eq(queue.event),
            looks.eq(Mux(up_valid & up.limits, up.warp, Mux(queue.lowers, queue.event.warp, looks + 1)))]
        with m.If(~queue.lowers):
            m.d.sync += event.warp.eq(looks)

        # C1: counted.
        here, again = Signal(), Signal()      # what was raised now, and a cycle ago, is of the same warp
        last, counts, below, zero = Signal(bits), [], [], Signal(SCOREBOARDS)
        m.d.comb += [here.eq(up_valid & (up.warp == event.warp)), again.eq(up_valid & (up.warp == last))]
        m.d.sync += [last.eq(event.warp), self.lowered.eq(one_hot(event.warp, warps))]
        for number in range(SCOREBOARDS):
            raises = up_valid & up.raises[number]
            ups = self._counter(m, f"ups_{number}", up.warp, raises, (1 << COUNTER_BITS) - 1)
            downs = self._counter(m, f"downs_{number}", event.warp, event.lowers[number])
            ahead, behind = ups.read(m, event.warp), downs.read(m, event.warp)
            m.d.sync += [
                zero[number].eq(event.lowers[number] & (ahead == behind) & ~(raises & here)),
                Assert(~(event.lowers[number] & ((ahead + 1)[:COUNTER_BITS] == behind)),
                       "a scoreboard is lowered that nobody has raised")]
            counts.append(ahead)
            below.append(behind)
        # C2: told.
        m.d.comb += self.zero.eq(zero & ~(up.raises & again.replicate(SCOREBOARDS)))

        self._limits(m, event, counts, below)
        self._complete(m, event)
        return m

    def _counter(self, m: Module, name: str, warp: Any, steps: Any, initial: int = 0) -> Words:
        """A number for each warp, which goes up by one."""
        m.submodules[name] = counter = Words(COUNTER_BITS, self._params.warps, initial)
        counter.write(m, steps, warp, counter.read(m, warp) + 1)
        return counter

    def _limits(self, m: Module, event: Any, counts: list[Any], below: list[Any]) -> None:
        """Whether the scoreboard that the warp's DEPBAR.LE names is low enough, as it was before this event."""
        up, warps = self.raised.payload, self._params.warps
        m.submodules.limits = limits = Words(
            data.StructLayout({"scoreboard": range(SCOREBOARDS), "count": COUNTER_BITS}), warps)
        ahead, behind, most, above = (Signal(COUNTER_BITS, name=name) for name in ("ahead", "behind", "most", "above"))
        low, looked, recent, limiting = Signal(), Signal(warps), Signal(2), self.raised.valid & up.limits
        limits.write(m, limiting, up.warp, {"scoreboard": up.scoreboard, "count": up.count})
        limit = limits.read(m, event.warp)
        m.d.comb += above.eq(ahead - behind)
        m.d.sync += [
            ahead.eq(Array(counts)[limit.scoreboard]), behind.eq(Array(below)[limit.scoreboard]), most.eq(limit.count),
            low.eq(above.all() | (above < most)), looked.eq(self.lowered), recent.eq(Cat(limiting, recent))]
        # A limit of the last cycles was not there when the counters were read.
        m.d.comb += self.low.eq(looked & (low & ~limiting & ~recent.any()).replicate(warps))

    def _complete(self, m: Module, event: Any) -> None:
        """Instructions that are not complete."""
        up, warps = self.raised.payload, self._params.warps
        passed: Any = Signal.like(self.lanes.payload)
        counted, passing = self.raised.valid & up.counted, Signal(warps)
        m.d.sync += [
            passed.eq(self.lanes.payload), passed.completes.eq(self.lanes.valid & self.lanes.payload.completes),
            passing.eq(one_hot(passed.warp, warps))]
        sources = {"lanes": (passed.warp, passed.completes, passing),
                   "others": (event.warp, event.completes, self.lowered)}
        ups = self._counter(m, f"ups_{COMPLETE}", up.warp, counted)
        downs = [self._counter(m, f"downs_{name}", warp, steps) for name, (warp, steps, _) in sources.items()]

        def under_way(warp: Any) -> Value:
            """How many of a warp's instructions are not complete."""
            return (ups.read(m, warp) - sum((each.read(m, warp) for each in downs), start=0))[:COUNTER_BITS]

        told, fewer = [], []
        for name, (warp, steps, whose) in sources.items():
            # A cycle later, when both memories are up to date.
            looked, before = (Signal.like(warp, name=f"{name}_{which}") for which in ("looked", "before"))
            asks, over, few = (Signal(name=f"{name}_{which}") for which in ("asks", "over", "few"))
            left, of = Signal(COUNTER_BITS, name=f"{name}_left"), Signal(warps, name=f"{name}_of")
            m.d.comb += left.eq(under_way(looked))
            m.d.sync += [
                looked.eq(warp), before.eq(looked), of.eq(whose), asks.eq(steps),
                few.eq(asks & ~left[-_FULL_BITS:].all()),
                over.eq(asks & ~left.any() & ~(counted & (up.warp == looked))),
                Assert(~(asks & left.all()), "an instruction is complete that was not issued")]
            fewer.append(Mux(few, of, 0))
            told.append(Mux(over & ~(counted & (up.warp == before)), of, 0))
        m.d.comb += self.complete.eq(told[0] | told[1])

        # Full is who has issued the last of so many; what issues until that is seen is counted, too.
        many = Signal(warps)
        m.d.sync += [
            many.eq(one_hot(up.warp, warps, counted & under_way(up.warp)[-_FULL_BITS:].all())),
            self.full.eq(self.full & ~(fewer[0] | fewer[1]) | many)]
