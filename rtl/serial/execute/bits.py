"""Memories that are written by words and read by bits."""

from amaranth.hdl import Cat, Const, Module
from amaranth.lib import memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2, exact_log2

from rtl.component import Component
from rtl.wires import IN_BLOCKS

__all__ = ["WordBits"]


class WordBits(Component):
    """``depth`` words of 32 bits in block memory. A bit that is read in the cycle of a write to its word may be
    anything.

    Members
    -------
    write, number, word : In(1), In, In(32)
    read, bit : In, Out(1)
        A bit, by ``{word's number, place in the word}``; a cycle later.
    """

    _WIDTH = 32

    def __init__(self, depth: int) -> None:
        self._depth = depth
        number, inside = ceil_log2(depth), exact_log2(self._WIDTH)
        super().__init__({"write": In(1), "number": In(number), "word": In(self._WIDTH), "read": In(number + inside),
                          "bit": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # Synthesis makes one wide port of the ports that write a bit each.
        m.submodules.bits = bits = memory.Memory(shape=1, depth=self._depth * self._WIDTH, init=[], attrs=IN_BLOCKS)
        read = bits.read_port(domain="comb")
        m.d.comb += read.addr.eq(self.read)
        m.d.sync += self.bit.eq(read.data)
        for place in range(self._WIDTH):
            write = bits.write_port()
            m.d.comb += [write.en.eq(self.write), write.data.eq(self.word[place]),
                         write.addr.eq(Cat(Const(place, exact_log2(self._WIDTH)), self.number))]
        return m
