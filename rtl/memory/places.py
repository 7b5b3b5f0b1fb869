"""Where each thread's access goes, for the next instruction and for the one that is under way."""

from amaranth.hdl import Cat, Module
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.isa.tokens import LINE_BYTES
from rtl.params import SmParams

from .instruction import place_layout

__all__ = ["OFFSET_BITS", "PlaceBuffer", "inner_place_layout"]

OFFSET_BITS = ceil_log2(LINE_BYTES)
"""Lower bits of an address, which tell where in its line it is."""


def inner_place_layout(params: SmParams) -> data.ArrayLayout:
    """For each thread of a beat, as much of its place as tells where in shared memory or in its line it is."""
    return data.ArrayLayout(params.shared_bits, params.lanes)


class PlaceBuffer(Component):
    """Two sides with a place for each thread; two beats can be read at once, of the second one only the inner bits.

    Members
    -------
    side : In(1)
        The one that is written; the other one is read.
    write, write_beat, written : In(1), In(range(beats)), In(place_layout)
    beat, places : In(range(beats)), Out(place_layout)
    inner_beat, inner : In(range(beats)), Out(inner_place_layout)
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        beat, places = range(params.beats), place_layout(params)
        super().__init__({
            "side": In(1), "write": In(1), "write_beat": In(beat), "written": In(places), "beat": In(beat),
            "places": Out(places), "inner_beat": In(beat), "inner": Out(inner_place_layout(params))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        params = self._params
        inner = Cat(place[:params.shared_bits] for place in self.written)
        parts = (("whole", place_layout(params), self.written, self.beat, self.places),
                 ("inner", inner_place_layout(params), inner, self.inner_beat, self.inner))
        for name, layout, written, beat, places in parts:
            m.submodules[name] = kept = memory.Memory(shape=layout, depth=2 * params.beats, init=[])
            write, read = kept.write_port(), kept.read_port(domain="comb")
            m.d.comb += [
                write.en.eq(self.write), write.addr.eq(Cat(self.write_beat, self.side)), write.data.eq(written),
                read.addr.eq(Cat(beat, ~self.side)), places.eq(read.data)]
        return m
