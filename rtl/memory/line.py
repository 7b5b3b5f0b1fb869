"""The line of memory that is being read or put together."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.isa.tokens import LINE_BYTES
from rtl.params import SmParams

from .choose import pick
from .instruction import WordLayout

__all__ = ["LINE_WORDS", "LineLayout", "LineRegister", "merge_layout"]

LINE_WORDS = LINE_BYTES // 4
"""Words of a line."""
LineLayout = data.ArrayLayout(32, LINE_WORDS)
"""A line as its words."""


def merge_layout(params: SmParams) -> data.ArrayLayout:
    """For each lane a word of the line, its new value, and which of the word's bytes are written."""
    return data.ArrayLayout(
        data.StructLayout({"word": ceil_log2(LINE_WORDS), "bytes": 4, "value": WordLayout}), params.lanes)


class LineRegister(Component):
    """A line, and which of its bytes were written since it was cleared or loaded.

    Members
    -------
    load, loaded : In(1), In(line)
        A whole line.
    clear : In(1)
        No byte is written.
    merge : In(merge_layout)
        Where lanes meet, the highest one's byte stays.
    line, written : Out
    """

    def __init__(self, params: SmParams) -> None:
        self._lanes = params.lanes
        super().__init__({
            "load": In(1), "loaded": In(LineLayout), "clear": In(1), "merge": In(merge_layout(params)),
            "line": Out(LineLayout), "written": Out(LINE_BYTES)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        octets = Signal(data.ArrayLayout(WordLayout, LINE_WORDS))
        written = Signal(data.ArrayLayout(4, LINE_WORDS))
        m.d.comb += [self.line.eq(octets), self.written.eq(written)]
        with m.If(self.load):
            m.d.sync += octets.eq(self.loaded)
        with m.If(self.load | self.clear):
            m.d.sync += written.eq(0)
        for lane in range(self._lanes):
            merge = self.merge[lane]
            for byte in range(4):
                with m.If(merge.bytes[byte]):
                    m.d.sync += [pick((word[byte] for word in octets), merge.word).eq(merge.value[byte]),
                                 pick((word[byte] for word in written), merge.word).eq(1)]
        return m
