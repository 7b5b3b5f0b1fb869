"""Operands and results of the instructions in the unit, by beats and by threads, in block memory.

What is read in the cycle of a write to it nobody asks for.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.isa.condition import Flags
from rtl.params import WARP_THREADS, SmParams
from rtl.pick import pick

from .instruction import WORD_BITS

__all__ = ["OPERAND_WORD_BITS", "OperandBuffer", "ResultBuffer"]

_THREAD_BITS = ceil_log2(WARP_THREADS)
_IN_BLOCKS: dict[str, Any] = {"ram_style": "block", "no_rw_check": 1}
OPERAND_WORD_BITS = 3
"""Width of the number of a word of a thread's operands."""


class OperandBuffer(Component):
    """Operands of two instructions: written a word of each thread of a beat at a time, read a word of a thread.

    Members
    -------
    write, entry, word, beat, values : In
    read_entry, read_word, thread : In
    value : Out(32)
        Two cycles later.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "write": In(1), "entry": In(1), "word": In(OPERAND_WORD_BITS), "beat": In(range(params.beats)),
            "values": In(data.ArrayLayout(WORD_BITS, params.lanes)), "read_entry": In(1),
            "read_word": In(OPERAND_WORD_BITS), "thread": In(_THREAD_BITS), "value": Out(WORD_BITS)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        inside = ceil_log2(self._params.lanes)
        m.submodules.rows = rows = memory.Memory(
            shape=data.ArrayLayout(WORD_BITS, self._params.lanes), init=[], attrs=_IN_BLOCKS,
            depth=1 << 1 + OPERAND_WORD_BITS + ceil_log2(self._params.beats))
        write, read = rows.write_port(), rows.read_port(domain="comb")
        row, lane = Signal(rows.shape), Signal(inside)
        m.d.comb += [
            write.en.eq(self.write), write.addr.eq(Cat(self.beat, self.word, self.entry)), write.data.eq(self.values),
            read.addr.eq(Cat(self.thread[inside:], self.read_word, self.read_entry))]
        m.d.sync += [row.eq(read.data), lane.eq(self.thread[:inside]), self.value.eq(pick(row, lane))]
        return m


class ResultBuffer(Component):
    """Results of two instructions: written a word of a thread at a time, read a word of each thread of a beat.

    Members
    -------
    write, entry, second, thread, value, zero, sign : In
        The ``second`` word, or the first one. ``zero`` and ``sign`` are those of the whole result.
    read_entry, read_second, read_beat : In
    values, conditions : Out(array of words), Out(array of Flags)
        A cycle later. C and O are clear.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "write": In(1), "entry": In(1), "second": In(1), "thread": In(_THREAD_BITS), "value": In(WORD_BITS),
            "zero": In(1), "sign": In(1), "read_entry": In(1), "read_second": In(1),
            "read_beat": In(range(params.beats)),
            "values": Out(data.ArrayLayout(WORD_BITS, params.lanes)),
            "conditions": Out(data.ArrayLayout(Flags, params.lanes))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        inside = ceil_log2(self._params.lanes)
        word = data.StructLayout({"value": WORD_BITS, "zero": 1, "sign": 1})
        for lane, (value, flags) in enumerate(zip(self.values, self.conditions, strict=True)):
            m.submodules[f"lane_{lane}"] = rows = memory.Memory(
                shape=word, depth=4 * self._params.beats, init=[], attrs=_IN_BLOCKS)
            write, read, found = rows.write_port(), rows.read_port(domain="comb"), Signal(word)
            m.d.comb += [
                write.en.eq(self.write & (self.thread[:inside] == lane)), write.data.value.eq(self.value),
                write.data.zero.eq(self.zero), write.data.sign.eq(self.sign),
                write.addr.eq(Cat(self.thread[inside:], self.second, self.entry)),
                read.addr.eq(Cat(self.read_beat, self.read_second, self.read_entry)), value.eq(found.value),
                flags.zero.eq(found.zero), flags.sign.eq(found.sign)]
            m.d.sync += found.eq(read.data)
        return m
