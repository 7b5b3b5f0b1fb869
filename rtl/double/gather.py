"""The first step: reads the operands of an instruction from registers and constant banks."""

from typing import Any

from amaranth.hdl import Array, Assert, Cat, Const, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.control_code import NO_BARRIER
from rtl.isa.syntax import RZ
from rtl.layouts import Event, gathered_beat, indexed_request, indexed_response, register_gather
from rtl.params import SmParams
from rtl.structs import struct_value

from .buffers import OPERAND_WORD_BITS, operand_write
from .instruction import (
    DOUBLE_BITS,
    WORD_BITS,
    Uniform,
    buffered_instruction,
    double_entry,
    gathered_instruction,
)

__all__ = ["GatherStep"]

_LAST_OF_A = 1
_LAST_OF_B = 3
_FIRST_OF_C = 4
_LAST_OF_C = 5
"""Numbers of operand words, see :class:`GatherStep`."""


class GatherStep(Component):
    """Gathers the words of an instruction's operands, one gather for each word of all threads.
    Meanwhile it requests the upper word of a constant.

    ::

        word      0      1      2      3      4      5
        operand   a low  a high b low  b high c low  c high

    Words of a are always gathered, so that there is a last gather, which lowers the read barrier.
    Words of b and c are gathered unless ``registers`` has RZ for them: the operand is RZ, is
    uniform, or does not exist.

    Members
    -------
    entry : In(stream of double_entry)
        Accepted when no instruction is in this step, or the one that is leaves it in this cycle.
    gather, gathered
        See LaneClientPort. The ``index`` of a gather is the number of its word.
    indexed, value : Out(stream of indexed_request), In(stream of indexed_response)
        Reads the upper word of a constant operand.
    operands : Out(Event(operand_write))
        A beat of ``gathered``, in the same cycle.
    output : Out(stream of gathered_instruction)
        Valid when all words of the instruction are in the buffer, and its constant has arrived.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "entry": In(stream.Signature(double_entry(params))),
            "gather": Out(stream.Signature(register_gather(params))),
            "gathered": In(Event(gathered_beat(params))),
            "indexed": Out(stream.Signature(indexed_request())),
            "value": In(stream.Signature(indexed_response())),
            "operands": Out(Event(operand_write(params))),
            "output": Out(stream.Signature(gathered_instruction(params))),
        })
        self.work: Any = Signal(double_entry(params), name="work")
        """The instruction in this step; valid if ``is_busy``."""
        self._is_busy = Signal(name="is_busy")
        self._buffer_entry = Signal(name="buffer_entry")
        """The entry of the operand buffer that its words are written to; instructions alternate."""
        self._last_word = Signal(OPERAND_WORD_BITS, name="last_word")
        """The number of the last word that is gathered."""
        self._has_words = Signal(name="has_words")
        """All words are in the buffer."""
        self._has_constant = Signal(name="has_constant")
        """``upper`` has the upper word of the constant."""
        self._upper = Signal(WORD_BITS, name="upper")
        """The upper word of the constant."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._take(m)
        self._request_words(m)
        self._receive_words(m)
        self._request_constant(m)
        self._hand_on(m)
        return m

    def _take(self, m: Module) -> None:
        """Accepts the next instruction when the one before leaves the step."""
        entry = self.entry
        is_handed_on = self.output.valid & self.output.ready
        m.d.comb += entry.ready.eq(~self._is_busy | is_handed_on)
        with m.If(entry.ready):
            m.d.sync += self._is_busy.eq(entry.valid)
            m.d.sync += self.work.eq(entry.payload)
        m.d.sync += self._buffer_entry.eq(self._buffer_entry ^ is_handed_on)

    def _request_words(self, m: Module) -> None:
        """Offers a gather for each word. A register pair begins with an even register, and RZ is
        odd: the number of the second register is made by ``| 1``."""
        work = self.work
        gather = self.gather
        word = Signal(OPERAND_WORD_BITS)
        has_b = work.decoded.registers[1] != RZ
        has_c = work.decoded.registers[2] != RZ
        with m.If(has_c):
            m.d.comb += self._last_word.eq(_LAST_OF_C)
        with m.Elif(has_b):
            m.d.comb += self._last_word.eq(_LAST_OF_B)
        with m.Else():
            m.d.comb += self._last_word.eq(_LAST_OF_A)

        is_last = word == self._last_word
        register = Array(work.decoded.registers)[word[1:]] | word[0]
        nothing = Const(RZ, 8)
        m.d.comb += gather.payload.eq(struct_value(
            register_gather(self._params),
            warp=work.warp,
            sequence=work.sequence,
            index=word,
            last=is_last,
            barrier=Mux(is_last, work.read_barrier, NO_BARRIER),
            registers=Cat(register, nothing, nothing)))
        with m.If(self.entry.ready):
            m.d.sync += gather.valid.eq(self.entry.valid)
            m.d.sync += word.eq(0)
        with m.Elif(gather.ready):
            m.d.sync += gather.valid.eq(~is_last)
            m.d.sync += word.eq(Mux((word == _LAST_OF_A) & ~has_b, _FIRST_OF_C, word + 1))
        m.d.sync += Assert(~gather.ready | gather.valid, "a gather is taken that was not offered")

    def _receive_words(self, m: Module) -> None:
        """Writes a beat of a word to the buffer."""
        gathered = self.gathered
        content = gathered.payload
        is_last_beat = content.beat == self._params.beats - 1
        is_last_word = content.index == self._last_word
        m.d.comb += self.operands.valid.eq(gathered.valid)
        m.d.comb += self.operands.payload.eq(struct_value(
            operand_write(self._params),
            entry=self._buffer_entry,
            word=content.index,
            beat=content.beat,
            values=Cat(registers[0] for registers in content["values"])))
        with m.If(self.entry.ready):
            m.d.sync += self._has_words.eq(0)
        with m.Elif(gathered.valid & is_last_word & is_last_beat):
            m.d.sync += self._has_words.eq(1)
        m.d.sync += Assert(
            ~gathered.valid | self._is_busy, "a gather that was not requested")

    def _request_constant(self, m: Module) -> None:
        """Requests the upper word of a constant; the lower one was dispatched."""
        work = self.work
        is_constant = work.decoded.uniform == Uniform.CONSTANT
        is_requested = Signal()
        m.d.comb += self.indexed.valid.eq(self._is_busy & is_constant & ~is_requested)
        m.d.comb += self.indexed.payload.eq(struct_value(
            indexed_request(), bank=work.decoded.bank, address=work.decoded.address))
        m.d.comb += self.value.ready.eq(1)
        with m.If(self.value.valid):
            m.d.sync += self._upper.eq(self.value.payload.value)
        with m.If(self.entry.ready):
            m.d.sync += is_requested.eq(0)
            m.d.sync += self._has_constant.eq(0)
        with m.Else():
            with m.If(self.indexed.ready & self.indexed.valid):
                m.d.sync += is_requested.eq(1)
            with m.If(self.value.valid):
                m.d.sync += self._has_constant.eq(1)

    def _hand_on(self, m: Module) -> None:
        """Offers the instruction to compute when all its operands have arrived."""
        work = self.work
        output = self.output.payload
        is_constant = work.decoded.uniform == Uniform.CONSTANT
        has_uniform = self._has_constant | ~is_constant
        m.d.comb += self.output.valid.eq(self._is_busy & self._has_words & has_uniform)
        m.d.comb += output.buffered.eq(struct_value(
            buffered_instruction(self._params), work=work, entry=self._buffer_entry))
        with m.If(is_constant):
            m.d.comb += output.uniform.eq(Cat(work.decoded.operand, self._upper))
        with m.Else():
            zeros = Const(0, DOUBLE_BITS - WORD_BITS)
            m.d.comb += output.uniform.eq(Cat(zeros, work.decoded.operand))
