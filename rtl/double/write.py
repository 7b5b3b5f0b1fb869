"""The third step: writes the results of an instruction to registers or predicates."""

from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.control_code import NO_BARRIER
from rtl.isa.syntax import PT, RZ
from rtl.layouts import Event, operation_beat, register_write
from rtl.params import SmParams
from rtl.structs import struct_value

from .buffers import result_place
from .compute import RESULT_CYCLES
from .instruction import DoubleOperation, buffered_instruction

__all__ = ["WriteStep"]

_WANTED_CYCLES = 2
"""Cycles from the transfer of a write to the request for its first beat, at least."""
_OFFER_CYCLES = RESULT_CYCLES - _WANTED_CYCLES
"""Cycles from an instruction's being accepted to the offer of its first write: so that all beats
are in the buffer when they are requested."""


class WriteStep(Component):
    """Writes results a word at a time; the last write completes the instruction.

    An instruction has one write or two. The first one writes the lower word of a number, or
    predicate p, which is bit 0 of that word; the second one the upper word, or predicate q. There
    is no second write if its register is RZ or its predicate PT, nor for DSET.

    An instruction is accepted while the last results are being computed: ::

        cycle                 event
        0                     the instruction is accepted
        _OFFER_CYCLES         the first write is offered, and taken at the earliest
        RESULT_CYCLES + n     beat n of the results can be read; it is requested at the earliest

    Members
    -------
    input : In(stream of buffered_instruction)
        Accepted when no instruction is in this step, or the lanes request the last beat of the one
        that is. Its results are there RESULT_CYCLES later.
    write, wanted
        See LaneClientPort. The ``index`` of a write is 0, or 1 for the second one.
    read : Out(result_place)
        The beat that is read from the ResultBuffer, in the cycle of ``wanted``. The buffer drives
        the data of the lanes in the next cycle.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "input": In(stream.Signature(buffered_instruction(params))),
            "write": Out(stream.Signature(register_write(params))),
            "wanted": In(Event(operation_beat(params))),
            "read": Out(result_place(params)),
        })
        self._buffered: Any = Signal(buffered_instruction(params), name="buffered")
        """The instruction in this step, and the entry of its results."""
        self._is_taken = Signal(name="is_taken")
        """The next instruction is accepted in this cycle."""
        self._has_second = Signal(name="has_second")
        """There are two writes."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._take(m)
        self._count_writes(m)
        self._offer_writes(m)
        self._read_results(m)
        return m

    def _take(self, m: Module) -> None:
        """Accepts the next instruction when the last beat of the one before is requested."""
        wanted = self.wanted
        is_busy = Signal()
        is_last_beat = wanted.payload.beat == self._params.beats - 1
        is_last_write = wanted.payload.index[0] == self._has_second
        is_written = wanted.valid & is_last_beat & is_last_write
        m.d.comb += self.input.ready.eq(~is_busy | is_written)
        m.d.comb += self._is_taken.eq(self.input.valid & self.input.ready)
        with m.If(self._is_taken):
            m.d.sync += is_busy.eq(1)
            m.d.sync += self._buffered.eq(self.input.payload)
        with m.Elif(is_written):
            m.d.sync += is_busy.eq(0)

    def _count_writes(self, m: Module) -> None:
        """Whether there is a second write."""
        decoded = self._buffered.work.decoded
        operation = decoded.instruction.operation
        with m.If(operation == DoubleOperation.TEST):
            m.d.comb += self._has_second.eq(decoded.q != PT)
        with m.Elif(operation == DoubleOperation.TEST_TO_REGISTER):
            m.d.comb += self._has_second.eq(0)
        with m.Else():
            m.d.comb += self._has_second.eq(decoded.destination != RZ)

    def _offer_writes(self, m: Module) -> None:
        """Offers the first write, then the second one. A register pair begins with an even
        register, and RZ is odd: the number of the second register is made by ``| 1``."""
        work = self._buffered.work
        decoded = work.decoded
        write = self.write
        is_second = Signal()
        is_last = is_second | ~self._has_second
        is_awaited = Signal(_OFFER_CYCLES - 1)
        """Bit n: the instruction was accepted n + 1 cycles ago."""
        m.d.comb += write.payload.eq(struct_value(
            register_write(self._params),
            warp=work.warp,
            sequence=work.sequence,
            index=is_second,
            last=is_last,
            barrier=Mux(is_last, work.write_barrier, NO_BARRIER),
            register=decoded.destination | is_second,
            predicate=Mux(is_second, decoded.q, decoded.p),
            conditional=decoded.conditional & is_last,
            threads=work.threads))
        m.d.sync += is_awaited.eq(Cat(self._is_taken, is_awaited))
        with m.If(is_awaited[-1]):
            m.d.sync += write.valid.eq(1)
            m.d.sync += is_second.eq(0)
        with m.Elif(write.ready & write.valid):
            m.d.sync += write.valid.eq(~is_last)
            m.d.sync += is_second.eq(1)

        was_taken = Signal()
        m.d.sync += was_taken.eq(write.ready & write.valid & ~is_second)
        m.d.sync += Assert(
            ~(was_taken & self.wanted.valid), "results are requested before they are there")

    def _read_results(self, m: Module) -> None:
        """Reads the beat that the lanes request."""
        m.d.comb += self.read.eq(struct_value(
            result_place(self._params),
            entry=self._buffered.entry,
            is_upper=self.wanted.payload.index[0],
            beat=self.wanted.payload.beat))
