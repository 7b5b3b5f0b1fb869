"""What the threads of the instructions in flight access, and their data."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, ShapeLike, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.layouts import GATHER_REGISTERS, Event
from rtl.params import ADDRESS_BITS, LINE_ADDRESS_BITS, WARP_THREADS, SmParams
from rtl.pick import pick
from rtl.structs import common_fields
from rtl.words import Words

from .front import matched_beat
from .instruction import OFFSET_BITS, WORDS, entry_bits, port_count, row_bits, slot_bits

__all__ = [
    "LinesPort",
    "OperandMemory",
    "PlaceMemory",
    "beat_places",
    "inner_layout",
    "operand_place",
    "shuffle_sources",
    "slot_base",
]

_BYTE_BITS = 2
"""Lower bits of an address: the byte in its word."""


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


def beat_places(params: SmParams) -> data.StructLayout:
    """The places of a beat's threads.

    Fields
    ------
    slot, beat
        The instruction, and its beat.
    places : an address for each lane
        In memory, or in the shared memory of the instruction's CTA; for local memory the place of
        the thread's first word.
    """
    return data.StructLayout({
        "slot": slot_bits(params),
        "beat": range(params.beats),
        "places": data.ArrayLayout(ADDRESS_BITS, params.lanes),
    })


def shuffle_sources(params: SmParams) -> data.StructLayout:
    """What a shuffle has in the place of addresses.

    Fields
    ------
    is_shuffle : 1
        The instruction is one; else its threads have addresses.
    threads : a thread for each lane
        The thread that the lane's thread reads: itself, if that is not in its segment.
    """
    return data.StructLayout({
        "is_shuffle": 1,
        "threads": data.ArrayLayout(range(WARP_THREADS), params.lanes),
    })


def slot_base(params: SmParams) -> data.StructLayout:
    """``base``: the first row of shared memory of the CTA whose instruction is in ``slot``."""
    return data.StructLayout({"slot": slot_bits(params), "base": row_bits(params)})


class LinesPort(wiring.Signature):
    """Reads the lines of a beat's threads, in the same cycle; directions are the reader's.

    Members
    -------
    slot, beat : Out
        The instruction, and its beat.
    lines : In(a line for each lane)
    same : In(1 bit a port)
        The threads of the port in both halves of the beat have the same place.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "slot": Out(slot_bits(params)),
            "beat": Out(range(params.beats)),
            "lines": In(data.ArrayLayout(LINE_ADDRESS_BITS, params.lanes)),
            "same": In(port_count(params)),
        })


class _BeatWords(Words):
    """A word for each beat of each instruction. Instructions whose slots have the same lower
    ``number_bits`` bits share theirs."""

    def __init__(self, shape: ShapeLike, params: SmParams, number_bits: int) -> None:
        super().__init__(shape, params.beats << number_bits)
        self._number_bits = number_bits

    def number(self, slot: Value, beat: Value) -> Value:
        """The number of the word of an instruction's beat."""
        return Cat(beat, slot[:self._number_bits])


def _beat_write(params: SmParams) -> data.StructLayout:
    """A beat of an instruction whose threads' places are on their way into the memories."""
    return data.StructLayout({"slot": slot_bits(params), "beat": range(params.beats)})


