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
"""Width of the count of events since a counter's last turn. It must not overflow between two turns,
which are as many cycles apart as there are counters, and one more for each write of the host. The
last counter's first turn comes after twice as many cycles."""


class Counters(Component):
    """64-bit counters in LUT memory.

    A counter consists of a total in the memory, and of a few flip-flops that count its events. The
    counters take turns: in each cycle one of them adds the count to its total, and the count starts
    again at 0. A read returns the sum of total and count, so it is exact in every cycle.

    In the first round of turns after a reset, 0 is written to each total, and all counters read as
    0. Events of that round are counted.

    Simultaneous requests: a write by the host has priority over the counter whose turn it is, which
    adds one cycle later. It clears total and count; an event in the same cycle is counted.

    Parameters
    ----------
    count : int
        How many of COUNTERS exist, the first ones. The others read as 0.

    Members
    -------
    access : RegisterAccess
        The low word of counter n is at place 2 * n, the high word at the next one. A write to
        either, whatever the data, clears the counter. A read of a low word also stores the high
        word, which the next read of a high word returns. Its ``value`` is 0.
    late : Out(32)
        In the cycle after a read: the word, as it was when it was read; else 0.
    events : In(CounterEvents)
    """

    def __init__(self, count: int = len(COUNTERS)) -> None:
        super().__init__({
            "access": Out(RegisterAccess()),
            "late": Out(COUNTER_BITS // 2),
            "events": In(CounterEvents),
        })
        self._names = list(COUNTERS)[:count]
        self.totals = Words(COUNTER_BITS, count)

        self._recent = Array(
            Signal(RECENT_BITS, name=f"recent_{name}") for name in self._names)
        """For each counter, the count of its events since its last turn."""
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
        """Writes a total: of the counter that the host clears, or else of the one whose turn it
        is."""
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
        """Reads the total and the count of a low word's counter into registers, and adds them in
        the next cycle. A high word is that of the last sum."""
        access = self.access
        total = Signal(COUNTER_BITS, name="total_read")
        recent = Signal(RECENT_BITS, name="recent_read")
        total_now = Signal(COUNTER_BITS)
        high = Signal(COUNTER_BITS // 2)
        reads_low = Signal()
        reads_high = Signal()
        read = self.totals.read_port(domain="comb")
        is_counted = exists & ~self._is_first_round
        m.d.comb += read.addr.eq(number)
        m.d.sync += total.eq(Mux(is_counted, read.data, 0))
        m.d.sync += recent.eq(Mux(is_counted, self._recent[number], 0))
        m.d.sync += reads_low.eq(access.read & ~access.place[0])
        m.d.sync += reads_high.eq(access.read & access.place[0])
        m.d.comb += total_now.eq(total + recent)
        with m.If(reads_low):
            m.d.comb += self.late.eq(total_now[:COUNTER_BITS // 2])
            m.d.sync += high.eq(total_now[COUNTER_BITS // 2:])
        with m.Elif(reads_high):
            m.d.comb += self.late.eq(high)
