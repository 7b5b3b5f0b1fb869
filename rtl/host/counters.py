"""The counters."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.registers import BLOCK_BYTES, COUNTERS
from rtl.layouts import CounterEvents, RegisterAccess
from rtl.words import Words

__all__ = ["Counters", "WordCounters"]

_BITS = 64
_RECENT_BITS = 6
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
        self.totals = Words(_BITS, count)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        access, names, count = self.access, self._names, len(self._names)
        m.submodules.totals = totals = self.totals
        turn_read, host_read = totals.read_port(domain="comb"), totals.read_port(domain="comb")
        write = totals.write_port()
        recent = Array(Signal(_RECENT_BITS, name=f"recent_{name}") for name in names)
        turn, high = Signal(range(count)), Signal(_BITS // 2)
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
        total = Signal(_BITS)
        m.d.comb += [
            host_read.addr.eq(number), total.eq(Mux(there & ~first_round, host_read.data + recent[number], 0))]
        m.d.comb += access.value.eq(Mux(access.place[0], high, total[:_BITS // 2]))
        with m.If(access.read & ~access.place[0]):
            m.d.sync += high.eq(total[_BITS // 2:])
        assert count * 2 <= BLOCK_BYTES // 4
        return m


class WordCounters(Component):
    """The same, smaller: in words of 32 bits, of which one is read, added to and written in a cycle. That is whose turn
    it is, or the one that the host reads.

    What a low word carries waits while the host has read a low word, but no high word yet: the host's pair belongs
    together. A low word that is half full again does not wait any longer.

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

    def elaborate(self, platform: object) -> Module:
        m = Module()
        access, words, count = self.access, self.words, len(self._names)
        m.submodules.words = words
        # Of each counter: what has happened since its last turn; what its low word has carried, which waits for the
        # host, or for the turn of its high word; which words count for nothing.
        recent = Array(Signal(_RECENT_BITS, name=f"recent_{name}") for name in self._names)
        late, carried, cleared = Signal(count), Signal(count), Signal(2 * count, init=-1)
        turn, place, keeps, there = Signal(range(2 * count)), Signal(range(2 * count)), Signal(), Signal()
        m.d.comb += [place.eq(Mux(access.read, access.place, turn)), there.eq(access.place < 2 * count)]
        number, is_high, sum_ = place[1:], place[0], Signal(_BITS // 2 + 1)
        clears, works = access.write & there, ~access.write & (~access.read | there)

        word = Mux(cleared.bit_select(place, 1), 0, words.read(m, place))
        m.d.comb += [
            sum_.eq(word + Mux(is_high, carried.bit_select(number, 1), recent[number])),
            access.value.eq(Mux(there, sum_[:-1], 0))]
        words.write(m, works, place, sum_[:-1])
        one, here = (Const(1, count) << which[:max(1, (count - 1).bit_length())] for which in (
            number, access.place[1:]))
        cleans, lows = Mux(clears, here, 0), Mux(works & ~is_high, one, 0)
        highs, carries = Mux(works & is_high, one, 0), Mux(sum_[-1], lows, 0)
        m.d.sync += [
            late.eq(Mux(keeps, late | carries, 0) & ~cleans),
            carried.eq((carried & ~highs | Mux(keeps, 0, late | carries)) & ~cleans),
            cleared.eq(cleared & ~Mux(works, Const(1, 2 * count) << place, 0)
                       | Cat(bit.replicate(2) for bit in cleans[:count]))]
        with m.If(works & ~access.read):
            m.d.sync += turn.eq(Mux(turn == 2 * count - 1, 0, turn + 1))
        with m.If(access.read & there):
            m.d.sync += keeps.eq(~is_high)
        with m.Elif((lows & late).any() & sum_[-2]):
            m.d.sync += keeps.eq(0)
        for index, name in enumerate(self._names):
            m.d.sync += recent[index].eq(
                Mux((lows | cleans)[index], 0, recent[index]) + self.events[name])
        return m
