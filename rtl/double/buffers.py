"""The buffers of operands and results: one side accesses a beat at a time, the other a thread.

Both are block memory. No word is read in the cycle in which it is written.
"""

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.isa.condition import Flags
from rtl.layouts import GATHER_REGISTERS, Event
from rtl.params import WARP_THREADS, SmParams
from rtl.structs import common_fields
from rtl.wires import IN_BLOCKS

from .instruction import DOUBLE_BITS, THREAD_BITS, WORD_BITS

__all__ = [
    "OperandBuffer",
    "OperandRead",
    "ResultBuffer",
    "operand_place",
    "operand_words",
    "operand_write",
    "result_place",
    "result_write",
]

_ENTRIES = 2

operand_words = data.ArrayLayout(WORD_BITS, GATHER_REGISTERS)
"""A word of each operand of a thread: a, b and c."""


def operand_write(params: SmParams) -> data.StructLayout:
    """Gather to the operand buffer: the upper words of the operands of a beat's threads if
    ``is_upper``, else the lower ones."""
    return data.StructLayout({
        "entry": 1,
        "is_upper": 1,
        "beat": range(params.beats),
        "values": data.ArrayLayout(operand_words, params.lanes),
    })


operand_place = data.StructLayout({"entry": 1, "thread": THREAD_BITS})
"""The place of a thread's operands in the operand buffer."""


class OperandRead(wiring.Signature):
    """Compute to the operand buffer: reads the operands of a thread.

    Members
    -------
    place : Out(operand_place)
        A place is read each cycle.
    lower, upper : In(operand_words)
        The words of the operands; a cycle after ``place``.
    """

    def __init__(self) -> None:
        super().__init__({
            "place": Out(operand_place),
            "lower": In(operand_words),
            "upper": In(operand_words),
        })


_result = data.StructLayout({"value": DOUBLE_BITS, "zero": 1, "sign": 1})
"""A thread's result; ``zero`` and ``sign`` are its flags for CC."""
result_write = data.StructLayout({"entry": 1, "thread": THREAD_BITS, "value": DOUBLE_BITS})
"""Compute to the result buffer: a thread's result."""


def result_place(params: SmParams) -> data.StructLayout:
    """Write to the result buffer: reads the upper words of a beat's results if ``is_upper``, else
    the lower ones."""
    return data.StructLayout({"entry": 1, "is_upper": 1, "beat": range(params.beats)})


class OperandBuffer(Component):
    """Operands of two instructions: written a word of each operand of a beat at a time, read all of
    a thread.

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
        self._add_half(m, "lower", ~self.write.payload.is_upper, self.read.lower)
        self._add_half(m, "upper", self.write.payload.is_upper, self.read.upper)
        return m

    def _add_half(self, m: Module, name: str, is_written: Signal, words: Signal) -> None:
        """Adds the memory of the lower or of the upper words. A beat is written by a write port for
        each lane: synthesis merges these to one wide port of block memories, whose read port is
        narrower, so that no multiplexers choose a lane."""
        lane_bits = ceil_log2(self._params.lanes)
        m.submodules[name] = rows = memory.Memory(
            shape=operand_words, depth=_ENTRIES * WARP_THREADS, init=[], attrs=IN_BLOCKS)
        arriving = self.write.payload
        for lane in range(self._params.lanes):
            write = rows.write_port()
            m.d.comb += write.en.eq(self.write.valid & is_written)
            m.d.comb += write.addr.eq(Cat(Const(lane, lane_bits), arriving.beat, arriving.entry))
            m.d.comb += write.data.eq(arriving["values"][lane])
        read = rows.read_port(domain="comb")
        m.d.comb += read.addr.eq(Cat(self.read.place.thread, self.read.place.entry))
        m.d.sync += words.eq(read.data)


class ResultBuffer(Component):
    """Results of two instructions: written a thread at a time, read a word of all threads of a beat
    at a time. Each lane has its own memory.

    Members
    -------
    write : In(Event(result_write))
    read, values, conditions : In(result_place), Out(array of words), Out(array of Flags)
        ``values`` are the words at ``read``, ``conditions`` the flags of the whole results for CC;
        a cycle after ``read``. C and O are 0.
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
        is_upper = Signal()
        m.d.sync += is_upper.eq(self.read.is_upper)
        for lane, (value, flags) in enumerate(zip(self.values, self.conditions, strict=True)):
            m.submodules[f"lane_{lane}"] = results = memory.Memory(
                shape=_result, depth=_ENTRIES * self._params.beats, init=[], attrs=IN_BLOCKS)
            write = results.write_port()
            m.d.comb += write.en.eq(self.write.valid & (lane_of_thread == lane))
            m.d.comb += write.addr.eq(Cat(beat_of_thread, arriving.entry))
            m.d.comb += write.data.value.eq(arriving.value)
            m.d.comb += write.data.zero.eq(~arriving.value.any())
            m.d.comb += write.data.sign.eq(arriving.value[-1])

            read = results.read_port(domain="comb")
            found = Signal(_result, name=f"found_{lane}")
            m.d.comb += read.addr.eq(Cat(self.read.beat, self.read.entry))
            m.d.sync += found.eq(read.data)
            m.d.comb += value.eq(found.value.word_select(is_upper, WORD_BITS))
            m.d.comb += common_fields(flags, found)
        return m
