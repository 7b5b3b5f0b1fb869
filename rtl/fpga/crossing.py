"""A queue from one clock to another.

Unlike Amaranth's AsyncFIFO it has no asynchronous reset, which the compiled engine does not
simulate; and only the writer knows how full it is.
"""

from amaranth.hdl import Assert, Cat, Module, Signal, Value
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.memory import Memory, ReadPort, WritePort
from amaranth.lib.wiring import In, Out

from rtl.component import Component

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
    write, word : In(1), In(width)
        Only while ``level`` is less than the depth.
    level : Out
        Words in the queue, now or a few cycles ago; the writer's domain.
    available, head : Out(1), Out(width)
        The oldest word; the reader's domain, as ``take`` is.
    take : In(1)
        The oldest word is removed. Nothing happens when there is none.
    """

    def __init__(self, width: int, depth_bits: int, writer: str, reader: str) -> None:
        self._width = width
        self._depth = 1 << depth_bits
        self._writer = writer
        self._reader = reader
        super().__init__({
            "write": In(1),
            "word": In(width),
            "level": Out(range(self._depth + 1)),
            "available": Out(1),
            "head": Out(width),
            "take": In(1),
        })
        # Words written and read, and both counts as Gray codes in their own domain and in the other
        # one.
        bits = self._depth.bit_length()
        self._written = Signal(bits)
        self._read = Signal(bits)
        self._written_gray = Signal(bits)
        self._read_gray = Signal(bits)
        self._synchronized_written = Signal(bits)
        self._synchronized_read = Signal(bits)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.memory = memory = Memory(shape=self._width, depth=self._depth, init=[])
        m.submodules += FFSynchronizer(
            self._written_gray, self._synchronized_written, o_domain=self._reader)
        m.submodules += FFSynchronizer(
            self._read_gray, self._synchronized_read, o_domain=self._writer)
        self._write(m, memory.write_port(domain=self._writer))
        self._take(m, memory.read_port(domain=self._reader))
        return m

    def _write(self, m: Module, port: WritePort) -> None:
        """The writer's side."""
        bits = len(self._written)
        level = (self._written - _number_of(self._synchronized_read))[:bits]
        m.d.comb += port.en.eq(self.write)
        m.d.comb += port.addr.eq(self._written)
        m.d.comb += port.data.eq(self.word)
        m.d[self._writer] += self._written.eq(self._written + self.write)
        m.d[self._writer] += self._written_gray.eq(_gray_of(self._written))
        m.d[self._writer] += self.level.eq((level + self.write)[:bits])
        m.d[self._writer] += Assert(
            ~self.write | (level < self._depth), "a word is written into a queue that is full")

    def _take(self, m: Module, port: ReadPort) -> None:
        """The reader's side. The memory is read a cycle ahead."""
        following = Signal(len(self._read))
        m.d.comb += following.eq(self._read + (self.take & self.available))
        m.d.comb += port.addr.eq(following)
        m.d.comb += self.head.eq(port.data)
        m.d[self._reader] += self._read.eq(following)
        m.d[self._reader] += self._read_gray.eq(_gray_of(following))
        m.d[self._reader] += self.available.eq(
            _gray_of(following) != self._synchronized_written)


def _gray_of(number: Value) -> Value:
    """The Gray code of a number."""
    return number ^ number >> 1


def _number_of(gray: Value) -> Value:
    """The number of a Gray code."""
    return Cat(gray[place:].xor() for place in range(len(gray)))
