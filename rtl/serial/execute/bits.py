"""Memories that are written by words and read by bits."""

from amaranth.hdl import Cat, Const, Module
from amaranth.lib import data
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2, exact_log2

from rtl.component import Component
from rtl.layouts import Event
from rtl.wires import IN_BLOCKS
from rtl.words import Words

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
        m.submodules.bits = bits = Words(1, self._depth * _WIDTH, **IN_BLOCKS)
        m.d.sync += self.bit.eq(bits.read(m, self.read))
        # Synthesis makes one wide port of these ports of a bit each.
        written = self.write.payload
        for place in range(_WIDTH):
            number = Cat(Const(place, _BIT_NUMBER_BITS), written.number)
            bits.write(m, self.write.valid, number, written.word[place])
        return m
