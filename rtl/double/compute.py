"""The second step: computes the threads of an instruction in the datapath."""

from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.isa.syntax import RZ
from rtl.layouts import Event, delayed
from rtl.params import WARP_THREADS, SmParams
from rtl.structs import struct_value

from .buffers import OPERAND_WORD_BITS, OperandRead, operand_place, result_word, result_write
from .datapath import THREAD_CYCLES, DoubleDatapath
from .instruction import (
    WORD_BITS,
    Uniform,
    buffered_instruction,
    gathered_instruction,
)

__all__ = ["ComputeStep"]

_THREAD_BITS = ceil_log2(WARP_THREADS)
_WORDS = 6
"""Words of a thread's operands a, b and c, the lower one of each first."""
_OPERAND_B = 1
_OPERAND_C = 2
_BUFFER_CYCLES = 2
"""Cycles from a read of the operand buffer to its word."""
assert THREAD_CYCLES == 1 << OPERAND_WORD_BITS, "a thread is computed in as many cycles as words"


class _WordRead(data.Struct):
    """A read of an operand word of a thread. Word numbers 6 and 7 are read as well, and not used: a
    thread takes THREAD_CYCLES cycles."""

    word: unsigned(OPERAND_WORD_BITS)
    thread: unsigned(_THREAD_BITS)


class ComputeStep(Component):
    """Reads the operands of all 32 threads, a word a cycle, and starts the datapath for one thread
    after another, every THREAD_CYCLES cycles.

    ::

        cycle of a thread      event
        0 to 5                 a word is read from the operand buffer
        2 to 7                 the buffer outputs the word
        8                      start of the datapath; cycle 0 of the next thread
        8 + DATAPATH_CYCLES    the lower word of the result is written to the result buffer
        9 + DATAPATH_CYCLES    the upper word is written

    The next instruction begins when all results of the one before are in the buffer and the write
    step has accepted it: instructions do not overlap in the datapath.

    Members
    -------
    input : In(stream of gathered_instruction)
        Accepted when no instruction is in this step, or the one that is leaves it in this cycle.
    read : Out(OperandRead)
    result : Out(Event(result_write))
    output : Out(stream of buffered_instruction)
        Valid when all results of the instruction are in the buffer.

    Attributes
    ----------
    work
        The instruction in this step, a double_entry.
    datapath : DoubleDatapath
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "input": In(stream.Signature(gathered_instruction(params))),
            "read": Out(OperandRead()),
            "result": Out(Event(result_write)),
            "output": Out(stream.Signature(buffered_instruction(params))),
        })
        self.datapath = DoubleDatapath()
        self._gathered: Any = Signal(gathered_instruction(params), name="gathered")
        """The instruction in this step, its entry of both buffers, and its uniform operand; valid
        if ``is_busy``."""
        self.work = self._gathered.buffered.work
        self._is_busy = Signal(name="is_busy")
        self._is_taken = Signal(name="is_taken")
        """The next instruction is accepted in this cycle."""
        self._next_read: Any = Event(_WordRead).create(path=("next_read",))
        """The word that is read in this cycle."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.datapath = self.datapath
        self._take(m)
        self._read_words(m)
        self._collect_words(m)
        self._store_results(m)
        return m

    def _take(self, m: Module) -> None:
        """Accepts the next instruction when the one before leaves the step."""
        is_handed_on = self.output.valid & self.output.ready
        m.d.comb += self.input.ready.eq(~self._is_busy | is_handed_on)
        m.d.comb += self._is_taken.eq(self.input.valid & self.input.ready)
        with m.If(self._is_taken):
            m.d.sync += self._is_busy.eq(1)
            m.d.sync += self._gathered.eq(self.input.payload)
        with m.Elif(is_handed_on):
            m.d.sync += self._is_busy.eq(0)
        m.d.comb += self.output.payload.eq(self._gathered.buffered)

    def _read_words(self, m: Module) -> None:
        """Reads all words of all threads, one a cycle."""
        valid = self._next_read.valid
        read = self._next_read.payload
        is_last_word = read.word.all()
        with m.If(self._is_taken):
            m.d.sync += valid.eq(1)
        with m.Elif(valid):
            m.d.sync += read.word.eq(read.word + 1)
            m.d.sync += read.thread.eq(read.thread + is_last_word)
            m.d.sync += valid.eq(~(is_last_word & read.thread.all()))
        m.d.comb += self.read.place.eq(struct_value(
            operand_place,
            entry=self._gathered.buffered.entry,
            word=read.word,
            thread=read.thread))

    def _collect_words(self, m: Module) -> None:
        """Collects the words of a thread, and starts the datapath after the last one. A word of an
        operand that is neither uniform nor gathered is 0."""
        work = self.work
        datapath = self.datapath
        arriving = delayed(m, self._next_read, _BUFFER_CYCLES)
        read = arriving.payload
        operand = read.word[1:]
        is_upper = read.word[0]
        has_b = work.decoded.registers[_OPERAND_B] != RZ
        has_c = work.decoded.registers[_OPERAND_C] != RZ
        is_gathered = Array([1, has_b, has_c, 0])[operand]
        uniform_operand = Mux(work.decoded.uniform_c, _OPERAND_C, _OPERAND_B)
        is_uniform = (work.decoded.uniform != Uniform.NONE) & (operand == uniform_operand)
        value = Signal(WORD_BITS, name="operand_word")
        with m.If(is_uniform):
            m.d.comb += value.eq(self._gathered.uniform.word_select(is_upper, WORD_BITS))
        with m.Elif(is_gathered):
            m.d.comb += value.eq(self.read.value)

        words = [Signal(WORD_BITS, name=f"word_{number}") for number in range(_WORDS)]
        for number, word in enumerate(words):
            with m.If(read.word == number):
                m.d.sync += word.eq(value)
        m.d.sync += datapath.start.eq(arriving.valid & (read.word == _WORDS - 1))
        m.d.sync += datapath.predicate.eq(work.predicate.bit_select(read.thread, 1))
        m.d.comb += datapath.instruction.eq(work.decoded.instruction)
        m.d.comb += datapath.a.eq(Cat(words[0], words[1]))
        m.d.comb += datapath.b.eq(Cat(words[2], words[3]))
        m.d.comb += datapath.c.eq(Cat(words[4], words[5]))

    def _store_results(self, m: Module) -> None:
        """Writes a thread's result: the lower word when ``done``, the upper one a cycle later."""
        result = self.datapath.result
        is_second = Signal()
        thread = Signal(_THREAD_BITS)
        is_handed_on = self.output.valid & self.output.ready
        m.d.sync += is_second.eq(self.datapath.done)
        m.d.sync += thread.eq(thread + is_second)
        with m.If(is_handed_on):
            m.d.sync += self.output.valid.eq(0)
        with m.Elif(is_second & thread.all()):
            m.d.sync += self.output.valid.eq(1)
        word = struct_value(
            result_word,
            value=result.word_select(is_second, WORD_BITS),
            zero=~result.any(),
            sign=result[-1])
        m.d.comb += self.result.valid.eq(self.datapath.done | is_second)
        m.d.comb += self.result.payload.eq(struct_value(
            result_write,
            entry=self._gathered.buffered.entry,
            second=is_second,
            thread=thread,
            word=word))
