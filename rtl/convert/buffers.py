"""The buffers of sources and results: one side accesses a beat at a time, the other a group or a
thread.

Both are block memory. If a word is read in the cycle in which it is written, simulation reads the
old word, and block memory an undefined one. Nothing depends on it: no step reads a word before the
cycle after its write.
"""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.isa.condition import Flags
from rtl.layouts import Event
from rtl.params import WARP_THREADS, SmParams
from rtl.pick import pick
from rtl.structs import common_fields
from rtl.wires import IN_BLOCKS

from .instruction import DOUBLE_BITS, ENTRY_BITS, THREAD_BITS, WORD_BITS

__all__ = [
    "GROUPS",
    "ResultBuffer",
    "SourceBuffer",
    "SourceRead",
    "result_place",
    "result_write",
    "source_beat",
    "source_place",
]

GROUPS = 2
"""Groups of neighbouring threads in a beat. A group is computed in a cycle."""


def source_beat(params: SmParams) -> data.StructLayout:
    """The sources of a beat, 64 bits for each lane, of the instruction in ``entry``."""
    return data.StructLayout({
        "entry": ENTRY_BITS,
        "beat": range(params.beats),
        "values": data.ArrayLayout(DOUBLE_BITS, params.lanes),
    })


source_place = data.StructLayout({"entry": ENTRY_BITS, "thread": THREAD_BITS})
"""The place of a thread's source in the buffer."""


def result_place(params: SmParams) -> data.StructLayout:
    """The place of a beat of results, a word for each lane: the high words of 64-bit results if
    ``second``, else the low ones."""
    return data.StructLayout({"second": 1, "beat": range(params.beats), "entry": ENTRY_BITS})


_result_word = data.StructLayout({"value": WORD_BITS, "zero": 1, "sign": 1})
"""A word of a result, and the flags of CC: ``zero`` of this word and the one below it, ``sign`` of
this word."""


def result_write(params: SmParams) -> data.StructLayout:
    """A lane's word of a result, and its place."""
    return data.StructLayout({"place": result_place(params), "word": _result_word})


class SourceRead(wiring.Signature):
    """Compute to the buffer: reads the source of a thread, and the low words of its group.

    Members
    -------
    place : Out(source_place)
        A place is read each cycle.
    group : In(array of 32 bits)
        The low words of the group that has the thread; a cycle after ``place``.
    value : In(64)
        The source of the thread; a cycle after ``place``.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "place": Out(source_place),
            "group": In(data.ArrayLayout(WORD_BITS, params.lanes // GROUPS)),
            "value": In(DOUBLE_BITS),
        })


class SourceBuffer(Component):
    """Sources of four instructions: written by beats, read by groups and by threads.

    A group has as many threads as there are narrow parts.

    Members
    -------
    write : In(Event(source_beat))
    read : In(SourceRead)
    """

    def __init__(self, params: SmParams) -> None:
        self._group_threads = params.lanes // GROUPS
        super().__init__({
            "write": In(Event(source_beat(params))),
            "read": In(SourceRead(params)),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        read = self.read
        values = self.write.payload["values"]
        low_words = [value.word_select(0, WORD_BITS) for value in values]
        high_words = [value.word_select(1, WORD_BITS) for value in values]
        high = Signal(WORD_BITS)
        number = Signal.like(read.place.thread)
        """The thread whose source is output."""
        m.d.sync += read.group.eq(self._add_memory(m, "low", low_words, self._group_threads))
        m.d.sync += high.eq(self._add_memory(m, "high", high_words, 1))
        m.d.sync += number.eq(read.place.thread)
        place_in_group = number[:ceil_log2(self._group_threads)]
        m.d.comb += read.value.eq(Cat(pick(read.group, place_in_group), high))
        return m

    def _add_memory(self, m: Module, name: str, words: list[Any], row_words: int) -> Value:
        """Adds a memory whose rows hold the words of ``row_words`` neighbouring threads. Returns
        the row that has the thread in ``read.place``, in the same cycle.

        A beat is written to several rows at once, each by its own write port. Synthesis merges
        these ports into one wide write port of a block memory, whose read port is narrower.
        """
        place_bits = ceil_log2(row_words)
        row_bits = ceil_log2(len(words) // row_words)
        m.submodules[name] = rows = memory.Memory(
            shape=WORD_BITS * row_words,
            depth=WARP_THREADS // row_words << ENTRY_BITS,
            init=[],
            attrs=IN_BLOCKS)
        read = rows.read_port(domain="comb")
        place = self.read.place
        m.d.comb += read.addr.eq(Cat(place.thread[place_bits:], place.entry))
        arriving = self.write.payload
        for first in range(0, len(words), row_words):
            write = rows.write_port()
            row_in_beat = Const(first >> place_bits, row_bits)
            m.d.comb += write.en.eq(self.write.valid)
            m.d.comb += write.data.eq(Cat(words[first:first + row_words]))
            m.d.comb += write.addr.eq(Cat(row_in_beat, arriving.beat, arriving.entry))
        return read.data


class ResultBuffer(Component):
    """Results of four instructions: written a word of a lane at a time, read a word of all lanes.

    Each lane has its own memory, with one write port and one read port.

    Members
    -------
    write : In(Event(result_write) for each lane)
    read : In(result_place)
    values, conditions : Out(array of words), Out(array of Flags)
        The words at ``read``, and their flags for CC; a cycle after ``read``. C and O are 0.
    """

    def __init__(self, params: SmParams) -> None:
        place = result_place(params)
        self._depth = 1 << place.size
        super().__init__({
            "write": In(Event(result_write(params))).array(params.lanes),
            "read": In(place),
            "values": Out(data.ArrayLayout(WORD_BITS, params.lanes)),
            "conditions": Out(data.ArrayLayout(Flags, params.lanes)),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for lane, written in enumerate(self.write):
            m.submodules[f"lane_{lane}"] = rows = memory.Memory(
                shape=_result_word, depth=self._depth, init=[], attrs=IN_BLOCKS)
            write = rows.write_port()
            read = rows.read_port(domain="comb")
            found = Signal(_result_word)
            m.d.comb += write.en.eq(written.valid)
            m.d.comb += write.addr.eq(written.payload.place)
            m.d.comb += write.data.eq(written.payload.word)
            m.d.comb += read.addr.eq(self.read)
            m.d.sync += found.eq(read.data)
            m.d.comb += self.values[lane].eq(found.value)
            m.d.comb += common_fields(self.conditions[lane], found)
        return m
