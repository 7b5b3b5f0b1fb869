"""What the threads of the instructions in flight access, and their data."""

from typing import Any

from amaranth.hdl import Cat, Module
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.layouts import GATHER_REGISTERS
from rtl.params import ADDRESS_BITS, SmParams
from rtl.pick import pick

from .instruction import OFFSET_BITS, WORDS, entry_bits, slot_bits

__all__ = ["OperandMemory", "PlaceMemory", "inner_layout", "place_layout"]


def place_layout(params: SmParams) -> data.ArrayLayout:
    """For each thread of a beat, the address in memory, or in the machine's shared memory."""
    return data.ArrayLayout(ADDRESS_BITS, params.lanes)


def inner_layout(params: SmParams) -> data.ArrayLayout:
    """For each thread of a beat, as much of its place as tells where in shared memory or in its line it is."""
    return data.ArrayLayout(params.shared_bits, params.lanes)


class PlaceMemory(Component):
    """Each thread's place: its inner bits for every slot, the line that it is in for every entry.

    Members
    -------
    write, write_slot, write_beat, written : In(1), In, In(range(beats)), In(place_layout)
    line_slot, line_beat, lines : In, In(range(beats)), Out(a line for each lane)
    slot, beat, inner : In, In(range(beats)), Out(inner_layout)
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        slot, beat = slot_bits(params), range(params.beats)
        self._lines = data.ArrayLayout(ADDRESS_BITS - OFFSET_BITS, params.lanes)
        super().__init__({
            "write": In(1), "write_slot": In(slot), "write_beat": In(beat), "written": In(place_layout(params)),
            "line_slot": In(slot), "line_beat": In(beat), "lines": Out(self._lines), "slot": In(slot), "beat": In(beat),
            "inner": Out(inner_layout(params))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        params, written = self._params, list(self.written)
        parts: tuple[tuple[str, Any, Any, int, Any, Any, Any], ...] = (
            ("whole", self._lines, Cat(place[OFFSET_BITS:] for place in written), entry_bits(params), self.line_slot,
             self.line_beat, self.lines),
            ("within", inner_layout(params), Cat(place[:params.shared_bits] for place in written), slot_bits(params),
             self.slot, self.beat, self.inner))
        for name, layout, content, bits, slot, beat, found in parts:
            m.submodules[name] = kept = memory.Memory(shape=layout, depth=params.beats << bits, init=[])
            write, read = kept.write_port(), kept.read_port(domain="comb")
            m.d.comb += [
                write.en.eq(self.write), write.addr.eq(Cat(self.write_beat, self.write_slot[:bits])),
                write.data.eq(content), read.addr.eq(Cat(beat, slot[:bits])), found.eq(read.data)]
        return m


class OperandMemory(Component):
    """Four words of 32 bits for each thread, in as many places as there are entries.

    Members
    -------
    fill, fill_slot, fill_second, fill_beat, filled : In
        What a gather has brought: of the first one the third register is a thread's first word, the second one brings
        the others.
    slot, beats, words, values : In, In(a beat for each lane), In(a word for each lane), Out(a word for each lane)
        In the same cycle.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        lanes, beat = params.lanes, range(params.beats)
        super().__init__({
            "fill": In(1), "fill_slot": In(slot_bits(params)), "fill_second": In(1), "fill_beat": In(beat),
            "filled": In(data.ArrayLayout(data.ArrayLayout(32, GATHER_REGISTERS), lanes)),
            "slot": In(slot_bits(params)), "beats": In(data.ArrayLayout(max(1, ceil_log2(params.beats)), lanes)),
            "words": In(data.ArrayLayout(range(WORDS), lanes)), "values": Out(data.ArrayLayout(32, lanes))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        params = self._params
        bits, beat_bits = entry_bits(params), ceil_log2(params.beats)
        for lane, filled in enumerate(self.filled):
            found = []
            for word in range(WORDS):
                kept = memory.Memory(shape=32, depth=params.beats << bits, init=[])
                m.submodules[f"word_{word}_{lane}"] = kept
                write, read = kept.write_port(), kept.read_port(domain="comb")
                m.d.comb += [
                    write.en.eq(self.fill & (self.fill_second == (word != 0))),
                    write.addr.eq(Cat(self.fill_beat, self.fill_slot[:bits])),
                    write.data.eq(filled[word - 1 if word else GATHER_REGISTERS - 1]),
                    read.addr.eq(Cat(self.beats[lane][:beat_bits], self.slot[:bits]))]
                found.append(read.data)
            m.d.comb += self.values[lane].eq(pick(found, self.words[lane]))
        return m
