"""The conversion unit, joined."""

from itertools import pairwise
from typing import Any

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import fifo, memory
from amaranth.utils import ceil_log2

from rtl.component import Component, pass_on
from rtl.isa.control_code import NO_BARRIER
from rtl.isa.errors import WarpError
from rtl.isa.syntax import PT, RZ
from rtl.one_hot import one_hot
from rtl.params import WARP_THREADS, SmParams

from .buffers import GROUPS, ResultBuffer, SourceBuffer
from .datapath import DATAPATH_STAGES, FUNCTION_DELAY, ConversionDatapath
from .instruction import DOUBLE_BITS, ENTRY_BITS, SIZES, WORD_BITS, ConversionOperation, conversion_entry
from .narrow import NarrowBound, NarrowConversion, bound_of, is_narrow
from .ports import unit_ports
from .queue import ConversionQueue

__all__ = ["ConversionUnit"]

_THREAD_BITS = ceil_log2(WARP_THREADS)
_ENTRIES = 1 << ENTRY_BITS
_WRITE_CYCLES = 6
"""From the cycle in which a beat is wanted to the one in which it is surely written."""
_GROUP_STAGE = 3
"""Where a group is when its results are kept."""
_LAST_STAGE = DATAPATH_STAGES + 1
"""Where a thread is when its result leaves the datapath, but for MUFU's."""
_STAGES = _LAST_STAGE + FUNCTION_DELAY + 1


