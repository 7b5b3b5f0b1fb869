"""The line of memory that is being read or put together."""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.isa.tokens import LINE_BYTES
from rtl.params import SmParams
from rtl.pick import pick

from .banks import bank_access
from .instruction import WordLayout

__all__ = ["LineLayout", "LineRegister"]

_LINE_WORDS = LINE_BYTES // 4
"""Words of a line."""
LineLayout = data.ArrayLayout(32, _LINE_WORDS)
"""A line as its words."""


class LineRegister(Component):
    """A line, and which of its bytes were written since it was cleared or loaded. Threads see it as they see shared
    memory: word w is in bank w modulo the number of banks.

    Members
    -------
    load, loaded : In(1), In(line)
        A whole line.
    clear : In(1)
        No byte is written.
    access : In(bank_access)
        Those with ``line`` are for the line.
    values : Out(a word for each bank)
        What was read a cycle ago.
    line, written : Out
    """

    def __init__(self, params: SmParams) -> None:
        self._banks = min(params.lanes, _LINE_WORDS)
        super().__init__({
            "load": In(1), "loaded": In(LineLayout), "clear": In(1), "access": In(bank_access(params)),
            "values": Out(data.ArrayLayout(32, params.lanes)), "line": Out(LineLayout), "written": Out(LINE_BYTES)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        octets: Any = Signal(data.ArrayLayout(WordLayout, _LINE_WORDS))
        written = Signal(data.ArrayLayout(4, _LINE_WORDS))
        writes = self.access.used & self.access.line
        m.d.comb += [self.line.eq(octets), self.written.eq(written)]
        with m.If(self.load | self.clear):
            m.d.sync += written.eq(0)
        for bank in range(self._banks):
            access = self.access.banks[bank]
            row = access.row[:ceil_log2(_LINE_WORDS // self._banks)]
            m.d.sync += self.values[bank].eq(pick((word.as_value() for word in list(octets)[bank::self._banks]), row))
            for number, index in enumerate(range(bank, _LINE_WORDS, self._banks)):
                for byte in range(4):
                    with m.If(self.load):
                        m.d.sync += octets[index][byte].eq(self.loaded[index].word_select(byte, 8))
                    with m.Elif(writes & (row == number) & access.bytes[byte]):
                        m.d.sync += [octets[index][byte].eq(access.value[byte]), written[index][byte].eq(1)]
        return m
