"""The conversion unit: gather, compute and write, three steps that overlap."""

from amaranth.hdl import Module
from amaranth.lib.wiring import connect, flipped

from rtl.component import Component
from rtl.params import SmParams

from .buffers import ResultBuffer, SourceBuffer
from .compute import ComputeStep
from .entries import EntryTable
from .gather import GatherStep
from .ports import unit_ports
from .queue import ConversionQueue
from .write import WriteStep

__all__ = ["ConversionUnit"]


class ConversionUnit(Component):
    """Executes POPC, FLO, I2I, I2F, F2I, F2F and MUFU, in order and in three steps that overlap:
    registers of one instruction are gathered while another one is computed and results of a third
    one are written. ::

        dispatch --> queue --> GATHER --------> COMPUTE -------> WRITE --> completion, error
                               |    ^           ^     |          |   ^
                      requests |    | beats     |     | requests |   | beats wanted
                               v    |           |     v          v   |
        lanes                 gather +--> source       result   write
                                          buffer       buffer

    EntryTable holds the four instructions that are in the steps.

    POPC and I2I are computed half a beat a cycle; all other operations a thread a cycle. Each
    register of the result is one write operation of the lanes.

    An instruction that was dispatched always completes: no port cancels it. A reset clears the
    queue and the entries; the buffers keep their words, and none is read before it is written.

    Members
    -------
    dispatch : In(Event of dispatched)
        A conversion; or a double-precision instruction that writes nothing, because it has a
        reported fault or no threads, see :class:`~rtl.dispatcher.Dispatcher`.
    room : Out(1)
        The unit can take an instruction that issue selects in this cycle.
    port : Out(LaneClientPort)
    completion : Out(Event of completion)
        An instruction that writes nothing is complete. The last write operation completes any
        other, without an event here.
    error : Out(Event of error_event)
        The constant operand could not be read, and the error is reported; in the cycle of
        ``completion``. The instruction has written nothing.
    report_mask : In(32)
        Bit n: warp errors of code n are reported. If the error of a missing constant is not, the
        constant is 0.
    indexed, value : Out(stream of indexed_request), In(stream of indexed_response)
        Reads the upper words of constant operands, one at a time. A missing one is 0, and no error.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__(unit_ports(params))
        self.queue = ConversionQueue(params)
        self.entries = EntryTable(params)
        self.gather = GatherStep(params)
        self.compute = ComputeStep(params)
        self.write = WriteStep(params)
        self.sources = SourceBuffer(params)
        self.results = ResultBuffer(params)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.queue = self.queue
        m.submodules.entries = self.entries
        m.submodules.gather = self.gather
        m.submodules.compute = self.compute
        m.submodules.write = self.write
        m.submodules.sources = self.sources
        m.submodules.results = self.results
        self._connect_dispatch(m)
        self._connect_entries(m)
        self._connect_buffers(m)
        self._connect_lanes(m)
        connect(m, self.write.completion, flipped(self.completion))
        connect(m, self.write.error, flipped(self.error))
        return m

    def _connect_dispatch(self, m: Module) -> None:
        """Joins the queue, which decodes and requests constants, to the gather step."""
        queue = self.queue
        connect(m, flipped(self.dispatch), queue.dispatch)
        m.d.comb += queue.report_mask.eq(self.report_mask)
        m.d.comb += self.room.eq(queue.room)
        connect(m, queue.indexed, flipped(self.indexed))
        connect(m, flipped(self.value), queue.value)
        connect(m, queue.entry, self.gather.arriving)

    def _connect_entries(self, m: Module) -> None:
        """Joins the steps to the table, which offers each step its next entry."""
        entries = self.entries
        connect(m, self.gather.allocate, entries.allocate)
        connect(m, entries.compute, self.compute.next)
        connect(m, self.compute.has_results, entries.has_results)
        connect(m, entries.write, self.write.next)
        connect(m, self.write.release, entries.release)

    def _connect_buffers(self, m: Module) -> None:
        """Joins the steps to the buffers of sources and results."""
        connect(m, self.gather.sources, self.sources.write, self.entries.sources)
        connect(m, self.compute.read, self.sources.read)
        for computed, stored in zip(self.compute.write, self.results.write, strict=True):
            connect(m, computed, stored)
        m.d.comb += self.results.read.eq(self.write.read)

    def _connect_lanes(self, m: Module) -> None:
        """Joins the gather and write steps, and the result buffer, to the lanes."""
        port = self.port
        connect(m, self.gather.gather, flipped(port.gather))
        connect(m, self.write.write, flipped(port.write))
        connect(m, flipped(port.data.gathered), self.gather.gathered)
        connect(m, flipped(port.data.wanted), self.write.wanted)
        m.d.comb += port.data.values.eq(self.results.values)
        m.d.comb += port.data.conditions.eq(self.results.conditions)
