"""The conversion unit, joined."""

from itertools import pairwise

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.isa.control_code import NO_BARRIER
from rtl.isa.errors import WarpError
from rtl.isa.syntax import PT, RZ
from rtl.layouts import LaneClientPort, completion, dispatched, error_event
from rtl.params import WARP_THREADS, SmParams

from .buffers import ResultBuffer, SourceBuffer
from .datapath import DATAPATH_STAGES, ConversionDatapath
from .instruction import DOUBLE_BITS, SIZES, conversion_entry
from .queue import ConversionQueue

__all__ = ["ConversionUnit"]

_THREAD_BITS = ceil_log2(WARP_THREADS)
_WRITE_CYCLES = 6
"""From the cycle in which a beat is wanted to the one in which it is surely written."""


class ConversionUnit(Component):
    """Executes POPC, FLO, I2I, I2F, F2I, F2F of 0 and MUFU.RCP: one instruction after the other, one thread a cycle.

    An instruction's registers are gathered by one operation of the lanes, its results written by one for each register.
    A result of two registers is computed twice, for one of its halves at a time.

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
        self.current = Signal(conversion_entry(params))
        self.second = Signal()
        """The second register of the result is what is worked on."""

    def elaborate(self, platform: object) -> Module:
        params = self._params
        m = Module()
        m.submodules.queue, m.submodules.datapath = queue, datapath = self.queue, self.datapath
        m.submodules.sources = sources = SourceBuffer(params)
        m.submodules.results = results = ResultBuffer(params)
        current, second, port = self.current, self.second, self.port
        m.d.comb += [queue.dispatch.eq(self.dispatch), queue.report_mask.eq(self.report_mask),
                     self.room.eq(queue.room)]

        # Threads pass the datapath one behind the other.
        computes, thread, is_double = Signal(), Signal(_THREAD_BITS), Signal()
        source = Signal(DOUBLE_BITS)
        passing = [Signal(1 + _THREAD_BITS, name=f"passing{stage}") for stage in range(DATAPATH_STAGES + 1)]
        m.d.sync += [
            source.eq(Mux(current.gathers, sources.value, current.operand)), passing[0].eq(Cat(computes, thread))]
        m.d.sync += [after.eq(before) for before, after in pairwise(passing)]
        m.d.comb += [
            is_double.eq(current.instruction.to_size == SIZES.index(DOUBLE_BITS)), sources.thread.eq(thread),
            datapath.instruction.eq(current.instruction), datapath.source.eq(source),
            results.write.eq(passing[-1][0]), results.thread.eq(passing[-1][1:]),
            results.value.eq(Mux(second, datapath.result[32:], datapath.result[:32])),
            results.zero.eq(~datapath.result.any()),
            results.sign.eq(Mux(is_double, datapath.result[-1], datapath.result[31]))]

        # Registers come and go by the lanes.
        gathered, wanted, operation = port.gathered, port.wanted, port.operation.payload
        last_write = ~is_double | second | (current.destination == RZ)
        m.d.comb += [
            sources.write.eq(gathered.valid), sources.beat.eq(gathered.beat), results.beat.eq(wanted.beat),
            port.values.eq(results.values), port.conditions.eq(results.conditions),
            operation.warp.eq(current.warp), operation.serial.eq(current.serial), operation.threads.eq(current.threads),
            operation.predicate.eq(PT)]
        m.d.comb += [value.eq(Cat(words[0], words[1])) for value, words in
                     zip(sources.values, gathered["values"], strict=True)]

        settling, nothing = Signal(_WRITE_CYCLES), Signal()
        m.d.sync += settling.eq(settling >> 1)
        m.d.comb += nothing.eq((current.error != WarpError.NONE) | ~current.threads.any()
                               | (current.destination == RZ) & ~current.instruction.conditional)
        with m.FSM(name="step"):
            with m.State("TAKE"):
                m.d.comb += queue.entry.ready.eq(1)
                m.d.sync += [current.eq(queue.entry.payload), second.eq(0)]
                with m.If(queue.entry.valid):
                    m.next = "BEGIN"
            with m.State("BEGIN"):
                # What has nothing to do ends, but not before what came before it.
                with m.If(nothing & ~settling.any()):
                    m.d.comb += self.completion.valid.eq(1)
                    m.next = "TAKE"
                with m.Elif(nothing):
                    m.next = "BEGIN"
                with m.Elif(current.gathers | (current.read_barrier != NO_BARRIER)):
                    m.next = "GATHER"
                with m.Else():
                    m.next = "COMPUTE"
            with m.State("GATHER"):
                m.d.comb += [
                    port.operation.valid.eq(1), operation.gather.eq(1), operation.registers[0].eq(current.registers[0]),
                    operation.registers[1].eq(current.registers[1]), operation.registers[2].eq(RZ),
                    operation.last.eq(1), operation.barrier.eq(current.read_barrier)]
                with m.If(port.operation.ready):
                    m.next = "WAIT"
            with m.State("WAIT"), m.If(gathered.valid):
                m.next = "COMPUTE"
            with m.State("COMPUTE"):
                m.d.comb += computes.eq(1)
                m.d.sync += thread.eq(thread + 1)
                with m.If(thread == WARP_THREADS - 1):
                    m.next = "DRAIN"
            with m.State("DRAIN"), m.If(passing[-1].all()):
                m.next = "WRITE"
            with m.State("WRITE"):
                m.d.comb += [
                    port.operation.valid.eq(1), operation.registers[0].eq(current.destination | second),
                    operation.registers[1].eq(RZ), operation.registers[2].eq(RZ), operation.last.eq(last_write),
                    operation.conditional.eq(current.instruction.conditional & last_write),
                    operation.barrier.eq(Mux(last_write, current.write_barrier, NO_BARRIER))]
                with m.If(port.operation.ready):
                    m.next = "GIVE"
            with m.State("GIVE"), m.If(wanted.valid & (wanted.beat == params.beats - 1)):
                m.d.sync += [second.eq(1), settling.eq(~0)]
                m.next = "COMPUTE"
                with m.If(last_write):
                    m.next = "TAKE"

        # What ends without a write.
        m.d.comb += [
            self.completion.warp.eq(current.warp), self.completion.serial.eq(current.serial),
            self.completion.write_barrier.eq(current.write_barrier),
            self.completion.read_barrier.eq(current.read_barrier), self.error.warp.eq(current.warp),
            self.error.pc.eq(current.pc), self.error.error.eq(current.error),
            self.error.valid.eq(self.completion.valid & (current.error != WarpError.NONE))]
        return m
