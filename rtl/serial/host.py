"""The host's registers in the serial machine: counters in a memory of words, reference counters in
block RAM."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.host import HostPort
from rtl.host.counters import COUNTER_BITS, RECENT_BITS
from rtl.host.work import WorkRegisters
from rtl.isa.registers import COUNTERS
from rtl.layouts import CounterEvents, RegisterAccess
from rtl.words import Words

__all__ = ["SerialHostPort", "SerialWorkRegisters", "WordCounters"]


class WordCounters(Component):
    """The counters of :class:`~rtl.host.counters.Counters` in a smaller form, as words of 32 bits.
    In each cycle one word is read, incremented and written: the next in rotation, or the one that
    the host reads.

    The carry of a low word waits while the host has read a low word, but not yet its high word, so
    that the host's pair is consistent. A low word that is half full again does not wait any longer.

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

        self._recent = Array(
            Signal(RECENT_BITS, name=f"recent_{name}") for name in self._names)
        """By counter: events since its last update."""
        # A bit for each counter: the carry of its low word waits for the host to read the high
        # word, and then for that word's update.
        self._carry_waits = Signal(count, name="carry_waits")
        self._carry = Signal(count, name="carry")
        self._is_cleared = Signal(2 * count, init=-1, name="is_cleared")
        """Words that count as 0."""
        self._turn = Signal(range(2 * count), name="turn")
        """The word that is updated in this cycle."""
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
        total = Signal(COUNTER_BITS // 2 + 1)
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


class SerialWorkRegisters(WorkRegisters):
    """WorkRegisters whose reference counters are in block RAM: a value is valid a cycle after the
    host has read it.

    Attributes
    ----------
    late : Signal(32)
        The reference counter that was read in the cycle before, else 0.
    """

    def __init__(self) -> None:
        super().__init__()
        self.late = Signal.like(self.access.value)

    def read_count(self, m: Module, is_selected: Value) -> None:
        """A read is recorded in every cycle, with any selection."""
        references = self.grids.references
        was_read = Signal()
        m.d.sync += was_read.eq(references.read)
        m.d.comb += self.late.eq(Mux(was_read, references.count, 0))


class SerialHostPort(HostPort):
    """As HostPort; a reference counter is ORed to the other registers, which are registered."""

    def make_work(self) -> WorkRegisters:
        return SerialWorkRegisters()

    def make_counters(self, count: int) -> Component:
        return WordCounters(count)

    def answer(self, value: Value) -> Value:
        return value | self.work.late
