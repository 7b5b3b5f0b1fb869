"""The first step of the conversion unit: allocates an entry and gathers the source registers."""

from typing import Any

from amaranth.hdl import Assert, Cat, Const, Module, Signal
from amaranth.lib import fifo, stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.control_code import NO_BARRIER
from rtl.isa.errors import WarpError
from rtl.isa.syntax import RZ
from rtl.layouts import Event, gathered_beat, register_gather
from rtl.params import SmParams
from rtl.structs import struct_value

from .buffers import source_beat
from .entries import Allocation, allocated_entry
from .instruction import ENTRY_BITS, conversion_entry

__all__ = ["GatherStep"]


class GatherStep(Component):
    """Allocates an entry for an instruction, requests its registers from the lanes, and writes the
    data that they return to the source buffer.

    The gather of an instruction lowers its read barrier; its last write lowers only its write
    barrier. An instruction with a read barrier therefore has a gather even if its source is
    uniform; the data are not used. An instruction that writes nothing has no gather: its completion
    lowers both barriers.

    One gather is offered at a time; up to four may be outstanding. Their data return in order. ::

        arriving, allocate --> gather offered --> outstanding --> gathered, sources
                       1 cycle        1 cycle or more     as the lanes deliver

    Members
    -------
    arriving : In(stream of conversion_entry)
        Accepted if an entry is free, and no gather is offered or it is taken in this cycle.
    allocate : Out(Allocation)
        In the cycle in which ``arriving`` is accepted.
    gather, gathered
        See LaneClientPort.
    sources : Out(Event(source_beat))
        A beat of ``gathered``, in the same cycle, with the entry that it belongs to.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "arriving": In(stream.Signature(conversion_entry(params))),
            "allocate": Out(Allocation(params)),
            "gather": Out(stream.Signature(register_gather(params))),
            "gathered": In(Event(gathered_beat(params))),
            "sources": Out(Event(source_beat(params))),
        })
        self._requested: Any = Signal(conversion_entry(params), name="requested")
        """The instruction of the gather that is offered to the lanes."""
        self._requested_number = Signal(ENTRY_BITS, name="requested_number")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._allocate(m)
        self._request(m)
        self._receive(m)
        return m

    def _allocate(self, m: Module) -> None:
        """Allocates an entry for the arriving instruction, and registers the gather it needs."""
        arriving = self.arriving
        instruction = arriving.payload
        request = self.allocate.request
        can_request = ~self.gather.valid | self.gather.ready
        writes_nothing = _writes_nothing(instruction)
        releases_barrier = instruction.read_barrier != NO_BARRIER
        m.d.comb += arriving.ready.eq(request.ready & can_request)
        m.d.comb += request.valid.eq(arriving.valid & can_request)
        needs_gather = ~writes_nothing & (instruction.decoded.gathers | releases_barrier)
        m.d.comb += request.payload.eq(struct_value(
            allocated_entry(self._params),
            instruction=instruction,
            writes_nothing=writes_nothing,
            needs_gather=needs_gather))

        with m.If(self.gather.ready):
            m.d.sync += self.gather.valid.eq(0)
        with m.If(request.valid & request.ready):
            m.d.sync += self.gather.valid.eq(needs_gather)
            m.d.sync += self._requested.eq(instruction)
            m.d.sync += self._requested_number.eq(self.allocate.number)

    def _request(self, m: Module) -> None:
        """The payload of the gather that is offered."""
        requested = self._requested
        m.d.comb += self.gather.payload.eq(struct_value(
            register_gather(self._params),
            warp=requested.warp,
            sequence=requested.sequence,
            index=0,
            last=1,
            barrier=requested.read_barrier,
            registers=Cat(requested.decoded.registers, Const(RZ, 8))))

    def _receive(self, m: Module) -> None:
        """Writes the beats of the oldest outstanding gather to the source buffer."""
        gathered = self.gathered
        m.submodules.outstanding = outstanding = fifo.SyncFIFO(
            width=ENTRY_BITS, depth=1 << ENTRY_BITS)
        is_last_beat = gathered.payload.beat == self._params.beats - 1
        m.d.comb += outstanding.w_en.eq(self.gather.valid & self.gather.ready)
        m.d.comb += outstanding.w_data.eq(self._requested_number)
        m.d.comb += outstanding.r_en.eq(gathered.valid & is_last_beat)
        m.d.sync += Assert(~gathered.valid | outstanding.r_rdy, "no gather is outstanding")
        m.d.sync += Assert(
            ~outstanding.w_en | outstanding.w_rdy, "more gathers are outstanding than entries")

        m.d.comb += self.sources.valid.eq(gathered.valid)
        m.d.comb += self.sources.payload.eq(struct_value(
            source_beat(self._params),
            entry=outstanding.r_data,
            beat=gathered.payload.beat,
            values=Cat(Cat(words[0], words[1]) for words in gathered.payload["values"])))


def _writes_nothing(instruction: Any) -> Any:
    """Whether a conversion_entry only completes: it has an error or no threads, or writes neither a
    register nor CC."""
    decoded = instruction.decoded
    has_error = instruction.error != WarpError.NONE
    result_is_unused = (decoded.destination == RZ) & ~decoded.instruction.conditional
    return has_error | ~instruction.threads.any() | result_is_unused
