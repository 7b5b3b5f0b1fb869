"""The unit for double precision, joined."""


from amaranth.hdl import Array, Assert, Cat, Const, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component, pass_on
from rtl.isa.control_code import NO_BARRIER
from rtl.isa.syntax import PT, RZ
from rtl.layouts import EventLayout, LaneClientPort, dispatched, indexed_request, indexed_response
from rtl.params import WARP_THREADS, SmParams

from .buffers import OPERAND_WORD_BITS, OperandBuffer, ResultBuffer
from .datapath import THREAD_CYCLES, DoubleDatapath
from .instruction import DOUBLE_BITS, WORD_BITS, DoubleOperation, Uniform, double_entry
from .queue import DoubleQueue

__all__ = ["DoubleUnit"]

_THREAD_BITS = ceil_log2(WARP_THREADS)
_WORDS = 6
"""Of a thread's operands: a, b and c, the lower one first."""
assert THREAD_CYCLES == 1 << OPERAND_WORD_BITS


class DoubleUnit(Component):
    """Executes DADD, DMUL, DFMA, DMNMX, DSETP and DSET, in order and in three steps that overlap: one's registers are
    gathered, a word at a time, while another one is computed and a third one's results are written.

    A thread is computed every THREAD_CYCLES cycles. What comes here has no error: a constant beyond the end of its bank
    is 0.

    Members
    -------
    dispatch : In(EventLayout of dispatched)
        An instruction of double precision.
    room : Out(1)
        There is room for an instruction whenever it comes, if it is selected now.
    port : Out(LaneClientPort)
        The last write completes an instruction. Marks are of three bits.
    indexed, value : Out(stream of indexed_request), In(stream of indexed_response)
        The upper words of constant operands, one at a time.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "dispatch": In(EventLayout(dispatched(params))), "room": Out(1), "port": Out(LaneClientPort(params)),
            "indexed": Out(stream.Signature(indexed_request())), "value": In(stream.Signature(indexed_response()))})
        self.queue = DoubleQueue(params)
        self.datapath = DoubleDatapath()
        self.operands = OperandBuffer(params)
        self.results = ResultBuffer(params)
        self.gathering, self.current, self.leaving = (
            Signal(double_entry(params), name=name) for name in ("gathering", "current", "leaving"))
        """The instructions in the three steps."""
        self._upper = Signal(WORD_BITS)
        """Of the constant of what is gathered."""
        self._entries = [Signal(name=f"entry_{step}") for step in ("gathering", "current", "leaving")]
        """Where in the buffers a step's instruction has its words."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for name in ("queue", "datapath", "operands", "results"):
            m.submodules[name] = getattr(self, name)
        pass_on(m, self, self.queue, "dispatch")
        gathered, computed, written = (Signal(name=name) for name in ("gathered", "computed", "written"))
        computing, writing, computes, writes = (
            Signal(name=name) for name in ("computing", "writing", "computes", "writes"))
        m.d.comb += [
            self.room.eq(self.queue.room), writes.eq(computed & (~writing | written)),
            computes.eq(gathered & (~computing | writes))]
        m.d.sync += [computing.eq(computes | computing & ~writes), writing.eq(writes | writing & ~written)]
        entries, steps = self._entries, (self.gathering, self.current, self.leaving)
        m.d.sync += entries[0].eq(entries[0] ^ computes)
        for moves, before, after in ((computes, 0, 1), (writes, 1, 2)):
            with m.If(moves):
                m.d.sync += [steps[after].eq(steps[before]), entries[after].eq(entries[before])]
        self._gather(m, gathered, computes)
        self._compute(m, computed, computes, writes)
        self._write(m, written, writes)
        return m

    def _gather(self, m: Module, done: Signal, leaves: Signal) -> None:
        """Registers, a word of each thread at a time, and the upper word of a constant."""
        here, queue, buffer = self.gathering, self.queue.entry, self.operands
        gather, came = self.port.gather, self.port.gathered
        busy, asks, word, last = Signal(), Signal(), Signal(OPERAND_WORD_BITS), Signal(OPERAND_WORD_BITS)
        arrived, known, asked = Signal(), Signal(), Signal()
        used = [register != RZ for register in here.registers]
        m.d.comb += [
            queue.ready.eq(~busy | leaves), last.eq(Mux(used[2], 5, Mux(used[1], 3, 1))), gather.valid.eq(asks),
            gather.payload.registers.eq(Cat(Array(here.registers)[word[1:]] | word[0], Const(RZ, 8), Const(RZ, 8))),
            gather.payload.index.eq(word), gather.payload.last.eq(word == last),
            gather.payload.barrier.eq(Mux(word == last, here.read_barrier, NO_BARRIER)),
            buffer.write.eq(came.valid), buffer.entry.eq(self._entries[0]), buffer.word.eq(came.index),
            buffer.beat.eq(came.beat),
            self.indexed.valid.eq(busy & (here.uniform == Uniform.CONSTANT) & ~asked),
            self.indexed.payload.bank.eq(here.bank), self.indexed.payload.address.eq(here.address),
            self.value.ready.eq(1), done.eq(busy & arrived & (known | (here.uniform != Uniform.CONSTANT)))]
        pass_on(m, here, gather.payload, "warp", "serial")
        m.d.comb += [value.eq(words[0]) for value, words in zip(buffer.values, came["values"], strict=True)]
        with m.If(gather.ready):
            m.d.sync += [asks.eq(word != last), word.eq(Mux(word[0] & (word == 1) & ~used[1], 4, word + 1))]
        with m.If(came.valid & (came.index == last) & (came.beat == self._params.beats - 1)):
            m.d.sync += arrived.eq(1)
        with m.If(self.indexed.ready & self.indexed.valid):
            m.d.sync += asked.eq(1)
        with m.If(self.value.valid):
            m.d.sync += [known.eq(1), self._upper.eq(self.value.payload.value)]
        with m.If(queue.ready):
            m.d.sync += [busy.eq(queue.valid), asks.eq(queue.valid), here.eq(queue.payload), word.eq(0),
                         arrived.eq(0), known.eq(0), asked.eq(0)]
        m.d.sync += Assert(~came.valid | busy, "a gather that nobody has asked for")

    def _compute(self, m: Module, done: Signal, begins: Signal, leaves: Signal) -> None:
        """Threads, one after the other: their words are read, then they pass the datapath."""
        current, buffer, datapath, results = self.current, self.operands, self.datapath, self.results
        here, entry, uniform = self.gathering, self._entries[1], Signal(DOUBLE_BITS)
        word, thread, reads, left = Signal(OPERAND_WORD_BITS), Signal(_THREAD_BITS), Signal(), Signal(_THREAD_BITS)
        with m.If(begins):
            m.d.sync += [reads.eq(1), uniform.eq(Mux(here.uniform == Uniform.CONSTANT, Cat(
                here.operand, self._upper), Cat(Const(0, WORD_BITS), here.operand)))]
        with m.Elif(reads):
            m.d.sync += [word.eq(word + 1), thread.eq(thread + word.all()), reads.eq(~(word.all() & thread.all()))]
        m.d.comb += [buffer.read_entry.eq(entry), buffer.read_word.eq(word), buffer.thread.eq(thread)]

        # Two cycles later the word is there.
        passing = [Signal(1 + OPERAND_WORD_BITS + _THREAD_BITS, name=f"passing_{stage}") for stage in range(2)]
        m.d.sync += [passing[0].eq(Cat(reads, word, thread)), passing[1].eq(passing[0])]
        number = passing[1][1:1 + OPERAND_WORD_BITS]
        words = [Signal(WORD_BITS, name=f"word_{place}") for place in range(_WORDS)]
        given = Array([1, *(register != RZ for register in list(current.registers)[1:]), 0])[number[1:]]
        same = (current.uniform != Uniform.NONE) & (number[1:] == Mux(current.uniform_c, 2, 1))
        value = Mux(same, uniform.word_select(number[0], WORD_BITS), buffer.value & given.replicate(WORD_BITS))
        for place, register in enumerate(words):
            with m.If(number == place):
                m.d.sync += register.eq(value)
        m.d.sync += [
            datapath.start.eq(passing[1][0] & (number == _WORDS - 1)),
            datapath.predicate.eq(current.predicates.bit_select(passing[1][1 + OPERAND_WORD_BITS:], 1))]
        m.d.comb += [datapath.instruction.eq(current.instruction), datapath.a.eq(Cat(words[:2])),
                     datapath.b.eq(Cat(words[2:4])), datapath.c.eq(Cat(words[4:]))]

        # The result is written a word at a time.
        second, result = Signal(), datapath.result
        m.d.sync += [second.eq(datapath.done), left.eq(left + second), done.eq((done | second & left.all()) & ~leaves)]
        m.d.comb += [
            results.write.eq(datapath.done | second), results.entry.eq(entry), results.second.eq(second),
            results.thread.eq(left), results.value.eq(result.word_select(second, WORD_BITS)),
            results.zero.eq(~result.any()), results.sign.eq(result[-1])]

    def _write(self, m: Module, done: Signal, begins: Signal) -> None:
        """Results on their way to registers, or predicates, a word at a time; the last write ends the instruction."""
        port, write, wanted, results = self.port, self.port.write, self.port.wanted, self.results
        this, second, asks, two = self.leaving, Signal(), Signal(), Signal()
        operation = this.instruction.operation
        tests, last = operation == DoubleOperation.TEST, Signal()
        m.d.comb += [
            two.eq(Mux(tests, this.q != PT,
                       (operation != DoubleOperation.TEST_TO_REGISTER) & (this.destination != RZ))),
            last.eq(second | ~two), write.valid.eq(asks), write.payload.register.eq(this.destination | second),
            write.payload.predicate.eq(Mux(second, this.q, this.p)), write.payload.index.eq(second),
            write.payload.last.eq(last), write.payload.conditional.eq(this.conditional & last),
            write.payload.barrier.eq(Mux(last, this.write_barrier, NO_BARRIER)),
            done.eq(wanted.valid & (wanted.beat == self._params.beats - 1) & (wanted.index[0] == two)),
            results.read_entry.eq(self._entries[2]), results.read_second.eq(wanted.index[0]),
            results.read_beat.eq(wanted.beat), port.values.eq(results.values), port.conditions.eq(results.conditions),
            port.flags.eq(Cat(value[0] for value in results.values))]
        pass_on(m, this, write.payload, "warp", "serial", "threads")
        with m.If(begins):
            m.d.sync += [asks.eq(1), second.eq(0)]
        with m.Elif(write.ready & asks):
            m.d.sync += [asks.eq(~last), second.eq(1)]
