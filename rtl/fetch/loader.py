"""Lines on their way from memory to the two caches."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.syntax import WORD_BITS
from rtl.layouts import MemoryPort, memory_request
from rtl.params import LINE_ADDRESS_BITS

from .records import LINE_WORDS

__all__ = ["TAG_BITS", "LineLoader", "line_part"]

TAG_BITS = 1
"""Tag 0 is a line of the instruction cache, tag 1 one of the constant cache. Each has one under way at a time."""


def line_part() -> data.StructLayout:
    """A word of a line that has come. All words of a line follow each other, from number 0.

    ``constant``: for the constant cache. ``error``: memory has no such line, and the word means nothing.
    """
    return data.StructLayout({
        "valid": 1, "constant": 1, "line": LINE_ADDRESS_BITS, "number": range(LINE_WORDS), "word": WORD_BITS,
        "error": 1})


class LineLoader(Component):
    """Asks memory for the lines that the caches miss, and hands them on word by word.

    Members
    -------
    miss : In(2 times valid and address of a line)
        The instruction cache's, the constant cache's. It counts in a cycle in which ``free`` is 1.
    free : Out(2)
        A line for this cache can be asked for.
    under_way : Out(2)
        A line for this cache is under way.
    settled : In(2)
        The cache has put its line where it belongs.
    part : Out(line_part)
    memory : Out(MemoryPort)
    """

    def __init__(self) -> None:
        super().__init__({
            "miss": In(data.ArrayLayout(data.StructLayout({"valid": 1, "line": LINE_ADDRESS_BITS}), 2)),
            "free": Out(2), "under_way": Out(2), "settled": In(2), "part": Out(line_part()),
            "memory": Out(MemoryPort(TAG_BITS))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        request, response = self.memory.request, self.memory.response
        lines = Signal(data.ArrayLayout(LINE_ADDRESS_BITS, 2))
        asking = Signal()
        asked: Any = Signal(memory_request(TAG_BITS))

        # The constant cache goes first: it keeps all warps waiting.
        m.d.comb += [
            request.valid.eq(asking), request.payload.eq(asked),
            self.free.eq(Mux(asking, 0, Cat(~self.under_way[0] & ~self.miss[1].valid, ~self.under_way[1])))]
        with m.If(request.ready):
            m.d.sync += asking.eq(0)
        for tag in range(2):
            with m.If(self.settled[tag]):
                m.d.sync += self.under_way[tag].eq(0)
            with m.If(self.miss[tag].valid & self.free[tag]):
                m.d.sync += [
                    self.under_way[tag].eq(1), lines[tag].eq(self.miss[tag].line), asking.eq(1), asked.tag.eq(tag),
                    asked.address.eq(self.miss[tag].line)]

        # An answer is taken at once and handed on in the cycles that follow.
        content, number, tag = Signal(LINE_WORDS * WORD_BITS), Signal(range(LINE_WORDS)), Signal(TAG_BITS)
        handing, error = Signal(), Signal()
        m.d.comb += [
            response.ready.eq(~handing), self.part.valid.eq(handing), self.part.constant.eq(tag),
            self.part.line.eq(lines[tag]), self.part.number.eq(number),
            self.part.word.eq(content.word_select(number, WORD_BITS)), self.part.error.eq(error)]
        with m.If(~handing):
            m.d.sync += [
                handing.eq(response.valid), number.eq(0), content.eq(response.payload.data),
                tag.eq(response.payload.tag), error.eq(response.payload.error)]
        with m.Else():
            m.d.sync += number.eq(number + 1)
            with m.If(number == LINE_WORDS - 1):
                m.d.sync += handing.eq(0)
        return m