class ConversionUnit(Component):
    """Executes POPC, FLO, I2I, I2F, F2I, F2F and MUFU, in order and in three steps that overlap: one's
    registers are gathered while another one is computed and a third one's results are written.

    POPC and I2I are computed half a beat a cycle; everything else a thread a cycle. Results are written by an operation
    of the lanes for each register.

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
    indexed, value : Out(stream of indexed_request), In(stream of indexed_response)
        The upper words of constant operands, one at a time.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__(unit_ports(params))
        self.queue = ConversionQueue(params)
        self.datapath = ConversionDatapath(params.floats, params.doubles)
        self.narrow = [NarrowConversion() for _ in range(params.lanes // GROUPS)]
        self.sources = SourceBuffer(params)
        self.results = ResultBuffer(params)
        self.current = Signal(conversion_entry(params))
        """The instruction that is computed."""
        self._begins, self._idle, self._arrived, self._computed = (Signal(_ENTRIES, name=name) for name in (
            "begins", "idle", "arrived", "computed"))
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
        self.join(m, queue, "dispatch", "report_mask", "room", "indexed", "value")
        here = Signal(conversion_entry(self._params))
        m.submodules.asked = asked = fifo.SyncFIFO(width=ENTRY_BITS, depth=_ENTRIES)
        asks, gather, entry = Signal(), self.port.gather, self._given[:ENTRY_BITS]
        last_entry, waits = Signal(ENTRY_BITS), Signal()
        m.d.comb += [
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
        idle = _nothing(new)
        m.d.comb += waits.eq(~idle & (new.gathers | (new.read_barrier != NO_BARRIER)))
        with m.If(note.en):
            m.d.sync += [here.eq(new), asks.eq(waits), last_entry.eq(entry), self._given.eq(self._given + 1)]
        m.d.comb += [
            asked.w_en.eq(asks & gather.ready), asked.w_data.eq(last_entry),
            asked.r_en.eq(gathered.valid & (gathered.beat == self._params.beats - 1)),
            sources.write.eq(gathered.valid), sources.beat.eq(gathered.beat), sources.entry.eq(asked.r_data)]
        m.d.comb += [value.eq(Cat(words[0], words[1])) for value, words in
                     zip(sources.values, gathered["values"], strict=True)]
        m.d.sync += [
            self._idle.eq(Mux(idle, self._idle | self._begins, self._idle & ~self._begins)),
            self._arrived.eq((self._arrived & ~self._begins) | Mux(waits, 0, self._begins) | one_hot(
                asked.r_data, _ENTRIES, gathered.valid)),
            Assert(~gathered.valid | asked.r_rdy, "a gather that nobody has asked for")]

    def _compute(self, m: Module, entry: Any) -> None:
        """Results, from the cycle on in which the first beat is there: no beat is wanted before it has come."""
        current, sources, datapath = self.current, self.sources, self.datapath
        together = len(self.narrow)
        slot, taken = Signal(ENTRY_BITS), self._taken[:ENTRY_BITS]
        thread, computes, narrow = Signal(_THREAD_BITS), Signal(), Signal()
        skips, done = Signal(), Signal()
        m.d.comb += [entry.addr.eq(taken), sources.read_entry.eq(slot), sources.thread.eq(thread)]

        # Threads pass the datapath one behind the other, and groups of threads the narrow parts. Their sources are
        # there two cycles after they are asked for.
        passing = [Signal(1 + _THREAD_BITS, name=f"passing{stage}") for stage in range(_STAGES)]
        # The next instruction may be taken while the last group is bounded and kept.
        bound, kept_slot, kept_narrow = Signal(NarrowBound), Signal.like(slot), Signal()
        group, source, leaving = Signal.like(sources.group), Signal(DOUBLE_BITS), Signal(1 + _THREAD_BITS)
        function = current.instruction.operation == ConversionOperation.FUNCTION
        m.d.sync += [
            [value.eq(Mux(current.gathers, own, current.operand[:WORD_BITS]))
             for value, own in zip(group, sources.group, strict=True)],
            source.eq(Mux(current.gathers, sources.value, current.operand)), passing[0].eq(Cat(computes, thread))]
        m.d.sync += [[after.eq(before) for before, after in pairwise(passing)],
                     passing[_GROUP_STAGE + 1][0].eq(passing[_GROUP_STAGE][0] & ~kept_narrow),
                     passing[_LAST_STAGE + 1][0].eq(passing[_LAST_STAGE][0] & function)]
        m.d.comb += [datapath.instruction.eq(current.instruction), datapath.source.eq(source)]
        m.d.sync += [bound.eq(bound_of(current.instruction)), kept_slot.eq(slot), kept_narrow.eq(narrow)]
        for lane, own in zip(self.narrow, group, strict=True):
            m.d.comb += [lane.instruction.eq(current.instruction), lane.source.eq(own), lane.bound.eq(bound)]
        m.d.comb += leaving.eq(Mux(function, passing[-1], passing[_LAST_STAGE]))
        self._keep(m, kept_slot, kept_narrow, passing[_GROUP_STAGE], leaving)

        with m.FSM(name="step"):
            with m.State("TAKE"), m.If((self._given != self._taken) & self._arrived.bit_select(taken, 1)):
                m.d.sync += [
                    current.eq(entry.data), slot.eq(taken), thread.eq(0), self._taken.eq(self._taken + 1),
                    narrow.eq(is_narrow(entry.data.instruction))]
                m.next = "COMPUTE"
                with m.If(self._idle.bit_select(taken, 1)):
                    m.d.comb += skips.eq(1)
                    m.next = "TAKE"
            with m.State("COMPUTE"):
                m.d.comb += computes.eq(1)
                m.d.sync += thread.eq(thread + Mux(narrow, together, 1))
                with m.If(narrow & (thread == WARP_THREADS - together)):
                    m.next = "SETTLE"
                with m.Elif(thread == WARP_THREADS - 1):
                    m.next = "DRAIN"
            with m.State("SETTLE"), m.If(passing[_GROUP_STAGE - 2] == _place(WARP_THREADS - together)):
                m.next = "TAKE"
            with m.State("DRAIN"), m.If(leaving.all()):
                m.next = "TAKE"

        # From the first result of the second half on, half a beat a cycle is fast enough for a beat a cycle.
        m.d.comb += done.eq(Mux(kept_narrow, passing[_GROUP_STAGE] == _place(WARP_THREADS // GROUPS), leaving.all()))
        m.d.sync += self._computed.eq(
            (self._computed & ~self._begins) | one_hot(taken, _ENTRIES, skips) | one_hot(kept_slot, _ENTRIES, done))

    def _keep(self, m: Module, slot: Signal, narrow: Signal, grouped: Signal, leaving: Signal) -> None:
        """Results on their way to the buffer: those of a group, or a thread's, whose high word follows a cycle later,
        beside the low one of its neighbour.
        """
        lane_bits, results, current = ceil_log2(self._params.lanes), self.results, self.current
        result, wide = self.datapath.result, current.instruction.to_size == SIZES.index(DOUBLE_BITS)
        this, valid = Mux(narrow, grouped[1:], leaving[1:]), Signal()
        number, before, follows = Signal(_THREAD_BITS), Signal(_THREAD_BITS), Signal()
        high, low_zero, group = Signal(WORD_BITS), Signal(), Signal.like(self.sources.group)
        m.d.comb += [number.eq(this), valid.eq(~narrow & leaving[0])]
        m.d.sync += [before.eq(number), follows.eq(valid & wide), high.eq(result[WORD_BITS:]),
                     low_zero.eq(~result[:WORD_BITS].any()), group.eq(Cat(lane.result for lane in self.narrow))]
        for parity in range(2):
            # A thread's own cycle, or the one after it.
            own = narrow | (number[0] == parity)
            word = Mux(own, result[:WORD_BITS] & (~narrow).replicate(WORD_BITS), high)
            for lane in range(parity, self._params.lanes, 2):
                kept, place = results.values_written[lane], results.written[lane]
                together = Mux(own, number, before)
                part, inside = divmod(lane, len(self.narrow))
                here = together[:lane_bits] == lane
                m.d.comb += [
                    kept.value.eq(group[inside] | word), kept.sign.eq(kept.value[-1]),
                    kept.zero.eq(~kept.value.any() & (own | low_zero)), place.second.eq(~own),
                    place.beat.eq(together[lane_bits:]), place.entry.eq(slot),
                    results.write[lane].eq(Mux(narrow, grouped[0] & (number[lane_bits - 1] == part), here & Mux(
                        own, valid, follows)))]

    def _write(self, m: Module, entry: Any) -> None:
        """Results on their way to registers, a register at a time; and the ends of instructions."""
        params, port, results, written = self._params, self.port, self.results, Signal(ENTRY_BITS + 1)
        m.submodules.writing = writing = fifo.SyncFIFO(width=2, depth=_ENTRIES)
        write, second, wanted, last = port.write, Signal(), port.wanted, Signal()
        settling, this, ready, ends = Signal(_WRITE_CYCLES), Signal(conversion_entry(params)), Signal(), Signal()
        is_double = this.instruction.to_size == SIZES.index(DOUBLE_BITS)
        nothing, quiet, recent = self._idle.bit_select(written[:ENTRY_BITS], 1), Signal(), Signal()
        final = wanted.valid & (wanted.beat == params.beats - 1)
        m.d.comb += [
            entry.addr.eq(written[:ENTRY_BITS]), this.eq(entry.data), quiet.eq(~settling.any() & ~writing.r_rdy),
            ready.eq((written != self._given) & self._computed.bit_select(written[:ENTRY_BITS], 1)),
            last.eq(~is_double | second | (this.destination == RZ)), write.valid.eq(ready & ~nothing),
            write.payload.predicate.eq(PT), write.payload.register.eq(this.destination | second),
            write.payload.last.eq(last), write.payload.conditional.eq(this.instruction.conditional & last),
            write.payload.barrier.eq(Mux(last, this.write_barrier, NO_BARRIER)),
            ends.eq(Mux(nothing, ready & quiet & ~recent, write.valid & write.ready & last)),
            writing.w_en.eq(write.valid & write.ready), writing.w_data.eq(Cat(is_double & last, last)),
            writing.r_en.eq(final), results.read.beat.eq(wanted.beat), results.read.entry.eq(self._left[:ENTRY_BITS]),
            results.read.second.eq(writing.r_data[0]), port.values.eq(results.values),
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


def _place(thread: int) -> Value:
    """A valid thread on its way."""
    return Cat(Const(1, 1), Const(thread, _THREAD_BITS))


def _nothing(entry: Any) -> Any:
    """Whether an instruction writes nothing."""
    return (entry.error != WarpError.NONE) | ~entry.threads.any() | (
        (entry.destination == RZ) & ~entry.instruction.conditional)
