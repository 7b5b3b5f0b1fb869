"""The first step: reads the operands of an instruction from registers and constant banks."""

from typing import Any

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.control_code import NO_BARRIER
from rtl.layouts import Event, gathered_beat, indexed_request, indexed_response, register_gather
from rtl.params import SmParams
from rtl.structs import struct_value

from .buffers import operand_write
from .instruction import (
    DOUBLE_BITS,
    WORD_BITS,
    Uniform,
    buffered_instruction,
    double_entry,
    gathered_instruction,
)

__all__ = ["GatherStep"]


class _GatherIndex(data.Struct):
    """The ``index`` of a gather: where its words go in the operand buffer."""

    is_upper: unsigned(1)
    entry: unsigned(1)


_INDEX_BITS = data.Layout.cast(_GatherIndex).size


class GatherStep(Component):
    """Gathers the operands of an instruction: the lower words of a, b and c of all threads, and
    then the upper ones. Meanwhile it requests the upper word of a constant.

    A gather reads RZ for an operand that is RZ, is uniform, or does not exist. The last one lowers
    the read barrier. Beats of a gather follow each other: when the first one of the upper words has
    arrived the instruction is passed on, and another one may be in this step while the other beats
    arrive.

    Members
    -------
    entry : In(stream of double_entry)
        Accepted when no instruction is in this step, or the one that is leaves it in this cycle.
    gather, gathered
        See LaneClientPort.
    indexed, value : Out(stream of indexed_request), In(stream of indexed_response)
        Reads the upper word of a constant operand.
    operands : Out(Event(operand_write))
        A beat of ``gathered``, in the same cycle.
    output : Out(stream of gathered_instruction)
        Valid when the first beat of the upper words arrives, and while the instruction is here; but
        not before its constant has arrived.
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
        self._has_words = Signal(name="has_words")
        """The first beat of the upper words has arrived."""
        self._words_arrive = Signal(name="words_arrive")
        """It arrives in this cycle."""
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
        """Offers both gathers. A register pair begins with an even register, and RZ is odd: the
        number of the second register is made by ``| 1``."""
        work = self.work
        gather = self.gather
        is_upper = Signal()
        index = struct_value(_GatherIndex, is_upper=is_upper, entry=self._buffer_entry)
        m.d.comb += gather.payload.eq(struct_value(
            register_gather(self._params),
            warp=work.warp,
            sequence=work.sequence,
            index=index,
            last=is_upper,
            barrier=Mux(is_upper, work.read_barrier, NO_BARRIER),
            registers=Cat(first | is_upper for first in work.decoded.registers)))
        with m.If(self.entry.ready):
            m.d.sync += gather.valid.eq(self.entry.valid)
            m.d.sync += is_upper.eq(0)
        with m.Elif(gather.ready):
            m.d.sync += gather.valid.eq(~is_upper)
            m.d.sync += is_upper.eq(1)
        m.d.sync += Assert(~gather.ready | gather.valid, "a gather is taken that was not offered")

    def _receive_words(self, m: Module) -> None:
        """Writes a beat of words to the buffer."""
        gathered = self.gathered
        content = gathered.payload
        index: Any = data.View(_GatherIndex, content.index[:_INDEX_BITS])
        m.d.comb += self.operands.valid.eq(gathered.valid)
        m.d.comb += self.operands.payload.eq(struct_value(
            operand_write(self._params),
            entry=index.entry,
            is_upper=index.is_upper,
            beat=content.beat,
            values=content["values"]))
        is_first_beat = content.beat == 0
        m.d.comb += self._words_arrive.eq(gathered.valid & index.is_upper & is_first_beat)
        with m.If(self.entry.ready):
            m.d.sync += self._has_words.eq(0)
        with m.Elif(self._words_arrive):
            m.d.sync += self._has_words.eq(1)
        is_own = self._is_busy & (index.entry == self._buffer_entry)
        m.d.sync += Assert(~self._words_arrive | is_own, "a gather that was not requested")

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
        """Offers the instruction to compute when it can be computed."""
        work = self.work
        output = self.output.payload
        is_constant = work.decoded.uniform == Uniform.CONSTANT
        has_uniform = self._has_constant | ~is_constant
        has_words = self._has_words | self._words_arrive
        m.d.comb += self.output.valid.eq(self._is_busy & has_words & has_uniform)
        m.d.comb += output.buffered.eq(struct_value(
            buffered_instruction(self._params), work=work, entry=self._buffer_entry))
        with m.If(is_constant):
            m.d.comb += output.uniform.eq(Cat(work.decoded.operand, self._upper))
        with m.Else():
            zeros = Const(0, DOUBLE_BITS - WORD_BITS)
            m.d.comb += output.uniform.eq(Cat(zeros, work.decoded.operand))
