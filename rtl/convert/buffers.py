"""From the lanes' beats to one thread a cycle, and back."""

from amaranth.hdl import Module
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.isa.condition import Flags
from rtl.params import WARP_THREADS, SmParams

from .instruction import DOUBLE_BITS

__all__ = ["ResultBuffer", "SourceBuffer"]

_THREAD_BITS = ceil_log2(WARP_THREADS)
_LEAST_DEPTH = 2
"""A memory has an address, also where all threads are in one beat."""


class SourceBuffer(Component):
    """Sources of a warp's threads: written by beats, read by threads.

    Members
    -------
    write, beat, values : In(1), In, In(array of 64 bits a lane)
    thread : In(5)
    value : Out(64)
        That thread's; combinational. The beat has to be written before.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        self._layout = data.ArrayLayout(DOUBLE_BITS, params.lanes)
        super().__init__({"write": In(1), "beat": In(range(params.beats)), "values": In(self._layout),
                          "thread": In(_THREAD_BITS), "value": Out(DOUBLE_BITS)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.beats = beats = memory.Memory(
            shape=self._layout, depth=max(_LEAST_DEPTH, self._params.beats), init=[])
        write, read = beats.write_port(), beats.read_port(domain="comb")
        lane_bits = ceil_log2(self._params.lanes)
        m.d.comb += [write.en.eq(self.write), write.addr.eq(self.beat), write.data.eq(self.values),
                     read.addr.eq(self.thread[lane_bits:]), self.value.eq(read.data[self.thread[:lane_bits]])]
        return m


class ResultBuffer(Component):
    """Results of a warp's threads: written by threads, read by beats.

    Members
    -------
    write, thread, value, zero, sign : In(1), In(5), In(32), In(1), In(1)
    beat : In
    values, conditions : Out(array of words), Out(array of Flags)
        Of the beat that was named a cycle before. C and O are clear.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        self._layout = data.ArrayLayout(data.StructLayout({"value": 32, "zero": 1, "sign": 1}), params.lanes)
        super().__init__({
            "write": In(1), "thread": In(_THREAD_BITS), "value": In(32), "zero": In(1), "sign": In(1),
            "beat": In(range(params.beats)), "values": Out(data.ArrayLayout(32, params.lanes)),
            "conditions": Out(data.ArrayLayout(Flags, params.lanes))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lanes = self._params.lanes
        m.submodules.beats = beats = memory.Memory(
            shape=self._layout, depth=max(_LEAST_DEPTH, self._params.beats), init=[])
        write, read = beats.write_port(granularity=1), beats.read_port()
        lane_bits = ceil_log2(lanes)
        m.d.comb += [write.addr.eq(self.thread[lane_bits:]), read.addr.eq(self.beat)]
        for lane in range(lanes):
            m.d.comb += [
                write.en[lane].eq(self.write & (self.thread[:lane_bits] == lane)),
                write.data[lane].value.eq(self.value), write.data[lane].zero.eq(self.zero),
                write.data[lane].sign.eq(self.sign), self.values[lane].eq(read.data[lane].value),
                self.conditions[lane].zero.eq(read.data[lane].zero),
                self.conditions[lane].sign.eq(read.data[lane].sign)]
        return m
