"""The queue of instructions before the conversion unit."""

from typing import Any

from amaranth.hdl import Assert, Cat, Const, Module, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.dispatch_queue import DispatchQueue
from rtl.isa.errors import WarpError
from rtl.layouts import Event, dispatched, indexed_request, indexed_response, reported
from rtl.params import SmParams
from rtl.structs import common_fields, struct_value

from .decode import ConversionDecoder
from .instruction import WORD_BITS, conversion_entry, queued_conversion

__all__ = ["ConversionQueue"]


class ConversionQueue(Component):
    """Decodes dispatched instructions, queues them, and outputs them in order. ::

        dispatch --> decode --> queue --> complete the operand --> entry
                                              |  ^
                                       request|  |upper word
                                              v  |
                                         constant cache

    An instruction with a 64-bit constant waits at the head of the queue for its upper word. If that
    is beyond the end of the bank it is 0, without an error.

    Members
    -------
    dispatch : In(Event of dispatched)
        See ConversionUnit.
    report_mask : In(32)
        Bit n: warp errors of code n are reported.
    room : Out(1)
        The queue can take an instruction that issue selects in this cycle.
    entry : Out(stream of conversion_entry)
    indexed, value : Out(stream of indexed_request), In(stream of indexed_response)
        Reads the upper words of constants, one at a time.
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
        """The upper word of the constant of the head; valid with ``has_upper_word``."""
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
        """Writes a dispatched instruction, decoded, to the queue. One that will write nothing needs
        no constant."""
        dispatch: Any = self.dispatch.payload
        decoder: Any = self.decoder
        queue = self.queue
        arriving = queue.arriving.payload
        threads = dispatch.active & dispatch.guard
        fails = threads.any() & reported(self.report_mask, dispatch.fault)
        m.d.comb += decoder.word.eq(dispatch.word)
        m.d.comb += decoder.constant.eq(dispatch.operands[0])

        m.d.comb += self.room.eq(queue.room)
        m.d.comb += queue.arriving.valid.eq(self.dispatch.valid)
        m.d.comb += common_fields(arriving, dispatch)
        m.d.comb += arriving.threads.eq(threads)
        m.d.comb += arriving.decoded.eq(decoder.decoded)
        m.d.comb += arriving.uniform.eq(decoder.uniform)
        with m.If(fails):
            m.d.comb += arriving.error.eq(dispatch.fault)
        with m.Else():
            m.d.comb += arriving.error.eq(WarpError.NONE)
        with m.If(fails | ~threads.any()):
            m.d.comb += arriving.uniform.needs_upper_word.eq(0)

    def _request_upper_word(self, m: Module) -> None:
        """Requests the upper word of the head's constant, if needed, and keeps the response."""
        head = self.queue.head
        indexed = self.indexed
        uniform = head.payload.uniform
        m.d.comb += indexed.valid.eq(
            head.valid & uniform.needs_upper_word & ~self._upper_word_is_requested)
        m.d.comb += indexed.payload.eq(
            struct_value(indexed_request(), bank=uniform.bank, address=uniform.address))
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
        """Outputs the head as soon as its operand is complete."""
        head = self.queue.head
        entry = self.entry
        uniform = head.payload.uniform
        operand = entry.payload.operand
        is_complete = ~uniform.needs_upper_word | self._has_upper_word
        m.d.comb += entry.valid.eq(head.valid & is_complete)
        m.d.comb += head.ready.eq(entry.ready & is_complete)
        m.d.comb += common_fields(entry.payload, head.payload)
        with m.If(uniform.is_upper):
            m.d.comb += operand.eq(Cat(Const(0, WORD_BITS), uniform.word))
        with m.Elif(uniform.needs_upper_word):
            m.d.comb += operand.eq(Cat(uniform.word, self._upper_word))
        with m.Else():
            m.d.comb += operand.eq(uniform.word.as_signed())
