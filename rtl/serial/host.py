"""The host's registers in the serial machine: counters by words, reference counters in block RAM."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.host import HostPort
from rtl.host.counters import COUNTER_BITS, RECENT_BITS
from rtl.host.work import WorkRegisters
from rtl.isa.registers import COUNTERS
from rtl.layouts import CounterEvents, RegisterAccess
from rtl.params import SmParams
from rtl.words import Words

__all__ = ["SerialHostPort", "SerialWorkRegisters", "WordCounters"]


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
        self.words = Words(COUNTER_BITS // 2, 2 * count, ram_style="distributed")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        access, words, count = self.access, self.words, len(self._names)
        m.submodules.words = words
        # Of each counter: what has happened since its last turn; what its low word has carried, which waits for the
        # host, or for the turn of its high word; which words count for nothing.
        recent = Array(Signal(RECENT_BITS, name=f"recent_{name}") for name in self._names)
        late, carried, cleared = Signal(count), Signal(count), Signal(2 * count, init=-1)
        turn, place, keeps, there = Signal(range(2 * count)), Signal(range(2 * count)), Signal(), Signal()
        m.d.comb += [place.eq(Mux(access.read, access.place, turn)), there.eq(access.place < 2 * count)]
        number, is_high, sum_ = place[1:], place[0], Signal(COUNTER_BITS // 2 + 1)
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


class SerialWorkRegisters(WorkRegisters):
    """A reference counter comes from block RAM, a cycle after the host has read it.

    Attributes
    ----------
    late : Signal(32)
        The reference counter that was read in the cycle before, else 0.
    """

    def __init__(self) -> None:
        super().__init__()
        self.late = Signal.like(self.access.value)

    def read_count(self, m: Module, is_selected: Value) -> None:
        """A read is noted in every cycle, whatever place is selected."""
        references = self.grids.references
        was_read = Signal()
        m.d.sync += was_read.eq(references.read)
        m.d.comb += self.late.eq(Mux(was_read, references.count, 0))


class SerialHostPort(HostPort):
    """As HostPort; a reference counter is ORed to the other registers, which are registered."""

    def make_work(self, params: SmParams) -> WorkRegisters:
        return SerialWorkRegisters()

    def make_counters(self, count: int) -> Component:
        return WordCounters(count)

    def answer(self, value: Value) -> Value:
        return value | self.work.late
