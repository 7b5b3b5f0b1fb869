"""What the threads of the instructions in flight access, and their data."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.layouts import GATHER_REGISTERS, Event
from rtl.params import ADDRESS_BITS, WARP_THREADS, SmParams
from rtl.pick import pick

from .instruction import OFFSET_BITS, WORDS, entry_bits, port_count, row_bits, slot_bits

__all__ = ["OperandMemory", "PlaceMemory", "inner_layout", "operand_place", "place_layout"]

_BYTE_BITS = 2
"""Lower bits of an address, which tell which byte of its word it is."""


def place_layout(params: SmParams) -> data.ArrayLayout:
    """For each thread of a beat, the address in memory, or in its CTA's shared memory."""
    return data.ArrayLayout(ADDRESS_BITS, params.lanes)


def inner_layout(params: SmParams) -> data.ArrayLayout:
    """For each thread of half a beat, the lower bits of its address: where in shared memory or in
    its line it is."""
    return data.ArrayLayout(params.shared_bits, port_count(params))


def operand_place(params: SmParams) -> data.StructLayout:
    """Which operand is read, a word of each thread in half of a beat.

    Fields
    ------
    slot, beat
        The instruction, and its beat.
    upper : 1
        The upper half of the beat; else the lower one.
    word : 0 to 3
    """
    return data.StructLayout({
        "slot": slot_bits(params),
        "beat": range(params.beats),
        "upper": 1,
        "word": range(WORDS),
    })


def _beat_write(params: SmParams) -> data.StructLayout:
    """A beat of an instruction whose threads' addresses are on their way into the memories."""
    return data.StructLayout({
        "valid": 1,
        "slot": slot_bits(params),
        "beat": range(params.beats),
    })


class PlaceMemory(Component):
    """Each thread's place, which is its address, in three memories that are written one after the
    other.

    =======  ===========================  ==================================  ==========
    memory   for each thread              written                             of each
    =======  ===========================  ==================================  ==========
    whole    the line                     in the cycle of ``write``           entry
    within   the inner bits of its place  a cycle later, when it is known     slot
                                          whether they are a shuffle's
    twins    whether the other half's     two cycles later, from registers    slot
             thread has the same ones
    =======  ===========================  ==================================  ==========

    A fourth one keeps for each slot where shared memory of the instruction's CTA begins. All are
    read in the same cycle.

    Members
    -------
    write, write_slot, write_beat, written : In(1), In, In(range(beats)), In(place_layout)
        Places of a beat of an instruction.
    shuffled, sources : In(1), In(a thread for each lane)
        A cycle after ``write``. The instruction is a shuffle: its threads' places are in the banks
        of lanes, where those of the ``sources`` are.
    line_slot, line_beat : In, In(range(beats))
    lines, same : Out(a line for each lane), Out(1 bit a port)
        Lines of a beat; and whether the threads of a port in both halves of the beat have the same
        place.
    slot, beat, upper, inner : In, In(range(beats)), In(1), Out(inner_layout)
        Places of the ``upper`` half of a beat, or of the lower one.
    begun, begun_base, base : In(Event of a slot), In, Out
        The row in which shared memory of a new instruction's CTA begins; that of ``slot``.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        slot = slot_bits(params)
        beat = range(params.beats)
        self._lines = data.ArrayLayout(ADDRESS_BITS - OFFSET_BITS, params.lanes)
        self._inner = data.ArrayLayout(params.shared_bits, params.lanes)
        super().__init__({
            "write": In(1),
            "write_slot": In(slot),
            "write_beat": In(beat),
            "written": In(place_layout(params)),
            "shuffled": In(1),
            "sources": In(data.ArrayLayout(range(WARP_THREADS), params.lanes)),
            "line_slot": In(slot),
            "line_beat": In(beat),
            "lines": Out(self._lines),
            "slot": In(slot),
            "beat": In(beat),
            "upper": In(1),
            "inner": Out(inner_layout(params)),
            "same": Out(port_count(params)),
            "begun": In(Event(slot)),
            "begun_base": In(row_bits(params)),
            "base": Out(row_bits(params)),
        })
        layout = _beat_write(params)
        self._line_write: Any = Signal(layout, name="line_write")
        """The beat whose lines are stored."""
        self._inner_write: Any = Signal(layout, name="inner_write")
        """The beat whose inner bits are stored, a cycle later."""
        self._twin_write: Any = Signal(layout, name="twin_write")
        """The beat whose halves have been compared, one more cycle later."""
        self._stored_inner: Any = Signal(self._inner, name="stored_inner")
        """What is stored of each thread in the second of these cycles."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self._line_write.valid.eq(self.write)
        m.d.comb += self._line_write.slot.eq(self.write_slot)
        m.d.comb += self._line_write.beat.eq(self.write_beat)
        m.d.sync += self._inner_write.eq(self._line_write)
        m.d.sync += self._twin_write.eq(self._inner_write)
        self._keep_lines(m)
        self._keep_inner(m)
        self._keep_twins(m)
        self._keep_bases(m)
        return m

    def _keep_lines(self, m: Module) -> None:
        """The line that each thread accesses, for every entry."""
        params = self._params
        lines = Cat(place[OFFSET_BITS:] for place in self.written)
        m.d.comb += self.lines.eq(self._keep(
            m, "whole", self._lines, entry_bits(params), self._line_write, lines,
            self.line_slot, self.line_beat))

    def _keep_inner(self, m: Module) -> None:
        """The inner bits of each thread's place, for every slot. A shuffle's place is the word of
        the thread that it reads."""
        params = self._params
        places: Any = Signal(self._inner, name="places")
        for lane, place in enumerate(self.written):
            m.d.sync += places[lane].eq(place[:params.shared_bits])
        for lane, stored in enumerate(self._stored_inner):
            source = Cat(Const(0, _BYTE_BITS), self.sources[lane])
            m.d.comb += stored.eq(Mux(self.shuffled, source, places[lane]))

        of_beat: Any = Signal(self._inner, name="of_beat")
        m.d.comb += of_beat.eq(self._keep(
            m, "within", self._inner, slot_bits(params), self._inner_write,
            self._stored_inner.as_value(), self.slot, self.beat))
        for port, inner in enumerate(self.inner):
            m.d.comb += inner.eq(pick(self._of_port(of_beat, port), self.upper))

    def _keep_twins(self, m: Module) -> None:
        """Whether both threads of a port have the same place, for every slot. Where a beat has one
        half alone, none have."""
        ports = port_count(self._params)
        are_twins = Signal(ports)
        for port in range(self._params.lanes - ports):
            lower, upper = self._of_port(self._stored_inner, port)
            m.d.sync += are_twins[port].eq(lower == upper)
        m.d.comb += self.same.eq(self._keep(
            m, "twins", ports, slot_bits(self._params), self._twin_write, are_twins,
            self.line_slot, self.line_beat))

    def _keep_bases(self, m: Module) -> None:
        """The row in which shared memory of each slot's CTA begins."""
        m.submodules.bases = bases = memory.Memory(
            shape=row_bits(self._params), depth=1 << slot_bits(self._params), init=[])
        write = bases.write_port()
        read = bases.read_port(domain="comb")
        m.d.comb += write.en.eq(self.begun.valid)
        m.d.comb += write.addr.eq(self.begun.payload)
        m.d.comb += write.data.eq(self.begun_base)
        m.d.comb += read.addr.eq(self.slot)
        m.d.comb += self.base.eq(read.data)

    def _of_port(self, beat: Any, port: int) -> list[Any]:
        """A port's threads among all of a beat: that of the lower half, and that of the upper one
        if there are two."""
        return [beat[lane] for lane in range(port, self._params.lanes, port_count(self._params))]

    def _keep(self, m: Module, name: str, shape: Any, number_bits: int, beat_write: Any,
              content: Value, slot: Value, beat: Value) -> Any:
        """A memory of a word for each beat, of each instruction whose slots differ in the lower
        ``number_bits``. Writes ``content``; returns what it has of a beat of a slot."""
        m.submodules[name] = kept = memory.Memory(
            shape=shape, depth=self._params.beats << number_bits, init=[])
        write = kept.write_port()
        read = kept.read_port(domain="comb")
        m.d.comb += write.en.eq(beat_write.valid)
        m.d.comb += write.addr.eq(Cat(beat_write.beat, beat_write.slot[:number_bits]))
        m.d.comb += write.data.eq(content)
        m.d.comb += read.addr.eq(Cat(beat, slot[:number_bits]))
        return read.data


