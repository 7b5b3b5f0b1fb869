"""Words of a beat or of the banks, each to any lanes."""

from amaranth.hdl import Module
from amaranth.lib import data
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.params import SmParams
from rtl.pick import pick

__all__ = ["WordSwitch", "source_layout"]


def source_layout(params: SmParams) -> data.ArrayLayout:
    """For each lane the number of the word that it wants."""
    return data.ArrayLayout(ceil_log2(params.lanes), params.lanes)


class WordSwitch(Component):
    """Each lane gets one of as many words as there are lanes; combinational. It is large, and there is only one.

    Members
    -------
    words : In(a word for each bank or lane)
    sources : In(source_layout)
    values : Out(a word for each lane)
    """

    def __init__(self, params: SmParams) -> None:
        words = data.ArrayLayout(32, params.lanes)
        super().__init__({"words": In(words), "sources": In(source_layout(params)), "values": Out(words)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for value, source in zip(self.values, self.sources, strict=True):
            m.d.comb += value.eq(pick(self.words, source))
        return m
