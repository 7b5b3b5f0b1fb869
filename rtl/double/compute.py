"""The second step: computes the threads of an instruction in the datapath."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from rtl.arbiter import lowest
from rtl.component import Component
from rtl.layouts import Event, delayed
from rtl.one_hot import one_hot
from rtl.params import WARP_THREADS, SmParams
from rtl.structs import struct_value

from .buffers import OperandRead, operand_place, result_write
from .datapath import DATAPATH_CYCLES, DoubleDatapath
from .instruction import THREAD_BITS, Uniform, buffered_instruction, gathered_instruction

__all__ = ["RESULT_CYCLES", "ComputeStep"]

_OPERAND_A, _OPERAND_B, _OPERAND_C = range(3)
_BUFFER_CYCLES = 1
"""Cycles from a read of the operand buffer to its words."""
RESULT_CYCLES = _BUFFER_CYCLES + DATAPATH_CYCLES + 1
"""Cycles from the first one in which ``output`` is valid until the first beat of results can be
read; each further beat can be read a cycle later."""


class ComputeStep(Component):
    """Reads the operands of the threads that execute an instruction, one in a cycle, and sends them
    through the datapath. ::

        cycle of a thread      event
        0                      its operands are read from the operand buffer
        1                      they enter the datapath
        1 + DATAPATH_CYCLES    the result is written to the result buffer
        2 + DATAPATH_CYCLES    it can be read

    An instruction may be accepted in the cycle in which the first beat of its operands is written
    to the buffer; the others follow, one in each cycle, and no thread is read before its beat. An
    instruction is in this step while threads of it have not been read, and a cycle longer. In the
    datapath threads of two instructions follow each other.

    Members
    -------
    input : In(stream of gathered_instruction)
        Accepted when no instruction is in this step, or the one that is leaves it in this cycle.
    read : Out(OperandRead)
    result : Out(Event(result_write))
    output : Out(stream of buffered_instruction)
        Valid once the cycle is known in which the results can be read: see RESULT_CYCLES.

    Attributes
    ----------
    work
        The instruction in this step, a double_entry.
    sent
        The thread whose operands enter the datapath, and its entry of both buffers.
    datapath : DoubleDatapath
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
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
        self._hands_on = Signal(name="hands_on")
        """The write step accepts the instruction in this cycle."""
        self._is_handed_on = Signal(name="is_handed_on")
        """The write step has accepted it."""
        self._remaining = Signal(WARP_THREADS, name="remaining")
        """Threads of the instruction whose operands are read later than in this cycle."""
        self._reading: Any = Event(unsigned(THREAD_BITS)).create(path=("reading",))
        """The thread whose operands are read in this cycle."""
        self._open_beats = Signal(params.beats, name="open_beats")
        """Beats that may be read: in the n-th cycle beats 0 to n, counted from 0."""
        self.sent: Any = Event(operand_place).create(path=("sent",))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.datapath = self.datapath
        self._take(m)
        self._hand_on(m)
        self._read_threads(m)
        self._feed(m)
        self._store_results(m)
        return m

    def _take(self, m: Module) -> None:
        """Accepts the next instruction when all threads of the one before have been read, and the
        write step has it."""
        is_read = (self._remaining == 0) & ~self._reading.valid
        leaves = is_read & (self._is_handed_on | self._hands_on)
        m.d.comb += self.input.ready.eq(~self._is_busy | leaves)
        m.d.comb += self._is_taken.eq(self.input.valid & self.input.ready)
        with m.If(self._is_taken):
            m.d.sync += self._is_busy.eq(1)
            m.d.sync += self._gathered.eq(self.input.payload)
        with m.Elif(leaves):
            m.d.sync += self._is_busy.eq(0)

    def _hand_on(self, m: Module) -> None:
        """Offers the instruction to the write step when the threads that remain are the last ones,
        at most as many as the beats after the first one, and one of them is read in each cycle from
        the next one on. Then the results of each beat are ready at most a cycle after those of the
        beat before."""
        others_are_read = ~self._remaining[:WARP_THREADS - self._params.beats + 1].any()
        none_waits = self._next_open_beats().all() | (self._remaining == 0)
        m.d.comb += self.output.valid.eq(
            self._is_busy & ~self._is_handed_on & others_are_read & none_waits)
        m.d.comb += self.output.payload.eq(self._gathered.buffered)
        m.d.comb += self._hands_on.eq(self.output.valid & self.output.ready)
        with m.If(self._is_taken):
            m.d.sync += self._is_handed_on.eq(0)
        with m.Elif(self._hands_on):
            m.d.sync += self._is_handed_on.eq(1)

    def _next_open_beats(self) -> Value:
        """The beats that may be read in the next cycle."""
        return Cat(Const(1, 1), self._open_beats)[:self._params.beats]

    def _read_threads(self, m: Module) -> None:
        """Reads the operands of a thread in each cycle: the first one that remains in an open beat.
        One more beat opens in each cycle."""
        reading = self._reading
        threads = self.input.payload.buffered.work.threads
        with m.If(self._is_taken):
            m.d.sync += self._open_beats.eq(1)
        with m.Else():
            m.d.sync += self._open_beats.eq(self._next_open_beats())
        self._choose(m, "first", self._is_taken, threads, Const(1, self._params.beats))
        self._choose(m, "next", ~self._is_taken, self._remaining, self._next_open_beats())

        m.d.comb += self.read.place.eq(struct_value(
            operand_place,
            entry=self._gathered.buffered.entry,
            thread=reading.payload))
        m.d.sync += self.sent.valid.eq(reading.valid)
        m.d.sync += self.sent.payload.eq(self.read.place)

    def _choose(
            self, m: Module, name: str, when: Value, threads: Value, open_beats: Value) -> None:
        """Chooses the thread that is read in the next cycle. ``when`` is known late."""
        beats = Cat(is_open.replicate(self._params.lanes) for is_open in open_beats)
        candidates = Signal(WARP_THREADS, name=f"{name}_candidates")
        m.d.comb += candidates.eq(threads & beats)
        is_read = candidates.any()
        thread = lowest(candidates)
        with m.If(when):
            m.d.sync += self._reading.valid.eq(is_read)
            m.d.sync += self._reading.payload.eq(thread)
            m.d.sync += self._remaining.eq(threads & ~one_hot(thread, WARP_THREADS, is_read))

    def _feed(self, m: Module) -> None:
        """Gives the datapath the operands of the thread that was read in the cycle before."""
        decoded = self.work.decoded
        datapath = self.datapath
        m.d.comb += datapath.instruction.eq(decoded.instruction)
        m.d.comb += datapath.predicate.eq(
            self.work.predicate.bit_select(self.sent.payload.thread, 1))
        m.d.comb += datapath.a.eq(self._gathered_operand(_OPERAND_A))
        is_uniform = decoded.uniform != Uniform.NONE
        uniform = self._gathered.uniform
        m.d.comb += datapath.b.eq(Mux(
            is_uniform & ~decoded.uniform_c, uniform, self._gathered_operand(_OPERAND_B)))
        m.d.comb += datapath.c.eq(Mux(
            is_uniform & decoded.uniform_c, uniform, self._gathered_operand(_OPERAND_C)))

    def _gathered_operand(self, operand: int) -> Value:
        """Operand a, b or c of the thread, from registers; 0 from RZ."""
        return Cat(self.read.lower[operand], self.read.upper[operand])

    def _store_results(self, m: Module) -> None:
        """Writes the result of the thread that leaves the datapath."""
        leaving = delayed(m, self.sent, DATAPATH_CYCLES)
        m.d.comb += self.result.valid.eq(leaving.valid)
        m.d.comb += self.result.payload.eq(struct_value(
            result_write,
            entry=leaving.payload.entry,
            thread=leaving.payload.thread,
            value=self.datapath.result))
