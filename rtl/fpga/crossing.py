"""A queue from one clock to another.

Unlike Amaranth's AsyncFIFO it has no asynchronous reset, which the compiled engine does not
simulate; and only the writer knows how full it is.
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
    """Words that are written in one domain and read in another, in order.

    Both sides count; a count crosses as a Gray code, of which one bit changes at a time.

    Parameters
    ----------
    width, depth_bits : int
        Bits of a word; there is room for 2**depth_bits words.
    writer, reader : str
        Domains.

    Members
    -------
    write : In(Event of a word)
        Only while ``level`` is less than the depth; the writer's domain.
    level : Out
        Words in the queue, now or a few cycles ago; the writer's domain.
    read : Out(stream of words)
        The oldest word; the reader's domain.
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
        # Words written and removed, and both counts as Gray codes in their own domain and in the
        # other one.
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
        """The writer's side."""
        bits = len(self._written)
        level = (self._written - _number_of(self._synchronized_removed))[:bits]
        m.d.comb += port.en.eq(self.write.valid)
        m.d.comb += port.addr.eq(self._written)
        m.d.comb += port.data.eq(self.write.payload)
        m.d[self._writer] += self._written.eq(self._written + self.write.valid)
        m.d[self._writer] += self._written_gray.eq(_gray_of(self._written))
        m.d[self._writer] += self.level.eq((level + self.write.valid)[:bits])
        m.d[self._writer] += Assert(
            ~self.write.valid | (level < self._depth),
            "a word is written into a queue that is full")

    def _read(self, m: Module, port: ReadPort) -> None:
        """The reader's side. The memory is read a cycle ahead."""
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
