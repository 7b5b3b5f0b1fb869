"""A queue from one clock to another.

Unlike Amaranth's AsyncFIFO it has no asynchronous reset, which the compiled engine does not simulate; and only the
writer is told how full it is.
"""

from amaranth.hdl import Assert, Cat, Module, Signal, Value
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.memory import Memory
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
        Words that are there, or were a few cycles ago; the writer's domain.
    available, head : Out(1), Out(width)
        The oldest word; the reader's domain, as ``take`` is.
    take : In(1)
        It is not needed any more. Nothing happens when there is none.
    """

    def __init__(self, width: int, depth_bits: int, writer: str, reader: str) -> None:
        self._width, self._depth, self._writer, self._reader = width, 1 << depth_bits, writer, reader
        super().__init__({
            "write": In(1), "word": In(width), "level": Out(range(self._depth + 1)), "available": Out(1),
            "head": Out(width), "take": In(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bits = self._depth.bit_length()
        m.submodules.memory = memory = Memory(shape=self._width, depth=self._depth, init=[])
        store, load = memory.write_port(domain=self._writer), memory.read_port(domain=self._reader)
        written, read, following = (Signal(bits, name=name) for name in ("written", "read", "following"))
        written_gray, read_gray, seen_written, seen_read = (
            Signal(bits, name=name) for name in ("written_gray", "read_gray", "seen_written", "seen_read"))
        m.submodules += [FFSynchronizer(written_gray, seen_written, o_domain=self._reader),
                         FFSynchronizer(read_gray, seen_read, o_domain=self._writer)]
        m.d.comb += [
            store.en.eq(self.write), store.addr.eq(written), store.data.eq(self.word), load.addr.eq(following),
            self.head.eq(load.data), following.eq(read + (self.take & self.available))]
        m.d[self._writer] += [
            written.eq(written + self.write), written_gray.eq(_gray(written)),
            self.level.eq((written + self.write - _number(seen_read))[:bits])]
        m.d[self._writer] += Assert(~self.write | ((written - _number(seen_read))[:bits] < self._depth),
                                    "a word is written into a queue that is full")
        m.d[self._reader] += [
            read.eq(following), read_gray.eq(_gray(following)), self.available.eq(_gray(following) != seen_written)]
        return m


def _gray(number: Value) -> Value:
    return number ^ number >> 1


def _number(gray: Value) -> Value:
    return Cat(gray[place:].xor() for place in range(len(gray)))
