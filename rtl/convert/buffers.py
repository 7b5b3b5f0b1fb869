"""Sources and results of the instructions in the unit, by beats and by threads."""

from amaranth.hdl import Cat, Module, Mux
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.isa.condition import Flags
from rtl.params import WARP_THREADS, SmParams

from .instruction import DOUBLE_BITS, ENTRY_BITS

__all__ = ["ResultBuffer", "SourceBuffer"]

_THREAD_BITS = ceil_log2(WARP_THREADS)


class SourceBuffer(Component):
    """Sources of a warp's threads: written by beats, read by beats or threads.

    Members
    -------
    write, entry, beat, values : In(1), In, In, In(array of 64 bits a lane)
    read_entry, thread : In, In(5)
    value, values_read : Out(64), Out(array of 64 bits a lane)
        That thread's, and those of its beat; combinational. The beat has to be written before.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        self._layout = data.ArrayLayout(DOUBLE_BITS, params.lanes)
        super().__init__({
            "write": In(1), "entry": In(ENTRY_BITS), "beat": In(range(params.beats)), "values": In(self._layout),
            "read_entry": In(ENTRY_BITS), "thread": In(_THREAD_BITS), "value": Out(DOUBLE_BITS),
            "values_read": Out(self._layout)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.beats = beats = memory.Memory(
            shape=self._layout, depth=self._params.beats << ENTRY_BITS, init=[])
        write, read = beats.write_port(), beats.read_port(domain="comb")
        lane_bits = ceil_log2(self._params.lanes)
        m.d.comb += [
            write.en.eq(self.write), write.addr.eq(Cat(self.beat, self.entry)), write.data.eq(self.values),
            read.addr.eq(Cat(self.thread[lane_bits:], self.read_entry)), self.values_read.eq(read.data),
            self.value.eq(read.data[self.thread[:lane_bits]])]
        return m


class ResultBuffer(Component):
    """Results of a warp's threads: written by beats or threads, read by beats, a word at a time.

    Members
    -------
    write, entry, thread, all : In(1), In, In(5), In(1)
        A thread's, or ``all`` of its beat.
    values_written : In(array of low and high word, zero and sign)
    read_entry, beat, second : In, In, In(1)
    values, conditions : Out(array of words), Out(array of Flags)
        Of what was named a cycle before; the ``second`` word is the high one. C and O are clear.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        self._layout = data.ArrayLayout(
            data.StructLayout({"low": 32, "high": 32, "zero": 1, "sign": 1}), params.lanes)
        super().__init__({
            "write": In(1), "entry": In(ENTRY_BITS), "thread": In(_THREAD_BITS), "all": In(1),
            "values_written": In(self._layout), "read_entry": In(ENTRY_BITS), "beat": In(range(params.beats)),
            "second": In(1), "values": Out(data.ArrayLayout(32, params.lanes)),
            "conditions": Out(data.ArrayLayout(Flags, params.lanes))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lanes = self._params.lanes
        m.submodules.beats = beats = memory.Memory(
            shape=self._layout, depth=self._params.beats << ENTRY_BITS, init=[])
        write, read = beats.write_port(granularity=1), beats.read_port(domain="comb")
        lane_bits = ceil_log2(lanes)
        m.d.comb += [
            write.addr.eq(Cat(self.thread[lane_bits:], self.entry)), write.data.eq(self.values_written),
            read.addr.eq(Cat(self.beat, self.read_entry))]
        for lane, (value, flags) in enumerate(zip(self.values, self.conditions, strict=True)):
            found = read.data[lane]
            m.d.comb += write.en[lane].eq(self.write & (self.all | (self.thread[:lane_bits] == lane)))
            m.d.sync += [
                value.eq(Mux(self.second, found.high, found.low)), flags.zero.eq(found.zero), flags.sign.eq(found.sign)]
        return m
