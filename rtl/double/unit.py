"""The unit for double precision: gather, compute and write, three steps that overlap."""

from amaranth.hdl import Cat, Module
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
    registers of one instruction are gathered while another one is computed and results of a third
    one are written. ::

        dispatch --> queue --> GATHER ---------> COMPUTE ---------> WRITE --> writes
                                 |                |   |               ^
                                 v                ^   v               |
                                operand buffer ---'   result buffer --'

    Each step has one instruction at a time. Each buffer has two entries: one step fills one while
    the next step empties the other. A thread that executes the instruction enters the datapath in
    each cycle; others take no time. Steps overlap in one instruction, too: it is computed as soon
    as the first beat of its operands is there, and its results are written as soon as all will be
    there when they are requested.

    The unit raises no errors, and each of its instructions has at least one write, which completes
    it. An instruction with a reported fault or without threads is dispatched to the conversion unit
    instead, see :class:`~rtl.dispatcher.Dispatcher`. A constant beyond the end of its bank is 0.

    Members
    -------
    dispatch : In(Event of dispatched)
        An instruction of double precision, without a reported fault, with threads.
    room : Out(1)
        The unit can take an instruction that issue selects in this cycle.
    port : Out(LaneClientPort)
        The last write completes an instruction. Of ``index`` two bits are used.
    indexed, value : Out(stream of indexed_request), In(stream of indexed_response)
        Reads the upper words of constant operands, one at a time. A missing one is 0.
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
        connect(m, gather.operands, operands.write)
        connect(m, compute.read, operands.read)
        connect(m, compute.result, results.write)
        m.d.comb += results.read.eq(write.read)

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
        m.d.comb += port.data.flags.eq(Cat(word[0] for word in results.values))
        return m
