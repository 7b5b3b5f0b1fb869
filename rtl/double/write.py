"""Write: the third step. Results of an instruction are written to registers, or to predicates."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.control_code import NO_BARRIER
from rtl.isa.syntax import PT, RZ
from rtl.layouts import Event, operation_beat, register_write
from rtl.params import SmParams

from .buffers import result_read
from .instruction import WORD_BITS, DoubleOperation, computed_instruction, double_entry

__all__ = ["WriteStep"]


class WriteStep(Component):
    """Writes results a word at a time; the last write completes the instruction.

    Two writes have the words of a number; or predicates p and q, which are the lowest bits of these
    words. Where the second word goes nowhere there is one write.

    Members
    -------
    input : In(stream of computed_instruction)
        The next one is taken when the lanes request the last beat of the one before.
    write, wanted, flags
        Of a LaneClientPort, whose values and conditions are the buffer's.
    read, values : Out(result_read), In(a word for each lane)
        Of the ResultBuffer, a cycle later.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "input": In(stream.Signature(computed_instruction(params))),
            "write": Out(stream.Signature(register_write(params))),
            "wanted": In(Event(operation_beat(params))),
            "flags": Out(params.lanes),
            "read": Out(result_read(params)),
            "values": In(data.ArrayLayout(WORD_BITS, params.lanes)),
        })
        self.work: Any = Signal(double_entry(params), name="work")
        """The instruction."""
        self._buffer_entry = Signal(name="buffer_entry")
        """Where its words are."""
        self._is_taken = Signal(name="is_taken")
        """The next instruction is taken."""
        self._has_second = Signal(name="has_second")
        """There are two writes."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._take(m)
        self._count_writes(m)
        self._offer_writes(m)
        self._give_data(m)
        return m

    def _take(self, m: Module) -> None:
        """The next instruction, when the last beat of the one before is requested."""
        wanted = self.wanted
        is_busy = Signal()
        is_last_beat = wanted.payload.beat == self._params.beats - 1
        is_last_write = wanted.payload.index[0] == self._has_second
        is_written = wanted.valid & is_last_beat & is_last_write
        m.d.comb += self.input.ready.eq(~is_busy | is_written)
        m.d.comb += self._is_taken.eq(self.input.valid & self.input.ready)
        with m.If(self._is_taken):
            m.d.sync += is_busy.eq(1)
            m.d.sync += self.work.eq(self.input.payload.work)
            m.d.sync += self._buffer_entry.eq(self.input.payload.entry)
        with m.Elif(is_written):
            m.d.sync += is_busy.eq(0)

    def _count_writes(self, m: Module) -> None:
        """Whether the second word goes anywhere."""
        operation = self.work.decoded.instruction.operation
        with m.If(operation == DoubleOperation.TEST):
            m.d.comb += self._has_second.eq(self.work.decoded.q != PT)
        with m.Elif(operation == DoubleOperation.TEST_TO_REGISTER):
            m.d.comb += self._has_second.eq(0)
        with m.Else():
            m.d.comb += self._has_second.eq(self.work.decoded.destination != RZ)

    def _offer_writes(self, m: Module) -> None:
        """A write, and another one. A register pair begins with an even number, and RZ is odd: no
        sum is needed."""
        work = self.work
        write = self.write.payload
        has_write = Signal()
        is_second = Signal()
        is_last = is_second | ~self._has_second
        m.d.comb += self.write.valid.eq(has_write)
        m.d.comb += write.warp.eq(work.warp)
        m.d.comb += write.serial.eq(work.serial)
        m.d.comb += write.threads.eq(work.threads)
        m.d.comb += write.register.eq(work.decoded.destination | is_second)
        m.d.comb += write.predicate.eq(Mux(is_second, work.decoded.q, work.decoded.p))
        m.d.comb += write.index.eq(is_second)
        m.d.comb += write.last.eq(is_last)
        m.d.comb += write.conditional.eq(work.decoded.conditional & is_last)
        m.d.comb += write.barrier.eq(Mux(is_last, work.write_barrier, NO_BARRIER))
        with m.If(self._is_taken):
            m.d.sync += has_write.eq(1)
            m.d.sync += is_second.eq(0)
        with m.Elif(self.write.ready & has_write):
            m.d.sync += has_write.eq(~is_last)
            m.d.sync += is_second.eq(1)

    def _give_data(self, m: Module) -> None:
        """The beat that the lanes request."""
        wanted = self.wanted
        m.d.comb += self.read.entry.eq(self._buffer_entry)
        m.d.comb += self.read.second.eq(wanted.payload.index[0])
        m.d.comb += self.read.beat.eq(wanted.payload.beat)
        m.d.comb += self.flags.eq(Cat(value[0] for value in self.values))
