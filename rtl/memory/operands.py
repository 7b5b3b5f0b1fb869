"""What the threads of the instructions in flight access, and their data."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.layouts import GATHER_REGISTERS, Event
from rtl.params import ADDRESS_BITS, WARP_THREADS, SmParams
from rtl.pick import pick

from .instruction import OFFSET_BITS, WORDS, entry_bits, port_count, row_bits, slot_bits

__all__ = ["OperandMemory", "PlaceMemory", "inner_layout", "operand_place", "place_layout"]


def place_layout(params: SmParams) -> data.ArrayLayout:
    """For each thread of a beat, the address in memory, or in its CTA's shared memory."""
    return data.ArrayLayout(ADDRESS_BITS, params.lanes)


def inner_layout(params: SmParams) -> data.ArrayLayout:
    """For each thread of half a beat, as much of its place as tells where in shared memory or in its line it is."""
    return data.ArrayLayout(params.shared_bits, port_count(params))


def operand_place(params: SmParams) -> data.StructLayout:
    """Which word is read of the threads in the ``upper`` half of a beat, or in the lower one."""
    return data.StructLayout({"slot": slot_bits(params), "beat": range(params.beats), "upper": 1, "word": range(WORDS)})


class PlaceMemory(Component):
    """Each thread's place: its inner bits for every slot, the line that it is in for every entry.

    Members
    -------
    write, write_slot, write_beat, written : In(1), In, In(range(beats)), In(place_layout)
    shuffled, sources : In(1), In(a thread for each lane)
        A cycle later: it is a shuffle's, whose threads read these; their places are in the banks of lanes.
    line_slot, line_beat, lines, same : In, In(range(beats)), Out(a line for each lane), Out(1 bit a port)
        And whether the threads of a port in both halves of the beat have the same place.
    slot, beat, upper, inner : In, In(range(beats)), In(1), Out(inner_layout)
        Of the ``upper`` half of a beat or the lower one.
    begun, begun_base, base : In(Event of a slot), In, Out
        The row in which shared memory of a new instruction's CTA begins; of the ``slot``'s.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        slot, beat = slot_bits(params), range(params.beats)
        self._lines = data.ArrayLayout(ADDRESS_BITS - OFFSET_BITS, params.lanes)
        super().__init__({
            "write": In(1), "write_slot": In(slot), "write_beat": In(beat), "written": In(place_layout(params)),
            "shuffled": In(1), "sources": In(data.ArrayLayout(range(WARP_THREADS), params.lanes)),
            "line_slot": In(slot), "line_beat": In(beat), "lines": Out(self._lines), "slot": In(slot), "beat": In(beat),
            "upper": In(1), "inner": Out(inner_layout(params)), "same": Out(port_count(params)),
            "begun": In(Event(slot)), "begun_base": In(row_bits(params)), "base": Out(row_bits(params))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        params, written = self._params, list(self.written)
        within, ports = Signal(data.ArrayLayout(params.shared_bits, params.lanes)), port_count(params)
        came, came_slot, came_beat = Signal(), Signal.like(self.write_slot), Signal.like(self.write_beat)
        inner, alike, places = Signal.like(within), Signal(ports), Signal.like(within)
        noted, noted_slot, noted_beat = Signal(), Signal.like(self.write_slot), Signal.like(self.write_beat)
        m.d.sync += [
            came.eq(self.write), came_slot.eq(self.write_slot), came_beat.eq(self.write_beat), noted.eq(came),
            noted_slot.eq(came_slot), noted_beat.eq(came_beat),
            Cat(places).eq(Cat(place[:params.shared_bits] for place in written)),
            alike.eq(Cat(inner[port] == inner[port + ports] for port in range(params.lanes - ports)))]
        m.d.comb += [inner[lane].eq(Mux(self.shuffled, Cat(Const(0, 2), self.sources[lane]), places[lane]))
                     for lane in range(params.lanes)]
        compared = (noted, noted_slot, noted_beat)
        writing, later = (self.write, self.write_slot, self.write_beat), (came, came_slot, came_beat)
        whole, reading = Cat(place[OFFSET_BITS:] for place in written), (slot_bits(params), self.slot, self.beat)
        parts: tuple[tuple[str, Any, Any, Any, Any, Any], ...] = (
            ("whole", self._lines, writing, whole, (entry_bits(params), self.line_slot, self.line_beat), self.lines),
            ("within", within.shape(), later, Cat(inner), reading, within),
            ("twins", ports, compared, alike, (slot_bits(params), self.line_slot, self.line_beat), self.same))
        for name, layout, (enable, write_slot, write_beat), content, (bits, slot, beat), found in parts:
            m.submodules[name] = kept = memory.Memory(shape=layout, depth=params.beats << bits, init=[])
            write, read = kept.write_port(), kept.read_port(domain="comb")
            m.d.comb += [
                write.en.eq(enable), write.addr.eq(Cat(write_beat, write_slot[:bits])),
                write.data.eq(content), read.addr.eq(Cat(beat, slot[:bits])), found.eq(read.data)]
        m.submodules.bases = bases = memory.Memory(shape=row_bits(params), depth=1 << slot_bits(params), init=[])
        note, base = bases.write_port(), bases.read_port(domain="comb")
        m.d.comb += [
            note.en.eq(self.begun.valid), note.addr.eq(self.begun.payload), note.data.eq(self.begun_base),
            base.addr.eq(self.slot), self.base.eq(base.data)]
        for port, inner in enumerate(self.inner):
            m.d.comb += inner.eq(pick([within[lane] for lane in range(port, params.lanes, ports)], self.upper))
        return m


class OperandMemory(Component):
    """Four words of 32 bits for each thread, in as many places as there are entries.

    Members
    -------
    fill, fill_slot, fill_second, fill_beat, filled : In
        What a gather has brought: of the first one the third register is a thread's first word, the second one brings
        the others.
    place, values : In(operand_place), Out(a word for each port)
        A word of the threads in half of a beat, in the same cycle.
    mixed, beats, first : In(1), In(a beat for each lane), Out(a word for each lane)
        The first word of each lane's thread, of the lane's own beat instead of the place's if ``mixed``.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        lanes, beat = params.lanes, range(params.beats)
        super().__init__({
            "fill": In(1), "fill_slot": In(slot_bits(params)), "fill_second": In(1), "fill_beat": In(beat),
            "filled": In(data.ArrayLayout(data.ArrayLayout(32, GATHER_REGISTERS), lanes)),
            "place": In(operand_place(params)), "values": Out(data.ArrayLayout(32, port_count(params))),
            "mixed": In(1), "beats": In(data.ArrayLayout(max(1, ceil_log2(params.beats)), lanes)),
            "first": Out(data.ArrayLayout(32, lanes))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        params, place = self._params, self.place
        bits, beat_bits = entry_bits(params), ceil_log2(params.beats)
        words: list[list[Any]] = []
        for lane, filled in enumerate(self.filled):
            found, beat = [], Mux(self.mixed, self.beats[lane][:beat_bits], place.beat)
            for word in range(WORDS):
                kept = memory.Memory(shape=32, depth=params.beats << bits, init=[])
                m.submodules[f"word_{word}_{lane}"] = kept
                write, read = kept.write_port(), kept.read_port(domain="comb")
                m.d.comb += [
                    write.en.eq(self.fill & (self.fill_second == (word != 0))),
                    write.addr.eq(Cat(self.fill_beat, self.fill_slot[:bits])),
                    write.data.eq(filled[word - 1 if word else GATHER_REGISTERS - 1]),
                    read.addr.eq(Cat(place.beat if word else beat, place.slot[:bits]))]
                found.append(read.data)
            m.d.comb += self.first[lane].eq(found[0])
            words.append(found)
        ports = port_count(params)
        for port, value in enumerate(self.values):
            of_port = [word for of_lane in words[port::ports] for word in of_lane]
            m.d.comb += value.eq(pick(of_port, Cat(place.word, place.upper)))
        return m
