"""The first step of the conversion unit: an instruction gets an entry, its registers are read."""

from typing import Any

from amaranth.hdl import Assert, Cat, Module, Signal
from amaranth.lib import fifo, stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.control_code import NO_BARRIER
from rtl.isa.errors import WarpError
from rtl.isa.syntax import RZ
from rtl.layouts import Event, gathered_beat, register_gather
from rtl.params import SmParams

from .buffers import source_beat
from .entries import allocated_entry
from .instruction import ENTRY_BITS, conversion_entry

__all__ = ["GatherStep"]


class GatherStep(Component):
    """Allocates an entry for an instruction, requests its registers from the lanes, and writes what
    comes back to the source buffer.

    An instruction whose source is not in registers is gathered all the same if it has a read
    barrier, which a gather releases. One that writes nothing is never gathered.

    One request is offered at a time; several may be outstanding, their data come in order. ::

        decoded instruction --> entry --> request --> outstanding --> source buffer
                            1 cycle    1 cycle or more

    Members
    -------
    arriving : In(stream of conversion_entry)
    has_room, next_number, allocate
        See EntryTable.
    gather, gathered
        See LaneClientPort.
    sources : Out(Event(source_beat))
        In the cycle of ``gathered``.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "arriving": In(stream.Signature(conversion_entry(params))),
            "has_room": In(1),
            "next_number": In(ENTRY_BITS),
            "allocate": Out(Event(allocated_entry(params))),
            "gather": Out(stream.Signature(register_gather(params))),
            "gathered": In(Event(gathered_beat(params))),
            "sources": Out(Event(source_beat(params))),
        })
        self._request_pending = Signal(name="request_pending")
        """A gather is offered to the lanes."""
        self._requested: Any = Signal(conversion_entry(params), name="requested")
        """The instruction it is for."""
        self._requested_number = Signal(ENTRY_BITS, name="requested_number")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._allocate(m)
        self._request(m)
        self._receive(m)
        return m

    def _allocate(self, m: Module) -> None:
        """An entry for the instruction that comes, when the request before it is taken."""
        arriving = self.arriving
        instruction = arriving.payload
        allocated = self.allocate.payload
        releases_barrier = instruction.read_barrier != NO_BARRIER
        m.d.comb += arriving.ready.eq(
            self.has_room & (~self._request_pending | self.gather.ready))
        m.d.comb += self.allocate.valid.eq(arriving.valid & arriving.ready)
        m.d.comb += allocated.instruction.eq(instruction)
        m.d.comb += allocated.writes_nothing.eq(_writes_nothing(instruction))
        m.d.comb += allocated.needs_gather.eq(
            ~allocated.writes_nothing & (instruction.gathers | releases_barrier))

        with m.If(self.gather.ready):
            m.d.sync += self._request_pending.eq(0)
        with m.If(self.allocate.valid):
            m.d.sync += self._request_pending.eq(allocated.needs_gather)
            m.d.sync += self._requested.eq(instruction)
            m.d.sync += self._requested_number.eq(self.next_number)

    def _request(self, m: Module) -> None:
        """Offers a gather to the lanes."""
        gather = self.gather
        requested = self._requested
        m.d.comb += gather.valid.eq(self._request_pending)
        m.d.comb += gather.payload.warp.eq(requested.warp)
        m.d.comb += gather.payload.serial.eq(requested.serial)
        m.d.comb += gather.payload.last.eq(1)
        m.d.comb += gather.payload.barrier.eq(requested.read_barrier)
        m.d.comb += gather.payload.registers[0].eq(requested.registers[0])
        m.d.comb += gather.payload.registers[1].eq(requested.registers[1])
        m.d.comb += gather.payload.registers[2].eq(RZ)

    def _receive(self, m: Module) -> None:
        """Passes the beats of the oldest outstanding gather on to the source buffer."""
        gathered = self.gathered
        sources = self.sources
        m.submodules.outstanding = outstanding = fifo.SyncFIFO(
            width=ENTRY_BITS, depth=1 << ENTRY_BITS)
        is_last_beat = gathered.payload.beat == self._params.beats - 1
        m.d.comb += outstanding.w_en.eq(self._request_pending & self.gather.ready)
        m.d.comb += outstanding.w_data.eq(self._requested_number)
        m.d.comb += outstanding.r_en.eq(gathered.valid & is_last_beat)
        m.d.sync += Assert(~gathered.valid | outstanding.r_rdy, "no gather is outstanding")
        m.d.sync += Assert(
            ~outstanding.w_en | outstanding.w_rdy, "more gathers are outstanding than entries")

        m.d.comb += sources.valid.eq(gathered.valid)
        m.d.comb += sources.payload.beat.eq(gathered.payload.beat)
        m.d.comb += sources.payload.entry.eq(outstanding.r_data)
        for source, words in zip(
                sources.payload["values"], gathered.payload["values"], strict=True):
            m.d.comb += source.eq(Cat(words[0], words[1]))


def _writes_nothing(instruction: Any) -> Any:
    """Whether a conversion_entry only completes: it has an error or no threads, or its result goes
    nowhere."""
    has_error = instruction.error != WarpError.NONE
    result_is_unused = (instruction.destination == RZ) & ~instruction.instruction.conditional
    return has_error | ~instruction.threads.any() | result_is_unused