class PlaceMemory(Component):
    """Each thread's place, which is its address, in three memories that are written in rotation.

    =======  ===========================  ==================================  ==========
    memory   for each thread              written                             of each
    =======  ===========================  ==================================  ==========
    whole    the line                     in the cycle of ``places``          entry
    within   the inner bits of its place  a cycle later, when it is known     slot
                                          whether they are a shuffle's
    twins    whether the other half's     two cycles later, from registers    slot
             thread has the same ones
    =======  ===========================  ==================================  ==========

    A fourth one keeps for each slot where shared memory of the instruction's CTA begins. All are
    read in the same cycle.

    Members
    -------
    places : In(Event of beat_places)
        Places of a beat that are kept.
    sources : In(shuffle_sources)
        A cycle after ``places``, of the same beat. In a shuffle a thread's place is the bank and
        row of the thread that it reads.
    lines : In(LinesPort)
    slot, beat, upper, inner : In, In(range(beats)), In(1), Out(inner_layout)
        Places of the ``upper`` half of a beat, or of the lower one.
    new_base, base : In(Event of slot_base), Out
        The first row of shared memory of the CTA whose instruction gets a slot; the same for
        ``slot``.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        self._inner = data.ArrayLayout(params.shared_bits, params.lanes)
        super().__init__({
            "places": In(Event(beat_places(params))),
            "sources": In(shuffle_sources(params)),
            "lines": In(LinesPort(params)),
            "slot": In(slot_bits(params)),
            "beat": In(range(params.beats)),
            "upper": In(1),
            "inner": Out(inner_layout(params)),
            "new_base": In(Event(slot_base(params))),
            "base": Out(row_bits(params)),
        })
        beat_write = Event(_beat_write(params))
        self._inner_write: Any = beat_write.create(path=("inner_write",))
        """The beat whose inner bits are stored, a cycle after its lines."""
        self._twin_write: Any = beat_write.create(path=("twin_write",))
        """The beat whose halves have been compared, one more cycle later."""
        self._stored_inner: Any = Signal(self._inner, name="stored_inner")
        """What is stored of each thread in the second of these cycles."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.sync += self._inner_write.valid.eq(self.places.valid)
        m.d.sync += common_fields(self._inner_write.payload, self.places.payload)
        m.d.sync += self._twin_write.valid.eq(self._inner_write.valid)
        m.d.sync += self._twin_write.payload.eq(self._inner_write.payload)
        self._keep_lines(m)
        self._keep_inner(m)
        self._keep_twins(m)
        self._keep_bases(m)
        return m

    def _keep_lines(self, m: Module) -> None:
        """The line that each thread accesses, for every entry."""
        read = self.lines
        written = self.places.payload
        lines = Cat(place[OFFSET_BITS:] for place in written.places)
        m.submodules.whole = kept = _BeatWords(
            read.lines.shape(), self._params, entry_bits(self._params))
        kept.write(m, self.places.valid, kept.number(written.slot, written.beat), lines)
        m.d.comb += read.lines.eq(kept.read(m, kept.number(read.slot, read.beat)))

    def _keep_inner(self, m: Module) -> None:
        """The inner bits of each thread's place, for every slot. A shuffle's place is the word of
        the thread that it reads."""
        params = self._params
        places: Any = Signal(self._inner, name="places")
        for lane, place in enumerate(self.places.payload.places):
            m.d.sync += places[lane].eq(place[:params.shared_bits])
        for lane, stored in enumerate(self._stored_inner):
            source = Cat(Const(0, _BYTE_BITS), self.sources.threads[lane])
            m.d.comb += stored.eq(Mux(self.sources.is_shuffle, source, places[lane]))

        is_written = self._inner_write.valid
        written = self._inner_write.payload
        m.submodules.within = kept = _BeatWords(self._inner, params, slot_bits(params))
        kept.write(m, is_written, kept.number(written.slot, written.beat), self._stored_inner)
        of_beat = kept.read(m, kept.number(self.slot, self.beat))
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
        read = self.lines
        is_written = self._twin_write.valid
        written = self._twin_write.payload
        m.submodules.twins = kept = _BeatWords(ports, self._params, slot_bits(self._params))
        kept.write(m, is_written, kept.number(written.slot, written.beat), are_twins)
        m.d.comb += read.same.eq(kept.read(m, kept.number(read.slot, read.beat)))

    def _keep_bases(self, m: Module) -> None:
        """The first row of shared memory of each slot's CTA."""
        new = self.new_base
        m.submodules.bases = bases = Words(row_bits(self._params), 1 << slot_bits(self._params))
        bases.write(m, new.valid, new.payload.slot, new.payload.base)
        m.d.comb += self.base.eq(bases.read(m, self.slot))

    def _of_port(self, beat: Any, port: int) -> list[Any]:
        """A port's threads in a beat: one in the lower half, and one in the upper half if there are
        two."""
        return [beat[lane] for lane in range(port, self._params.lanes, port_count(self._params))]


class OperandMemory(Component):
    """Four words of 32 bits for each thread of each entry.

    The first word comes with the addresses, as the third register of an instruction's first gather;
    the other three words come with the second gather.

    Members
    -------
    registers : In(Event of matched_beat)
        A beat of registers that a gather has brought.
    place, values : In(operand_place), Out(a word for each port)
        A word of the threads in half of a beat, in the same cycle.
    mixed, beats, first : In(1), In(a beat for each lane), Out(a word for each lane)
        The first word of each lane's thread, of the lane's beat instead of the place's if
        ``mixed``.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        lanes = params.lanes
        super().__init__({
            "registers": In(Event(matched_beat(params))),
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
        """The memory of one word of a lane's threads. Returns the word of the thread in
        ``beat``."""
        kept = _BeatWords(32, self._params, entry_bits(self._params))
        m.submodules[f"word_{word}_{lane}"] = kept
        registers = self.registers.payload.data
        gather = self.registers.payload.gather
        is_in_second = word != 0
        register = word - 1 if is_in_second else GATHER_REGISTERS - 1
        has_word = self.registers.valid & (gather.second == is_in_second)
        kept.write(
            m, has_word, kept.number(gather.slot, registers.beat),
            registers.values[lane][register])
        return kept.read(m, kept.number(self.place.slot, beat))
