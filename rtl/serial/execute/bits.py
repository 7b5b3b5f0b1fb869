"""Memories that are written by words and read by bits."""

from amaranth.hdl import Cat, Const, Module
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2, exact_log2

from rtl.component import Component
from rtl.layouts import Event
from rtl.wires import IN_BLOCKS

__all__ = ["WordBits", "word_write"]

_WIDTH = 32
_BIT_NUMBER_BITS = exact_log2(_WIDTH)


def word_write(depth: int) -> data.StructLayout:
    """A word of ``depth`` words of 32 bits is written."""
    return data.StructLayout({"number": ceil_log2(depth), "word": _WIDTH})


class WordBits(Component):
    """``depth`` words of 32 bits in block memory. A bit that is read in the cycle of a write to its
    word is undefined.

    Members
    -------
    write : In(Event of word_write)
    read, bit : In, Out(1)
        A bit, by ``{word's number, bit's number}``; a cycle later.
    """

    def __init__(self, depth: int) -> None:
        self._depth = depth
        super().__init__({
            "write": In(Event(word_write(depth))),
            "read": In(ceil_log2(depth) + _BIT_NUMBER_BITS),
            "bit": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.bits = bits = memory.Memory(
            shape=1, depth=self._depth * _WIDTH, init=[], attrs=IN_BLOCKS)
        read = bits.read_port(domain="comb")
        m.d.comb += read.addr.eq(self.read)
        m.d.sync += self.bit.eq(read.data)
        # Synthesis makes one wide port of these ports of a bit each.
        written = self.write.payload
        for place in range(_WIDTH):
            write = bits.write_port()
            m.d.comb += write.en.eq(self.write.valid)
            m.d.comb += write.addr.eq(Cat(Const(place, _BIT_NUMBER_BITS), written.number))
            m.d.comb += write.data.eq(written.word[place])
        return m
