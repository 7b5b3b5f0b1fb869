"""A queue from one clock domain to another.

It differs from Amaranth's AsyncFIFO in two ways: it has no asynchronous reset, which the compiled
engine does not simulate, and only the writer has its level.
"""

from amaranth.hdl import Assert, Cat, Module, Signal, Value
from amaranth.lib import stream
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.memory import Memory, ReadPort, WritePort
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.layouts import Event

__all__ = ["CrossingQueue"]


class CrossingQueue(Component):
    """A FIFO whose two sides are in different domains.

    The writer counts words written, the reader words removed. Each count crosses to the other
    domain as a registered Gray code through an FFSynchronizer, so that at most one bit changes at
    a time. After a reset of one domain alone the counts disagree: the queue delivers stale words
    until they agree again.

    Parameters
    ----------
    width, depth_bits : int
        Bits of a word; the depth is 2**depth_bits words.
    writer, reader : str
        Names of the domains.

    Members
    -------
    write : In(Event of a word)
        In the writer's domain, and only while ``level`` is less than the depth.
    level : Out
        Words in the queue, in the writer's domain. A word written is counted in the next cycle; a
        word removed a few cycles later. So ``level`` is never less than the number of words.
    read : Out(stream of words)
        The oldest word, in the reader's domain, a few cycles after it was written.
    """

    def __init__(self, width: int, depth_bits: int, writer: str, reader: str) -> None:
        self._width = width
        self._depth = 1 << depth_bits
        self._writer = writer
        self._reader = reader
        super().__init__({
            "write": In(Event(width)),
            "level": Out(range(self._depth + 1)),
            "read": Out(stream.Signature(width)),
        })
        # Words written and removed, modulo twice the depth; both counts as Gray codes, each in the
        # domain where it is counted, and synchronized to the other one.
        bits = self._depth.bit_length()
        self._written = Signal(bits)
        self._removed = Signal(bits)
        self._written_gray = Signal(bits)
        self._removed_gray = Signal(bits)
        self._synchronized_written = Signal(bits)
        self._synchronized_removed = Signal(bits)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.memory = memory = Memory(shape=self._width, depth=self._depth, init=[])
        m.submodules += FFSynchronizer(
            self._written_gray, self._synchronized_written, o_domain=self._reader)
        m.submodules += FFSynchronizer(
            self._removed_gray, self._synchronized_removed, o_domain=self._writer)
        self._write(m, memory.write_port(domain=self._writer))
        self._read(m, memory.read_port(domain=self._reader))
        return m

    def _write(self, m: Module, port: WritePort) -> None:
        """The writer's domain: memory, count and level. ``occupied`` is the level in this cycle."""
        bits = len(self._written)
        occupied = (self._written - _number_of(self._synchronized_removed))[:bits]
        m.d.comb += port.en.eq(self.write.valid)
        m.d.comb += port.addr.eq(self._written)
        m.d.comb += port.data.eq(self.write.payload)
        m.d[self._writer] += self._written.eq(self._written + self.write.valid)
        m.d[self._writer] += self._written_gray.eq(_gray_of(self._written))
        m.d[self._writer] += self.level.eq((occupied + self.write.valid)[:bits])
        m.d[self._writer] += Assert(
            ~self.write.valid | (occupied < self._depth),
            "a word is written into a queue that is full")

    def _read(self, m: Module, port: ReadPort) -> None:
        """The reader's domain. The memory's read port is synchronous, so its address is the count
        that the next cycle will have."""
        following = Signal(len(self._removed))
        m.d.comb += following.eq(self._removed + (self.read.ready & self.read.valid))
        m.d.comb += port.addr.eq(following)
        m.d.comb += self.read.payload.eq(port.data)
        m.d[self._reader] += self._removed.eq(following)
        m.d[self._reader] += self._removed_gray.eq(_gray_of(following))
        m.d[self._reader] += self.read.valid.eq(
            _gray_of(following) != self._synchronized_written)


def _gray_of(number: Value) -> Value:
    """The Gray code of a number."""
    return number ^ number >> 1


def _number_of(gray: Value) -> Value:
    """The number of a Gray code."""
    return Cat(gray[place:].xor() for place in range(len(gray)))
