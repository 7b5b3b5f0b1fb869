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
                      requests |    | beats     |     |          |   | beats are wanted
                               v    |           |     v          v   |
        lanes                 gather +--> source       result   write
                                          buffer       buffer

    EntryTable holds the four instructions that are in the steps.

    POPC and I2I are computed half a beat a cycle; everything else a thread a cycle. Results are
    written by an operation of the lanes for each register.

    Members
    -------
    dispatch : In(Event of dispatched)
        A conversion.
    room : Out(1)
        There is room for an instruction whenever it comes, if it is selected now.
    port : Out(LaneClientPort)
    completion : Out(Event of completion)
        Of an instruction that writes nothing; the last write operation completes any other.
    error : Out(Event of error_event)
        The constant operand is missing.
    report_mask : In(32)
        Bit n: warp errors of code n are reported. With one that is not, a missing constant is 0.
    indexed, value : Out(stream of indexed_request), In(stream of indexed_response)
        The upper words of constant operands, one at a time.
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
        """Instructions come through the queue, which decodes them and asks for constants."""
        queue = self.queue
        connect(m, flipped(self.dispatch), queue.dispatch)
        m.d.comb += queue.report_mask.eq(self.report_mask)
        m.d.comb += self.room.eq(queue.room)
        connect(m, queue.indexed, flipped(self.indexed))
        connect(m, flipped(self.value), queue.value)
        connect(m, queue.entry, self.gather.arriving)

    def _connect_entries(self, m: Module) -> None:
        """The steps serve the entries in order."""
        entries = self.entries
        gather = self.gather
        m.d.comb += gather.has_room.eq(entries.has_room)
        m.d.comb += gather.next_number.eq(entries.next_number)
        connect(m, gather.allocate, entries.allocate)
        connect(m, entries.compute, self.compute.next)
        connect(m, self.compute.has_results, entries.has_results)
        connect(m, entries.write, self.write.next)
        m.d.comb += entries.has_sources.valid.eq(gather.sources.valid)
        m.d.comb += entries.has_sources.payload.eq(gather.sources.payload.entry)
        m.d.comb += self.write.oldest.eq(entries.oldest)
        m.d.comb += entries.release.eq(self.write.release)

    def _connect_buffers(self, m: Module) -> None:
        """Sources go from gather to compute, results from compute to write."""
        compute = self.compute
        write = self.write
        connect(m, self.gather.sources, self.sources.write)
        m.d.comb += self.sources.read.eq(compute.read)
        m.d.comb += compute.group.eq(self.sources.group)
        m.d.comb += compute.source.eq(self.sources.value)
        m.d.comb += self.results.write.eq(compute.write)
        m.d.comb += self.results.read.eq(write.read)
        m.d.comb += write.read_values.eq(self.results.values)
        m.d.comb += write.read_conditions.eq(self.results.conditions)

    def _connect_lanes(self, m: Module) -> None:
        """Registers are read and written by the lanes."""
        port = self.port
        connect(m, self.gather.gather, flipped(port.gather))
        connect(m, self.write.write, flipped(port.write))
        connect(m, flipped(port.data.gathered), self.gather.gathered)
        connect(m, flipped(port.data.wanted), self.write.wanted)
        m.d.comb += port.data.values.eq(self.write.values)
        m.d.comb += port.data.conditions.eq(self.write.conditions)