class OperandMemory(Component):
    """Four words of 32 bits for each thread, in as many places as there are entries.

    The first word comes with the addresses, as the third register of an instruction's first gather;
    the other three words come with the second gather.

    Members
    -------
    fill, fill_slot, fill_second, fill_beat, filled : In
        A beat of registers that a gather has brought: of the first gather, or of the second one.
    place, values : In(operand_place), Out(a word for each port)
        A word of the threads in half of a beat, in the same cycle.
    mixed, beats, first : In(1), In(a beat for each lane), Out(a word for each lane)
        The first word of each lane's thread, of the lane's own beat instead of the place's if
        ``mixed``.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        lanes = params.lanes
        beat = range(params.beats)
        super().__init__({
            "fill": In(1),
            "fill_slot": In(slot_bits(params)),
            "fill_second": In(1),
            "fill_beat": In(beat),
            "filled": In(data.ArrayLayout(data.ArrayLayout(32, GATHER_REGISTERS), lanes)),
            "place": In(operand_place(params)),
            "values": Out(data.ArrayLayout(32, port_count(params))),
            "mixed": In(1),
            "beats": In(data.ArrayLayout(max(1, ceil_log2(params.beats)), lanes)),
            "first": Out(data.ArrayLayout(32, lanes)),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        place = self.place
        beat_bits = ceil_log2(self._params.beats)
        words: list[list[Value]] = []
        for lane in range(self._params.lanes):
            first_beat = Mux(self.mixed, self.beats[lane][:beat_bits], place.beat)
            of_lane = [
                self._keep_word(m, lane, word, first_beat if word == 0 else place.beat)
                for word in range(WORDS)]
            m.d.comb += self.first[lane].eq(of_lane[0])
            words.append(of_lane)

        ports = port_count(self._params)
        for port, value in enumerate(self.values):
            of_port = [word for of_lane in words[port::ports] for word in of_lane]
            m.d.comb += value.eq(pick(of_port, Cat(place.word, place.upper)))
        return m

    def _keep_word(self, m: Module, lane: int, word: int, beat: Value) -> Value:
        """The memory of one word of a lane's threads. Returns that of the thread in ``beat``."""
        number_bits = entry_bits(self._params)
        m.submodules[f"word_{word}_{lane}"] = kept = memory.Memory(
            shape=32, depth=self._params.beats << number_bits, init=[])
        write = kept.write_port()
        read = kept.read_port(domain="comb")
        is_in_second = word != 0
        register = word - 1 if is_in_second else GATHER_REGISTERS - 1
        m.d.comb += write.en.eq(self.fill & (self.fill_second == is_in_second))
        m.d.comb += write.addr.eq(Cat(self.fill_beat, self.fill_slot[:number_bits]))
        m.d.comb += write.data.eq(self.filled[lane][register])
        m.d.comb += read.addr.eq(Cat(beat, self.place.slot[:number_bits]))
        return read.data
