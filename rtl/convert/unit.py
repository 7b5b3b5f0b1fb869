"""The conversion unit, joined."""

from itertools import pairwise
from typing import Any

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, fifo, memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component, pass_on
from rtl.isa.control_code import NO_BARRIER
from rtl.isa.errors import WarpError
from rtl.isa.syntax import PT, RZ
from rtl.layouts import LaneClientPort, completion, dispatched, error_event
from rtl.one_hot import one_hot
from rtl.params import WARP_THREADS, SmParams

from .buffers import ResultBuffer, SourceBuffer
from .datapath import DATAPATH_STAGES, ConversionDatapath
from .instruction import DOUBLE_BITS, ENTRY_BITS, SIZES, conversion_entry
from .narrow import NarrowConversion, is_narrow
from .queue import ConversionQueue

__all__ = ["ConversionUnit"]

_THREAD_BITS = ceil_log2(WARP_THREADS)
_ENTRIES = 1 << ENTRY_BITS
_WRITE_CYCLES = 6
"""From the cycle in which a beat is wanted to the one in which it is surely written."""


class ConversionUnit(Component):
    """Executes POPC, FLO, I2I, I2F, F2I, F2F of 0 and MUFU.RCP, in order and in three steps that overlap: one's
    registers are gathered while another one is computed and a third one's results are written.

    POPC, and I2I without 64 bits, are computed a beat a cycle; everything else a thread a cycle. Results are written by
    an operation of the lanes for each register.

    Members
    -------
    dispatch : In(valid and dispatched)
        A conversion.
    room : Out(1)
        There is room for an instruction whenever it comes, if it is selected now.
    port : Out(LaneClientPort)
    completion : Out(completion)
        Of an instruction that writes nothing; the last write operation completes any other.
    error : Out(error_event)
        The constant operand is missing.
    report_mask : In(32)
        Bit n: warp errors of code n are reported. With one that is not, a missing constant is 0.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "dispatch": In(data.StructLayout({"valid": 1, "payload": dispatched(params)})), "room": Out(1),
            "port": Out(LaneClientPort(params)), "completion": Out(completion(params)),
            "error": Out(error_event(params)), "report_mask": In(32)})
        self.queue = ConversionQueue(params)
        self.datapath = ConversionDatapath()
        self.narrow = [NarrowConversion() for _ in range(params.lanes)]
        self.sources = SourceBuffer(params)
        self.results = ResultBuffer(params)
        self.current = Signal(conversion_entry(params))
        """The instruction that is computed."""
        self._begins, self._arrived, self._computed = (Signal(_ENTRIES, name=name) for name in (
            "begins", "arrived", "computed"))
        self._given, self._taken, self._left = (Signal(ENTRY_BITS + 1, name=name) for name in (
            "given", "taken", "left"))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.queue, m.submodules.datapath = self.queue, self.datapath
        m.submodules.sources, m.submodules.results = self.sources, self.results
        for number, lane in enumerate(self.narrow):
            m.submodules[f"lane_{number}"] = lane
        m.submodules.entries = entries = memory.Memory(shape=conversion_entry(self._params), depth=_ENTRIES, init=[])
        self._gather(m, entries.write_port())
        self._compute(m, entries.read_port(domain="comb"))
        self._write(m, entries.read_port(domain="comb"))
        return m

    def _gather(self, m: Module, note: Any) -> None:
        """An instruction gets an entry, and its registers are read."""
        queue, sources, gathered = self.queue, self.sources, self.port.gathered
        here = Signal(conversion_entry(self._params))
        m.submodules.asked = asked = fifo.SyncFIFO(width=ENTRY_BITS, depth=_ENTRIES)
        asks, gather, entry = Signal(), self.port.gather, self._given[:ENTRY_BITS]
        last_entry, waits = Signal(ENTRY_BITS), Signal()
        m.d.comb += [
            queue.dispatch.eq(self.dispatch), queue.report_mask.eq(self.report_mask), self.room.eq(queue.room),
            queue.entry.ready.eq(((self._given - self._left)[:ENTRY_BITS + 1] != _ENTRIES) & (
                ~asks | gather.ready)),
            note.en.eq(queue.entry.valid & queue.entry.ready), self._begins.eq(one_hot(entry, _ENTRIES, note.en)),
            note.addr.eq(entry), note.data.eq(queue.entry.payload),
            gather.valid.eq(asks), gather.payload.registers.eq(Cat(here.registers[0], here.registers[1], Const(RZ, 8))),
            gather.payload.last.eq(1), gather.payload.barrier.eq(here.read_barrier)]
        pass_on(m, here, gather.payload, "warp", "serial")
        with m.If(gather.ready):
            m.d.sync += asks.eq(0)
        new = queue.entry.payload
        m.d.comb += waits.eq(~_nothing(new) & (new.gathers | (new.read_barrier != NO_BARRIER)))
        with m.If(note.en):
            m.d.sync += [here.eq(new), asks.eq(waits), last_entry.eq(entry), self._given.eq(self._given + 1)]
        m.d.comb += [
            asked.w_en.eq(asks & gather.ready), asked.w_data.eq(last_entry),
            asked.r_en.eq(gathered.valid & (gathered.beat == self._params.beats - 1)),
            sources.write.eq(gathered.valid), sources.beat.eq(gathered.beat), sources.entry.eq(asked.r_data)]
        m.d.comb += [value.eq(Cat(words[0], words[1])) for value, words in
                     zip(sources.values, gathered["values"], strict=True)]
        m.d.sync += [
            self._arrived.eq((self._arrived & ~self._begins) | Mux(waits, 0, self._begins) | one_hot(
                asked.r_data, _ENTRIES, gathered.valid)),
            Assert(~gathered.valid | asked.r_rdy, "a gather that nobody has asked for")]

    def _compute(self, m: Module, entry: Any) -> None:
        """Results, from the cycle on in which the first beat is there: no beat is wanted before it has come."""
        params, current, results, sources, datapath = (
            self._params, self.current, self.results, self.sources, self.datapath)
        beats, lane_bits = params.beats, ceil_log2(params.lanes)
        slot, taken = Signal(ENTRY_BITS), self._taken[:ENTRY_BITS]
        thread, computes, narrow, done = Signal(_THREAD_BITS), Signal(), Signal(), Signal(_ENTRIES)
        m.d.comb += [entry.addr.eq(taken), sources.read_entry.eq(slot), sources.thread.eq(thread)]

        # Threads pass the datapath one behind the other; beats are computed at once.
        source, is_double = Signal(DOUBLE_BITS), current.instruction.to_size == SIZES.index(DOUBLE_BITS)
        passing = [Signal(1 + _THREAD_BITS, name=f"passing{stage}") for stage in range(DATAPATH_STAGES + 1)]
        m.d.sync += [
            source.eq(Mux(current.gathers, sources.value, current.operand)),
            passing[0].eq(Cat(computes & ~narrow, thread))]
        m.d.sync += [after.eq(before) for before, after in pairwise(passing)]
        m.d.comb += [
            datapath.instruction.eq(current.instruction), datapath.source.eq(source), results.entry.eq(slot),
            results.thread.eq(Mux(narrow, thread, passing[-1][1:])), results.all.eq(narrow),
            results.write.eq(Mux(narrow, computes, passing[-1][0]))]
        flags = (~datapath.result.any(), Mux(is_double, datapath.result[-1], datapath.result[31]))
        for lane, own, value in zip(self.narrow, sources.values_read, results.values_written, strict=True):
            m.d.comb += [
                lane.instruction.eq(current.instruction),
                lane.source.eq(Mux(current.gathers, own[:32], current.operand[:32])),
                value.low.eq(Mux(narrow, lane.result, datapath.result[:32])), value.high.eq(datapath.result[32:]),
                value.zero.eq(Mux(narrow, ~lane.result.any(), flags[0])),
                value.sign.eq(Mux(narrow, lane.result[-1], flags[1]))]

        with m.FSM(name="step"):
            with m.State("TAKE"), m.If((self._given != self._taken) & self._arrived.bit_select(taken, 1)):
                m.d.sync += [
                    current.eq(entry.data), slot.eq(taken), thread.eq(0), self._taken.eq(self._taken + 1),
                    narrow.eq(is_narrow(entry.data.instruction))]
                m.next = "COMPUTE"
                with m.If(_nothing(entry.data)):
                    m.d.comb += done.eq(one_hot(taken, _ENTRIES))
                    m.next = "TAKE"
            with m.State("COMPUTE"):
                m.d.comb += computes.eq(1)
                m.d.sync += thread.eq(thread + Mux(narrow, params.lanes, 1))
                with m.If(narrow):
                    m.d.comb += done.eq(one_hot(slot, _ENTRIES))
                    with m.If(thread[lane_bits:] == beats - 1):
                        m.next = "TAKE"
                with m.Elif(thread == WARP_THREADS - 1):
                    m.next = "DRAIN"
            with m.State("DRAIN"), m.If(passing[-1].all()):
                m.d.comb += done.eq(one_hot(slot, _ENTRIES))
                m.next = "TAKE"
        m.d.sync += self._computed.eq((self._computed & ~self._begins) | done)

    def _write(self, m: Module, entry: Any) -> None:
        """Results on their way to registers, a register at a time; and the ends of instructions."""
        params, port, results, written = self._params, self.port, self.results, Signal(ENTRY_BITS + 1)
        m.submodules.writing = writing = fifo.SyncFIFO(width=2, depth=_ENTRIES)
        write, second, wanted, last = port.write, Signal(), port.wanted, Signal()
        settling, this, ready, ends = Signal(_WRITE_CYCLES), Signal(conversion_entry(params)), Signal(), Signal()
        is_double = this.instruction.to_size == SIZES.index(DOUBLE_BITS)
        nothing, quiet, recent = _nothing(this), Signal(), Signal()
        final = wanted.valid & (wanted.beat == params.beats - 1)
        m.d.comb += [
            entry.addr.eq(written[:ENTRY_BITS]), this.eq(entry.data), quiet.eq(~settling.any() & ~writing.r_rdy),
            ready.eq((written != self._given) & self._computed.bit_select(written[:ENTRY_BITS], 1)),
            last.eq(~is_double | second | (this.destination == RZ)), write.valid.eq(ready & ~nothing),
            write.payload.predicate.eq(PT), write.payload.register.eq(this.destination | second),
            write.payload.last.eq(last), write.payload.conditional.eq(this.instruction.conditional & last),
            write.payload.barrier.eq(Mux(last, this.write_barrier, NO_BARRIER)),
            ends.eq(Mux(nothing, ready & quiet & ~recent, write.valid & write.ready & last)),
            writing.w_en.eq(write.valid & write.ready), writing.w_data.eq(Cat(second, last)),
            writing.r_en.eq(final), results.beat.eq(wanted.beat), results.read_entry.eq(self._left[:ENTRY_BITS]),
            results.second.eq(writing.r_data[0]), port.values.eq(results.values),
            port.conditions.eq(results.conditions)]
        pass_on(m, this, write.payload, "warp", "serial", "threads")
        m.d.sync += [
            recent.eq(self.completion.valid), settling.eq(Mux(wanted.valid, ~0, settling >> 1)),
            written.eq(written + ends),
            self._left.eq(self._left + (final & writing.r_data[1] | ends & nothing)),
            Assert(~wanted.valid | writing.r_rdy, "data wanted that nobody offered"),
            Assert(~writing.w_en | writing.w_rdy, "more writes than there can be under way")]
        with m.If(writing.w_en):
            m.d.sync += second.eq(~last)

        # What has nothing to do ends, but not before what came before it, and two cycles apart: issue relies on it.
        m.d.comb += [
            self.completion.valid.eq(ends & nothing), self.completion.warp.eq(this.warp),
            self.completion.serial.eq(this.serial), self.completion.write_barrier.eq(this.write_barrier),
            self.completion.read_barrier.eq(this.read_barrier), self.error.warp.eq(this.warp),
            self.error.pc.eq(this.pc), self.error.error.eq(this.error),
            self.error.valid.eq(self.completion.valid & (this.error != WarpError.NONE))]


def _nothing(entry: Any) -> Any:
    """Whether an instruction writes nothing."""
    return (entry.error != WarpError.NONE) | ~entry.threads.any() | (
        (entry.destination == RZ) & ~entry.instruction.conditional)
