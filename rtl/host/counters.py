"""The host's counters of events."""

from typing import Any

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.registers import BLOCK_BYTES, COUNTERS
from rtl.layouts import CounterEvents, RegisterAccess
from rtl.words import Words

__all__ = ["COUNTER_BITS", "RECENT_BITS", "Counters"]

COUNTER_BITS = 64
RECENT_BITS = 6
"""Width of what a counter has counted since its last turn. It must not run over between two turns,
of which the host's writes may take some."""


class Counters(Component):
    """64-bit counters in LUT memory.

    An event is counted in a few flip-flops of its counter. The counters take turns: in each cycle
    one of them adds what it has there to its total. In the first round after a reset it writes 0
    instead; until that is over all of them read as 0. A counter that the host clears takes the
    cycle instead of the one whose turn it is.

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

        self._recent = Array(
            Signal(RECENT_BITS, name=f"recent_{name}") for name in self._names)
        """Of each counter, what it has counted since its last turn."""
        self._turn = Signal(range(count), name="turn")
        """The counter whose turn it is."""
        self._is_first_round = Signal(init=1, name="is_first_round")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.totals = self.totals
        access = self.access
        number = access.place[1:]
        exists = number < len(self._names)
        assert len(self._names) * 2 <= BLOCK_BYTES // 4
        self._add(m, number, access.write & exists)
        self._read(m, number, exists)
        return m

    def _add(self, m: Module, number: Any, clears: Any) -> None:
        """Adds to the total of the counter whose turn it is, or clears the host's."""
        count = len(self._names)
        turn = self._turn
        read = self.totals.read_port(domain="comb")
        write = self.totals.write_port()
        m.d.comb += read.addr.eq(turn)
        m.d.comb += write.en.eq(1)
        with m.If(clears):
            m.d.comb += write.addr.eq(number)
            m.d.comb += write.data.eq(0)
        with m.Else():
            m.d.comb += write.addr.eq(turn)
            m.d.comb += write.data.eq(
                Mux(self._is_first_round, 0, read.data + self._recent[turn]))
            m.d.sync += turn.eq(turn + 1)
            with m.If(turn == count - 1):
                m.d.sync += turn.eq(0)
                m.d.sync += self._is_first_round.eq(0)

        for index, name in enumerate(self._names):
            recent = self._recent[index]
            is_added = (turn == index) & ~self._is_first_round
            restarts = Mux(clears, number == index, is_added)
            m.d.sync += recent.eq(Mux(restarts, 0, recent) + self.events[name])

    def _read(self, m: Module, number: Any, exists: Any) -> None:
        """A counter's low word is what it is now; its high word is of the same time as the low word
        that was read last."""
        access = self.access
        total = Signal(COUNTER_BITS)
        high = Signal(COUNTER_BITS // 2)
        read = self.totals.read_port(domain="comb")
        m.d.comb += read.addr.eq(number)
        with m.If(exists & ~self._is_first_round):
            m.d.comb += total.eq(read.data + self._recent[number])
        with m.If(access.place[0]):
            m.d.comb += access.value.eq(high)
        with m.Else():
            m.d.comb += access.value.eq(total[:COUNTER_BITS // 2])
            with m.If(access.read):
                m.d.sync += high.eq(total[COUNTER_BITS // 2:])
