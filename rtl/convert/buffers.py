"""Sources and results of the instructions in the unit, by beats and by threads.

Both buffers are block memory. In simulation a word that is read in the cycle of a write to it is
the old one; block memory does not promise that, and nothing depends on it: an entry's words are
read after they were written.
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
"""Groups of threads, side by side, in a beat: they are computed one after the other."""


def source_beat(params: SmParams) -> data.StructLayout:
    """The sources of a beat of threads, 64 bits for each lane, for the instruction of ``entry``."""
    return data.StructLayout({
        "entry": ENTRY_BITS,
        "beat": range(params.beats),
        "values": data.ArrayLayout(DOUBLE_BITS, params.lanes),
    })


source_place = data.StructLayout({"entry": ENTRY_BITS, "thread": THREAD_BITS})
"""Where the source of a thread is read."""


def result_place(params: SmParams) -> data.StructLayout:
    """Where the results of a beat are, a word for each lane: the ``second`` word of a result of
    64 bits is the high one."""
    return data.StructLayout({"second": 1, "beat": range(params.beats), "entry": ENTRY_BITS})


_result_word = data.StructLayout({"value": WORD_BITS, "zero": 1, "sign": 1})
"""A word of a result; ``zero`` and ``sign`` are those of the result up to this word."""


def result_write(params: SmParams) -> data.StructLayout:
    """A lane's word of a result, and the place of it."""
    return data.StructLayout({"place": result_place(params), "word": _result_word})


class SourceRead(wiring.Signature):
    """Compute to the buffer: the source of a thread is read.

    Members
    -------
    place : Out(source_place)
        Which one.
    group : In(array of 32 bits)
        The low words of the thread's group, a cycle later.
    value : In(64)
        The thread's own source, a cycle later.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "place": Out(source_place),
            "group": In(data.ArrayLayout(WORD_BITS, params.lanes // GROUPS)),
            "value": In(DOUBLE_BITS),
        })


class SourceBuffer(Component):
    """Sources of a warp's threads: written by beats, read by groups and by threads.

    A group is as many neighbouring threads as there are narrow parts, which compute them at once.

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
        """The thread whose source comes out."""
        m.d.sync += read.group.eq(self._add_memory(m, "low", low_words, self._group_threads))
        m.d.sync += high.eq(self._add_memory(m, "high", high_words, 1))
        m.d.sync += number.eq(read.place.thread)
        place_in_group = number[:ceil_log2(self._group_threads)]
        m.d.comb += read.value.eq(Cat(pick(read.group, place_in_group), high))
        return m

    def _add_memory(self, m: Module, name: str, words: list[Any], row_words: int) -> Value:
        """A memory whose rows hold the words of ``row_words`` neighbouring threads. Returns the row
        that has the thread which is read.

        A beat writes several rows at once, each through a port of its own. Synthesis makes of these
        one wide port of a block memory whose reading side is narrower.
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
    """Results of a warp's threads: written by lanes, read by beats, a word at a time.

    Each lane has a memory of its own, with one write port.

    Members
    -------
    write : In(Event(result_write) for each lane)
    read : In(result_place)
    values, conditions : Out(array of words), Out(array of Flags)
        What is there, a cycle later. C and O are clear.
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
