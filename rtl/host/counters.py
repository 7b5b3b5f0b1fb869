"""The host's counters of events, in two forms."""

from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.registers import BLOCK_BYTES, COUNTERS
from rtl.layouts import CounterEvents, RegisterAccess
from rtl.words import Words

__all__ = ["Counters", "WordCounters"]

_BITS = 64
_RECENT_BITS = 6
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
        self.totals = Words(_BITS, count)

        self._recent = Array(
            Signal(_RECENT_BITS, name=f"recent_{name}") for name in self._names)
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
        total = Signal(_BITS)
        high = Signal(_BITS // 2)
        read = self.totals.read_port(domain="comb")
        m.d.comb += read.addr.eq(number)
        with m.If(exists & ~self._is_first_round):
            m.d.comb += total.eq(read.data + self._recent[number])
        with m.If(access.place[0]):
            m.d.comb += access.value.eq(high)
        with m.Else():
            m.d.comb += access.value.eq(total[:_BITS // 2])
            with m.If(access.read):
                m.d.sync += high.eq(total[_BITS // 2:])


class WordCounters(Component):
    """The same, smaller: in words of 32 bits, of which one is read, added to and written in a
    cycle: that whose turn it is, or the one that the host reads.

    What a low word carries waits while the host has read a low word, but no high word yet: the
    host's pair belongs together. A low word that is half full again does not wait any longer.

    Parameters
    ----------
    count : int
        As of Counters.

    Members
    -------
    access : RegisterAccess
    events : In(CounterEvents)
    """

    def __init__(self, count: int) -> None:
        super().__init__({"access": Out(RegisterAccess()), "events": In(CounterEvents)})
        self._names = list(COUNTERS)[:count]
        self.words = Words(_BITS // 2, 2 * count, ram_style="distributed")

        self._recent = Array(
            Signal(_RECENT_BITS, name=f"recent_{name}") for name in self._names)
        """Of each counter, what has happened since its last turn."""
        # A bit for each counter: what its low word has carried waits for the host to read the high
        # word, and then for the turn of that.
        self._carry_waits = Signal(count, name="carry_waits")
        self._carry = Signal(count, name="carry")
        self._is_cleared = Signal(2 * count, init=-1, name="is_cleared")
        """Words that count as 0."""
        self._turn = Signal(range(2 * count), name="turn")
        """The word whose turn it is."""
        self._holds_carries = Signal(name="holds_carries")
        """The host has read a low word, and no high word yet."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.words = self.words
        access = self.access
        count = len(self._names)
        exists = access.place < 2 * count
        clears = access.write & exists
        adds = ~access.write & (~access.read | exists)
        """A word is added to: the host takes the cycle for a read, and for any write."""

        # The word, and its sum.
        place = Signal(range(2 * count))
        total = Signal(_BITS // 2 + 1)
        m.d.comb += place.eq(Mux(access.read, access.place, self._turn))
        number = place[1:]
        is_high = place[0]
        added = Mux(is_high, self._carry.bit_select(number, 1), self._recent[number])
        word = Mux(self._is_cleared.bit_select(place, 1), 0, self.words.read(m, place))
        m.d.comb += total.eq(word + added)
        m.d.comb += access.value.eq(Mux(exists, total[:-1], 0))
        self.words.write(m, adds, place, total[:-1])
        with m.If(adds & ~access.read):
            m.d.sync += self._turn.eq(Mux(self._turn == 2 * count - 1, 0, self._turn + 1))

        # A bit for each counter: it is cleared, its low or high word is added to, its low word
        # carries.
        number_bits = max(1, (count - 1).bit_length())
        this = Const(1, count) << number[:number_bits]
        hosts = Const(1, count) << access.place[1:][:number_bits]
        cleared = Mux(clears, hosts, 0)
        low_added = Mux(adds & ~is_high, this, 0)
        high_added = Mux(adds & is_high, this, 0)
        carries = Mux(total[-1], low_added, 0)
        waiting = self._carry_waits | carries
        released = Mux(self._holds_carries, 0, waiting)
        held = Mux(self._holds_carries, waiting, 0)
        m.d.sync += self._carry_waits.eq(held & ~cleared)
        m.d.sync += self._carry.eq(((self._carry & ~high_added) | released) & ~cleared)
        written = Mux(adds, Const(1, 2 * count) << place, 0)
        cleared_words = Cat(bit.replicate(2) for bit in cleared[:count])
        m.d.sync += self._is_cleared.eq((self._is_cleared & ~written) | cleared_words)

        is_half_full = (low_added & self._carry_waits).any() & total[-2]
        with m.If(access.read & exists):
            m.d.sync += self._holds_carries.eq(~is_high)
        with m.Elif(is_half_full):
            m.d.sync += self._holds_carries.eq(0)
        for index, name in enumerate(self._names):
            recent = self._recent[index]
            restarts = (low_added | cleared)[index]
            m.d.sync += recent.eq(Mux(restarts, 0, recent) + self.events[name])
        return m
