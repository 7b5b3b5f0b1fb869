"""The unit for double precision: its three steps, joined."""

from amaranth.hdl import Module
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component
from rtl.layouts import (
    Event,
    LaneClientPort,
    dispatched,
    indexed_request,
    indexed_response,
)
from rtl.params import SmParams

from .buffers import OperandBuffer, ResultBuffer
from .compute import ComputeStep
from .gather import GatherStep
from .queue import DoubleQueue
from .write import WriteStep

__all__ = ["DoubleUnit"]


class DoubleUnit(Component):
    """Executes DADD, DMUL, DFMA, DMNMX, DSETP and DSET, in order and in three steps that overlap:
    one's registers are gathered, a word at a time, while another one is computed and a third one's
    results are written. ::

        dispatch --> queue --> GATHER ---------> COMPUTE ---------> WRITE --> writes
                                 |                |   |               ^
                                 v                ^   v               |
                                operand buffer ---'   result buffer --'

    Each buffer has two entries, one for each of the steps that use it. A thread is computed every
    THREAD_CYCLES cycles. An instruction that is dispatched has no error: a constant beyond the end
    of its bank is 0.

    Members
    -------
    dispatch : In(Event of dispatched)
        An instruction of double precision.
    room : Out(1)
        There is room for an instruction whenever it comes, if it is selected now.
    port : Out(LaneClientPort)
        The last write completes an instruction. Marks are of three bits.
    indexed, value : Out(stream of indexed_request), In(stream of indexed_response)
        The upper words of constant operands, one at a time.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "dispatch": In(Event(dispatched(params))),
            "room": Out(1),
            "port": Out(LaneClientPort(params)),
            "indexed": Out(stream.Signature(indexed_request())),
            "value": In(stream.Signature(indexed_response())),
        })
        self.queue = DoubleQueue(params)
        self.gather = GatherStep(params)
        self.operands = OperandBuffer(params)
        self.compute = ComputeStep(params)
        self.results = ResultBuffer(params)
        self.write = WriteStep(params)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.queue = queue = self.queue
        m.submodules.gather = gather = self.gather
        m.submodules.operands = operands = self.operands
        m.submodules.compute = compute = self.compute
        m.submodules.results = results = self.results
        m.submodules.write = write = self.write

        # Steps.
        connect(m, flipped(self.dispatch), queue.dispatch)
        m.d.comb += self.room.eq(queue.room)
        connect(m, queue.entry, gather.entry)
        connect(m, gather.output, compute.input)
        connect(m, compute.output, write.input)

        # Buffers.
        m.d.comb += operands.write.eq(gather.operands)
        m.d.comb += operands.read.eq(compute.read)
        m.d.comb += compute.value.eq(operands.value)
        m.d.comb += results.write.eq(compute.result)
        m.d.comb += results.read.eq(write.read)
        m.d.comb += write.values.eq(results.values)

        # Lanes and constants.
        port = self.port
        connect(m, gather.gather, flipped(port.gather))
        connect(m, flipped(port.data.gathered), gather.gathered)
        connect(m, gather.indexed, flipped(self.indexed))
        connect(m, flipped(self.value), gather.value)
        connect(m, write.write, flipped(port.write))
        connect(m, flipped(port.data.wanted), write.wanted)
        m.d.comb += port.data.values.eq(results.values)
        m.d.comb += port.data.conditions.eq(results.conditions)
        m.d.comb += port.data.flags.eq(write.flags)
        return m
