"""Instructions on their way to the conversion unit."""

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component, pass_on
from rtl.dispatch_queue import DispatchQueue
from rtl.isa.errors import WarpError
from rtl.layouts import dispatched, indexed_request, indexed_response, reported
from rtl.params import SmParams

from .decode import ConversionDecoder
from .instruction import WORD_BITS, conversion_entry, queued_conversion

__all__ = ["ConversionQueue"]


class ConversionQueue(Component):
    """Takes what was dispatched to the unit, and hands it on decoded, in order. What has a constant of 64 bits waits
    here for its upper word; beyond the end of the bank that is 0.

    Members
    -------
    dispatch : In(valid and dispatched)
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
        self._layout, self._floats = queued_conversion(params), params.floats
        super().__init__({
            "dispatch": In(data.StructLayout({"valid": 1, "payload": dispatched(params)})), "report_mask": In(32),
            "room": Out(1), "entry": Out(stream.Signature(conversion_entry(params))),
            "indexed": Out(stream.Signature(indexed_request())), "value": In(stream.Signature(indexed_response()))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.decoder = decoder = ConversionDecoder(self._floats)
        m.submodules.places = places = DispatchQueue(self._layout)
        arriving, taken = self.dispatch.payload, places.arriving.payload
        threads = arriving.active & arriving.guard
        fails = threads.any() & reported(self.report_mask, arriving.fault)
        m.d.comb += [
            decoder.word.eq(arriving.word), decoder.constant.eq(arriving.operands[0]),
            places.arriving.valid.eq(self.dispatch.valid), taken.threads.eq(threads),
            taken.error.eq(Mux(fails, arriving.fault.as_value(), WarpError.NONE)),
            taken.asks.eq(decoder.wide & threads.any() & ~fails), self.room.eq(places.room)]
        pass_on(m, arriving, taken, "warp", "serial", "pc", "write_barrier", "read_barrier")
        pass_on(m, decoder, taken, "instruction", "gathers", "registers", "operand", "upper", "bank", "address",
                "destination")

        # The head leaves when its operand is whole.
        head, entry, low = places.head, self.entry, places.head.payload.operand
        asked, known, high = Signal(), Signal(), Signal(WORD_BITS)
        whole = ~head.payload.asks | known
        pass_on(m, head.payload, entry.payload, *(name for name, _ in entry.payload.shape() if name != "operand"))
        m.d.comb += [
            entry.valid.eq(head.valid & whole), head.ready.eq(entry.ready & whole),
            entry.payload.operand.eq(Mux(head.payload.upper, Cat(Const(0, WORD_BITS), low), Cat(
                low, Mux(head.payload.asks, high, low[-1].replicate(WORD_BITS))))),
            self.indexed.valid.eq(head.valid & head.payload.asks & ~asked),
            self.indexed.payload.bank.eq(head.payload.bank), self.indexed.payload.address.eq(head.payload.address),
            self.value.ready.eq(1)]
        with m.If(self.indexed.valid & self.indexed.ready):
            m.d.sync += asked.eq(1)
        with m.If(self.value.valid):
            m.d.sync += [known.eq(1), high.eq(self.value.payload.value)]
        with m.If(head.valid & head.ready):
            m.d.sync += [asked.eq(0), known.eq(0)]
        m.d.sync += Assert(~self.value.valid | asked & ~known, "a constant that nobody has asked for")
        return m
