"""The buffers of operands and results: one side accesses a beat at a time, the other a thread.

Both are block memory. No word is read in the cycle in which it is written.
"""

from amaranth.hdl import Cat, Module, Signal
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

from .instruction import WORD_BITS

__all__ = [
    "OPERAND_WORD_BITS",
    "OperandBuffer",
    "OperandRead",
    "ResultBuffer",
    "operand_place",
    "operand_write",
    "result_place",
    "result_word",
    "result_write",
]

_THREAD_BITS = ceil_log2(WARP_THREADS)
_RESULT_WORDS = 2
_ENTRIES = 2
OPERAND_WORD_BITS = 3
"""Width of the number of a word of a thread's operands."""


def operand_write(params: SmParams) -> data.StructLayout:
    """Gather to the operand buffer: the word with number ``word`` of each thread of a beat."""
    return data.StructLayout({
        "entry": 1,
        "word": OPERAND_WORD_BITS,
        "beat": range(params.beats),
        "values": data.ArrayLayout(WORD_BITS, params.lanes),
    })


operand_place = data.StructLayout({"entry": 1, "word": OPERAND_WORD_BITS, "thread": _THREAD_BITS})
"""The place of a thread's word in the operand buffer."""


class OperandRead(wiring.Signature):
    """Compute to the operand buffer: reads a word of a thread.

    Members
    -------
    place : Out(operand_place)
        A place is read each cycle.
    value : In(32)
        The word; two cycles after ``place``.
    """

    def __init__(self) -> None:
        super().__init__({"place": Out(operand_place), "value": In(WORD_BITS)})


result_word = data.StructLayout({"value": WORD_BITS, "zero": 1, "sign": 1})
"""A word of a thread's result; ``zero`` and ``sign`` are those of the whole result."""
result_write = data.StructLayout({
    "entry": 1,
    "second": 1,
    "thread": _THREAD_BITS,
    "word": result_word,
})
"""Compute to the result buffer: the upper word of a thread's result if ``second``, else the lower
one."""


def result_place(params: SmParams) -> data.StructLayout:
    """Write to the result buffer: reads the upper words of a beat's results if ``second``, else the
    lower ones."""
    return data.StructLayout({"entry": 1, "second": 1, "beat": range(params.beats)})


class OperandBuffer(Component):
    """Operands of two instructions: written a word of all threads of a beat at a time, read a word
    of one thread at a time.

    Members
    -------
    write : In(Event(operand_write))
    read : In(OperandRead)
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "write": In(Event(operand_write(params))),
            "read": In(OperandRead()),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lane_bits = ceil_log2(self._params.lanes)
        row_shape = data.ArrayLayout(WORD_BITS, self._params.lanes)
        depth = _ENTRIES * self._params.beats << OPERAND_WORD_BITS
        m.submodules.rows = rows = memory.Memory(
            shape=row_shape, depth=depth, init=[], attrs=IN_BLOCKS)
        write = rows.write_port()
        arriving = self.write.payload
        m.d.comb += write.en.eq(self.write.valid)
        m.d.comb += write.addr.eq(Cat(arriving.beat, arriving.word, arriving.entry))
        m.d.comb += write.data.eq(arriving["values"])

        place = self.read.place
        thread = place.thread
        read = rows.read_port(domain="comb")
        row = Signal(row_shape)
        lane = Signal(lane_bits)
        m.d.comb += read.addr.eq(Cat(thread[lane_bits:], place.word, place.entry))
        m.d.sync += row.eq(read.data)
        m.d.sync += lane.eq(thread[:lane_bits])
        m.d.sync += self.read.value.eq(pick(row, lane))
        return m


class ResultBuffer(Component):
    """Results of two instructions: written a word of one thread at a time, read a word of all
    threads of a beat at a time.

    Members
    -------
    write : In(Event(result_write))
    read, values, conditions : In(result_place), Out(array of words), Out(array of Flags)
        ``values`` are the words at ``read``, ``conditions`` their flags for CC; a cycle after
        ``read``. C and O are 0.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "write": In(Event(result_write)),
            "read": In(result_place(params)),
            "values": Out(data.ArrayLayout(WORD_BITS, params.lanes)),
            "conditions": Out(data.ArrayLayout(Flags, params.lanes)),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lane_bits = ceil_log2(self._params.lanes)
        arriving = self.write.payload
        lane_of_thread = arriving.thread[:lane_bits]
        beat_of_thread = arriving.thread[lane_bits:]
        depth = _ENTRIES * _RESULT_WORDS * self._params.beats
        for lane, (value, flags) in enumerate(zip(self.values, self.conditions, strict=True)):
            m.submodules[f"lane_{lane}"] = words = memory.Memory(
                shape=result_word, depth=depth, init=[], attrs=IN_BLOCKS)
            write = words.write_port()
            m.d.comb += write.en.eq(self.write.valid & (lane_of_thread == lane))
            m.d.comb += write.addr.eq(Cat(beat_of_thread, arriving.second, arriving.entry))
            m.d.comb += write.data.eq(arriving.word)

            read = words.read_port(domain="comb")
            found = Signal(result_word, name=f"found_{lane}")
            m.d.comb += read.addr.eq(Cat(self.read.beat, self.read.second, self.read.entry))
            m.d.sync += found.eq(read.data)
            m.d.comb += value.eq(found.value)
            m.d.comb += common_fields(flags, found)
        return m
