"""The counters."""

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.registers import BLOCK_BYTES, COUNTERS
from rtl.layouts import CounterEvents, RegisterAccess
from rtl.words import Words

__all__ = ["COUNTER_BITS", "RECENT_BITS", "Counters"]

COUNTER_BITS = 64
RECENT_BITS = 6
"""Width of what a counter has counted since its last turn. It must not run over between two turns, of which the host's
writes may take some."""


class Counters(Component):
    """64-bit counters in LUT memory. Each adds what it has counted there when it is its turn, one in a cycle. In the
    first round of turns after a reset it writes 0 instead; until that is over all of them read as 0.

    Parameters
    ----------
    count : int
        So many of COUNTERS are there, the first ones. The others read as 0.

    Members
    -------
    access : RegisterAccess
    events : In(CounterEvents)
    """

    def __init__(self, count: int = len(COUNTERS)) -> None:
        super().__init__({"access": Out(RegisterAccess()), "events": In(CounterEvents)})
        self._names = list(COUNTERS)[:count]
        self.totals = Words(COUNTER_BITS, count)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        access, names, count = self.access, self._names, len(self._names)
        m.submodules.totals = totals = self.totals
        turn_read, host_read = totals.read_port(domain="comb"), totals.read_port(domain="comb")
        write = totals.write_port()
        recent = Array(Signal(RECENT_BITS, name=f"recent_{name}") for name in names)
        turn, high = Signal(range(count)), Signal(COUNTER_BITS // 2)
        number, there = access.place[1:], access.place[1:] < count
        clears = access.write & there

        # Take turns; the host's write takes one.
        first_round = Signal(init=1)
        m.d.comb += [
            turn_read.addr.eq(turn), write.en.eq(1), write.addr.eq(Mux(clears, number, turn)),
            write.data.eq(Mux(clears | first_round, 0, turn_read.data + recent[turn]))]
        with m.If(~clears):
            m.d.sync += turn.eq(turn + 1)
            with m.If(turn == count - 1):
                m.d.sync += [turn.eq(0), first_round.eq(0)]
        for index, name in enumerate(names):
            taken = Mux(clears, number == index, (turn == index) & ~first_round)
            m.d.sync += recent[index].eq(Mux(taken, 0, recent[index]) + self.events[name])

        # Read.
        total = Signal(COUNTER_BITS)
        m.d.comb += [
            host_read.addr.eq(number), total.eq(Mux(there & ~first_round, host_read.data + recent[number], 0))]
        m.d.comb += access.value.eq(Mux(access.place[0], high, total[:COUNTER_BITS // 2]))
        with m.If(access.read & ~access.place[0]):
            m.d.sync += high.eq(total[COUNTER_BITS // 2:])
        assert count * 2 <= BLOCK_BYTES // 4
        return m
