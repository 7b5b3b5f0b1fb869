"""What is counted of warps: scoreboards, instructions that are not complete."""

from typing import Any

from amaranth.hdl import Array, Assert, Cat, Module, Mux, Signal
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component
from rtl.isa.control_code import SCOREBOARDS
from rtl.layouts import Event, scoreboard_event
from rtl.params import SmParams

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
    lanes, units, room
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
            "units": In(Event(scoreboard_event(params))).array(units), "room": Out(1),
            "lowered": Out(params.warps), "zero": Out(SCOREBOARDS), "complete": Out(params.warps),
            "low": Out(params.warps), "full": Out(params.warps)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.queue = queue = self.queue
        warps, bits = self._params.warps, self._params.warp_bits
        up, up_valid = self.raised.payload, self.raised.valid

        # C0: what lowers, or whom to look at.
        event, looks = Signal(lowering(self._params)), Signal(bits)
        m.d.comb += [
            queue.rests.eq(self.time == 0), self.room.eq(queue.room)]
        connect(m, flipped(self.lanes), queue.lanes)
        for source, own in zip(self.units, queue.units, strict=True):
            connect(m, flipped(source), own)
        m.d.sync += event.eq(queue.event)
        with m.If(~queue.lowers):
            m.d.sync += event.warp.eq(looks)
        m.d.sync += looks.eq(Mux(up_valid & up.limits, up.warp, Mux(queue.lowers, queue.event.warp, looks + 1)))

        # C1: counted.
        here, again = Signal(), Signal()      # what was raised now, and a cycle ago, is of the same warp
        last, counts, below = Signal(bits), [], []
        m.d.comb += [here.eq(up_valid & (up.warp == event.warp)), again.eq(up_valid & (up.warp == last))]
        m.d.sync += [last.eq(event.warp), self.lowered.eq(Cat(event.warp == warp for warp in range(warps)))]
        zero = Signal(SCOREBOARDS)
        for number in range(SCOREBOARDS):
            raises = up_valid & up.raises[number]
            ups, ahead = self._counter(m, f"ups_{number}", up.warp, raises, init=-1), Signal(COUNTER_BITS)
            downs, behind = self._counter(m, f"downs_{number}", event.warp, event.lowers[number]), Signal(COUNTER_BITS)
            m.d.comb += [ahead.eq(self._read(m, ups, event.warp)), behind.eq(downs[1])]
            m.d.sync += zero[number].eq(event.lowers[number] & (ahead == behind) & ~(raises & here))
            m.d.sync += Assert(~(event.lowers[number] & ((ahead + 1)[:COUNTER_BITS] == behind)),
                               "a scoreboard is lowered that nobody has raised")
            counts.append(ahead)
            below.append(behind)
        # C2: told.
        m.d.comb += self.zero.eq(zero & ~(up.raises & again.replicate(SCOREBOARDS)))

        self._limits(m, event, counts, below)
        self._complete(m, event)
        return m

    def _counter(self, m: Module, name: str, warp: Any, steps: Any, init: int = 0) -> tuple[Any, Any]:
        """A number for each warp, which goes up by one; and what it is for this one."""
        count = self._params.warps
        m.submodules[name] = counter = memory.Memory(
            shape=COUNTER_BITS, depth=count, init=[init & (1 << COUNTER_BITS) - 1] * count)
        write, read = counter.write_port(), counter.read_port(domain="comb")
        m.d.comb += [write.addr.eq(warp), read.addr.eq(warp), write.data.eq(read.data + 1), write.en.eq(steps)]
        return counter, read.data

    def _read(self, m: Module, counter: Any, warp: Any) -> Any:
        """The number of another warp."""
        memory_of = counter[0]
        port = memory_of.read_port(domain="comb")
        m.d.comb += port.addr.eq(warp)
        return port.data

    def _limits(self, m: Module, event: Any, counts: list[Any], below: list[Any]) -> None:
        """Whether the scoreboard that the warp's DEPBAR.LE names is low enough, as it was before this event."""
        up, limit = self.raised.payload, data.StructLayout({"scoreboard": range(SCOREBOARDS), "count": COUNTER_BITS})
        m.submodules.limits = limits = memory.Memory(shape=limit, depth=self._params.warps, init=[])
        write, read = limits.write_port(), limits.read_port(domain="comb")
        ahead, behind, most, above = (Signal(COUNTER_BITS, name=name) for name in ("ahead", "behind", "most", "above"))
        low, looked, recent = Signal(), Signal(self._params.warps), Signal(2)
        limiting = self.raised.valid & up.limits
        m.d.comb += [
            write.addr.eq(up.warp), write.en.eq(limiting), write.data.scoreboard.eq(up.scoreboard),
            write.data.count.eq(up.count), read.addr.eq(event.warp), above.eq(ahead - behind)]
        m.d.sync += [
            ahead.eq(Array(counts)[read.data.scoreboard]), behind.eq(Array(below)[read.data.scoreboard]),
            most.eq(read.data.count), low.eq(above.all() | (above < most)), looked.eq(self.lowered),
            recent.eq(Cat(limiting, recent))]
        # A limit of the last cycles was not there when the counters were read.
        m.d.comb += self.low.eq(looked & (low & ~limiting & ~recent.any()).replicate(self._params.warps))

    def _complete(self, m: Module, event: Any) -> None:
        """Instructions that are not complete."""
        up, warps = self.raised.payload, self._params.warps
        passed = Signal.like(self.lanes.payload)
        counted = self.raised.valid & up.counted
        m.d.sync += [
            passed.eq(self.lanes.payload), passed.completes.eq(self.lanes.valid & self.lanes.payload.completes)]
        ups = self._counter(m, f"ups_{COMPLETE}", up.warp, counted)
        ways = [(name, warp, steps, self._counter(m, f"downs_{name}", warp, steps))
                for name, warp, steps in (("lanes", passed.warp, passed.completes),
                                          ("others", event.warp, event.completes))]
        told, fewer = [], []
        for name, warp, steps, _ in ways:
            # A cycle later, when both memories are up to date.
            looked, asks, over = Signal.like(warp, name=f"{name}_looked"), Signal(name=f"{name}_asks"), Signal(
                name=f"{name}_over")
            one_hot, before = Signal(warps, name=f"{name}_warp"), Signal.like(warp, name=f"{name}_before")
            left, few = Signal(COUNTER_BITS, name=f"{name}_left"), Signal(name=f"{name}_few")
            downs = [way[-1] for way in ways]
            raised_now = counted & (up.warp == looked)
            m.d.comb += left.eq(self._left(m, ups, downs, looked))
            m.d.sync += [
                few.eq(asks & ~left[-_FULL_BITS:].all()), looked.eq(warp),
                before.eq(looked), asks.eq(steps), over.eq(asks & ~left.any() & ~raised_now),
                one_hot.eq(Cat(looked == number for number in range(warps)))]
            m.d.sync += Assert(~(asks & left.all()), "an instruction is complete that was not issued")
            fewer.append(Mux(few, one_hot, 0))
            told.append(Mux(over & ~(counted & (up.warp == before)), one_hot, 0))
        m.d.comb += self.complete.eq(told[0] | told[1])

        # Full is who has issued the last of so many; what issues until that is seen is counted, too.
        many = Signal(warps)
        left = self._left(m, ups, [way[-1] for way in ways], up.warp)
        m.d.sync += [
            many.eq(Cat(counted & (up.warp == warp) for warp in range(warps))
                    & left[-_FULL_BITS:].all().replicate(warps)),
            self.full.eq(self.full & ~fewer[0] & ~fewer[1] | many)]

    def _left(self, m: Module, ups: Any, downs: list[Any], warp: Any) -> Any:
        """How many of a warp's instructions are not complete."""
        total = sum((self._read(m, each, warp) for each in downs), start=0)
        return (self._read(m, ups, warp) - total)[:COUNTER_BITS]
