"""The third step of the conversion unit: writes results to registers, completes instructions."""

from typing import Any

from amaranth.hdl import Assert, Module, Mux, Signal
from amaranth.lib import data, fifo, stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.control_code import NO_BARRIER
from rtl.isa.errors import WarpError
from rtl.isa.syntax import PT, RZ
from rtl.layouts import Event, completion, error_event, operation_beat, register_write
from rtl.params import SmParams
from rtl.structs import common_fields, struct_value

from .buffers import result_place
from .entries import Release, pending_entry
from .instruction import DOUBLE_BITS, ENTRY_BITS, size_code

__all__ = ["WriteStep"]

_WRITE_CYCLES = 6
"""At most as many cycles pass from ``wanted`` of a beat until it is in the registers."""
_outstanding_write = data.StructLayout({"second": 1, "last": 1})
"""A write that the lanes have accepted and not yet read all data of. ``second``: it writes high
words; ``last``: it is the last one of its instruction."""


class WriteStep(Component):
    """Offers the writes of instructions to the lanes, a register at a time, and reads the results
    that the lanes request.

    The last write completes its instruction. An instruction that writes nothing is completed here:
    after all earlier ones have written their registers, and at least two cycles after the one
    completed here before. Issue relies on both. Instructions behind it wait meanwhile.

    Members
    -------
    next : In(stream of pending_entry)
        Accepted when the lanes accept its last write, or when it is completed here.
    release : Out(Release)
        Frees the oldest entry when its last results are read, or when it is completed here. Results
        are always read from the oldest entry.
    read : Out(result_place)
        The beat that is read from the ResultBuffer, in the cycle of ``wanted``. The buffer drives
        the data of the lanes in the next cycle.
    write, wanted
        See LaneClientPort.
    completion, error
        See ConversionUnit.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "next": In(stream.Signature(pending_entry(params))),
            "release": Out(Release()),
            "read": Out(result_place(params)),
            "write": Out(stream.Signature(register_write(params))),
            "wanted": In(Event(operation_beat(params))),
            "completion": Out(Event(completion(params))),
            "error": Out(Event(error_event(params))),
        })
        self._write_taken = Signal(name="write_taken")
        """The lanes accept a write in this cycle."""
        self._write_taken_of: Any = Signal(_outstanding_write, name="write_taken_of")
        self._is_quiet = Signal(name="is_quiet")
        """The data of all accepted writes are in the registers."""
        self._last_word_read = Signal(name="last_word_read")
        """The last results of the oldest entry are read in this cycle."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._offer_write(m)
        self._read_results(m)
        self._complete(m)
        return m

    def _offer_write(self, m: Module) -> None:
        """Offers a write for each register of the next instruction, the low word's first. The last
        one writes CC, too. A 64-bit result with destination RZ has one write, of the high word: for
        CC, whose flags are kept with that word."""
        write = self.write
        following = self.next
        entry = following.payload.instruction
        decoded = entry.decoded
        is_wide = decoded.instruction.to_size == size_code(DOUBLE_BITS)
        is_second = Signal()
        """The write of the low word was accepted; the high word is offered."""
        is_last = Signal()
        m.d.comb += is_last.eq(~is_wide | is_second | (decoded.destination == RZ))
        m.d.comb += write.valid.eq(following.valid & ~following.payload.writes_nothing)
        m.d.comb += write.payload.eq(struct_value(
            register_write(self._params),
            warp=entry.warp,
            sequence=entry.sequence,
            index=0,
            last=is_last,
            barrier=Mux(is_last, entry.write_barrier, NO_BARRIER),
            register=decoded.destination | is_second,
            predicate=PT,
            conditional=decoded.instruction.conditional & is_last,
            threads=entry.threads))

        m.d.comb += self._write_taken.eq(write.valid & write.ready)
        m.d.comb += self._write_taken_of.eq(
            struct_value(_outstanding_write, second=is_wide & is_last, last=is_last))
        with m.If(self._write_taken):
            m.d.sync += is_second.eq(~is_last)

    def _read_results(self, m: Module) -> None:
        """Reads the beats that the lanes request: those of the accepted writes, in order."""
        wanted = self.wanted
        m.submodules.outstanding = outstanding = fifo.SyncFIFO(
            width=_outstanding_write.size, depth=1 << ENTRY_BITS)
        oldest_write = data.View(_outstanding_write, outstanding.r_data)
        is_last_beat = wanted.valid & (wanted.payload.beat == self._params.beats - 1)
        m.d.comb += outstanding.w_en.eq(self._write_taken)
        m.d.comb += outstanding.w_data.eq(self._write_taken_of)
        m.d.comb += outstanding.r_en.eq(is_last_beat)
        m.d.comb += self._last_word_read.eq(is_last_beat & oldest_write.last)
        m.d.sync += Assert(~wanted.valid | outstanding.r_rdy, "no write is outstanding")
        m.d.sync += Assert(
            ~outstanding.w_en | outstanding.w_rdy, "more writes are outstanding than there can be")

        m.d.comb += self.read.eq(struct_value(
            result_place(self._params),
            second=oldest_write.second,
            beat=wanted.payload.beat,
            entry=self.release.oldest))

        settling = Signal(_WRITE_CYCLES)
        """Not 0: a beat that was requested may not be in the registers yet."""
        m.d.sync += settling.eq(settling >> 1)
        with m.If(wanted.valid):
            m.d.sync += settling.eq(~0)
        m.d.comb += self._is_quiet.eq((settling == 0) & ~outstanding.r_rdy)

    def _complete(self, m: Module) -> None:
        """Accepts the next instruction when its last write is, or completes it here if it writes
        nothing. The completion does not follow from ``next.ready``, in which the lanes' choice of a
        client comes late."""
        following = self.next
        entry = following.payload.instruction
        completion = self.completion
        error = self.error
        completed_before = Signal()
        """Another instruction was completed here in the cycle before."""
        can_complete = self._is_quiet & ~completed_before
        m.d.sync += completed_before.eq(completion.valid)
        with m.If(following.payload.writes_nothing):
            m.d.comb += following.ready.eq(can_complete)
            m.d.comb += completion.valid.eq(following.valid & can_complete)
        with m.Else():
            m.d.comb += following.ready.eq(self.write.ready & self._write_taken_of.last)
        m.d.comb += self.release.frees.eq(self._last_word_read | completion.valid)
        m.d.sync += Assert(
            ~(self._last_word_read & completion.valid), "two entries are released at once")

        m.d.comb += common_fields(completion.payload, entry)
        m.d.comb += error.valid.eq(completion.valid & (entry.error != WarpError.NONE))
        m.d.comb += common_fields(error.payload, entry)
