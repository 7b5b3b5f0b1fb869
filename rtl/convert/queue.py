"""Instructions on their way to the conversion unit."""

from typing import Any

from amaranth.hdl import Assert, Cat, Const, Module, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.dispatch_queue import DispatchQueue
from rtl.isa.errors import WarpError
from rtl.layouts import Event, dispatched, indexed_request, indexed_response, reported
from rtl.params import SmParams

from .decode import ConversionDecoder
from .instruction import WORD_BITS, conversion_entry, queued_conversion

__all__ = ["ConversionQueue"]


class ConversionQueue(Component):
    """Keeps what was dispatched to the unit, and hands it on decoded, in order. ::

        dispatch --> decode --> queue --> complete the operand --> entry
                                              |  ^
                                       request|  |upper word
                                              v  |
                                         constant cache

    What has a constant of 64 bits waits at the head for its upper word; beyond the end of the bank
    that is 0.

    Members
    -------
    dispatch : In(Event of dispatched)
        A conversion.
    report_mask : In(32)
        Bit n: warp errors of code n are reported.
    room : Out(1)
        There is room for an instruction whenever it comes, if it is selected now.
    entry : Out(stream of conversion_entry)
    indexed, value : Out(stream of indexed_request), In(stream of indexed_response)
        The upper words of constants, one at a time.
    """

    def __init__(self, params: SmParams) -> None:
        layout = queued_conversion(params)
        super().__init__({
            "dispatch": In(Event(dispatched(params))),
            "report_mask": In(32),
            "room": Out(1),
            "entry": Out(stream.Signature(conversion_entry(params))),
            "indexed": Out(stream.Signature(indexed_request())),
            "value": In(stream.Signature(indexed_response())),
        })
        self.decoder = ConversionDecoder(params.floats)
        self.queue = DispatchQueue(layout)
        self._upper_word = Signal(WORD_BITS, name="upper_word")
        """Of the constant at the head."""
        self._upper_word_is_requested = Signal(name="upper_word_is_requested")
        self._has_upper_word = Signal(name="has_upper_word")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.decoder = self.decoder
        m.submodules.places = self.queue
        self._decode(m)
        self._request_upper_word(m)
        self._offer(m)
        return m

    def _decode(self, m: Module) -> None:
        """What is dispatched, into the queue."""
        dispatch: Any = self.dispatch.payload
        queue = self.queue
        arriving = queue.arriving.payload
        decoder: Any = self.decoder
        threads = dispatch.active & dispatch.guard
        fails = threads.any() & reported(self.report_mask, dispatch.fault)
        m.d.comb += self.room.eq(queue.room)
        m.d.comb += queue.arriving.valid.eq(self.dispatch.valid)
        m.d.comb += arriving.warp.eq(dispatch.warp)
        m.d.comb += arriving.serial.eq(dispatch.serial)
        m.d.comb += arriving.pc.eq(dispatch.pc)
        m.d.comb += arriving.write_barrier.eq(dispatch.write_barrier)
        m.d.comb += arriving.read_barrier.eq(dispatch.read_barrier)
        m.d.comb += arriving.threads.eq(threads)
        with m.If(fails):
            m.d.comb += arriving.error.eq(dispatch.fault)
        with m.Else():
            m.d.comb += arriving.error.eq(WarpError.NONE)

        m.d.comb += decoder.word.eq(dispatch.word)
        m.d.comb += decoder.constant.eq(dispatch.operands[0])
        m.d.comb += arriving.instruction.eq(decoder.instruction)
        m.d.comb += arriving.gathers.eq(decoder.gathers)
        m.d.comb += arriving.registers.eq(decoder.registers)
        m.d.comb += arriving.operand.eq(decoder.operand)
        m.d.comb += arriving.upper.eq(decoder.upper)
        m.d.comb += arriving.needs_upper_word.eq(decoder.wide & threads.any() & ~fails)
        m.d.comb += arriving.bank.eq(decoder.bank)
        m.d.comb += arriving.address.eq(decoder.address)
        m.d.comb += arriving.destination.eq(decoder.destination)

    def _request_upper_word(self, m: Module) -> None:
        """The upper word of the head's constant, if it needs one: one request, one answer."""
        head = self.queue.head
        indexed = self.indexed
        m.d.comb += indexed.valid.eq(
            head.valid & head.payload.needs_upper_word & ~self._upper_word_is_requested)
        m.d.comb += indexed.payload.bank.eq(head.payload.bank)
        m.d.comb += indexed.payload.address.eq(head.payload.address)
        m.d.comb += self.value.ready.eq(1)
        with m.If(indexed.valid & indexed.ready):
            m.d.sync += self._upper_word_is_requested.eq(1)
        with m.If(self.value.valid):
            m.d.sync += self._has_upper_word.eq(1)
            m.d.sync += self._upper_word.eq(self.value.payload.value)
        with m.If(head.valid & head.ready):
            m.d.sync += self._upper_word_is_requested.eq(0)
            m.d.sync += self._has_upper_word.eq(0)
        m.d.sync += Assert(
            ~self.value.valid | (self._upper_word_is_requested & ~self._has_upper_word),
            "an upper word that was not requested")

    def _offer(self, m: Module) -> None:
        """The head, as soon as its operand is complete."""
        head = self.queue.head
        entry = self.entry
        word = head.payload.operand
        operand = entry.payload.operand
        is_complete = ~head.payload.needs_upper_word | self._has_upper_word
        m.d.comb += entry.valid.eq(head.valid & is_complete)
        m.d.comb += head.ready.eq(entry.ready & is_complete)
        for name, _ in entry.payload.shape():
            if name != "operand":
                m.d.comb += entry.payload[name].eq(head.payload[name])
        with m.If(head.payload.upper):
            m.d.comb += operand.eq(Cat(Const(0, WORD_BITS), word))
        with m.Elif(head.payload.needs_upper_word):
            m.d.comb += operand.eq(Cat(word, self._upper_word))
        with m.Else():
            m.d.comb += operand.eq(word.as_signed())
