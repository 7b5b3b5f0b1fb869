"""Instructions on their way to the conversion unit."""

from amaranth.hdl import Module, Mux
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component
from rtl.dispatch_queue import DispatchQueue
from rtl.isa.errors import WarpError
from rtl.layouts import dispatched, reported
from rtl.params import SmParams

from .decode import ConversionDecoder
from .instruction import conversion_entry

__all__ = ["ConversionQueue"]


class ConversionQueue(Component):
    """Takes what was dispatched to the unit, and hands it on decoded, in order.

    Members
    -------
    dispatch : In(valid and dispatched)
        A conversion.
    report_mask : In(32)
        Bit n: warp errors of code n are reported.
    room : Out(1)
        There is room for an instruction whenever it comes, if it is selected now.
    entry : Out(stream of conversion_entry)
    """

    def __init__(self, params: SmParams) -> None:
        self._layout, self._floats = conversion_entry(params), params.floats
        super().__init__({
            "dispatch": In(data.StructLayout({"valid": 1, "payload": dispatched(params)})), "report_mask": In(32),
            "room": Out(1), "entry": Out(stream.Signature(self._layout))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.decoder = decoder = ConversionDecoder(self._floats)
        m.submodules.places = places = DispatchQueue(self._layout)
        arriving, taken = self.dispatch.payload, places.arriving.payload
        threads = arriving.active & arriving.guard
        fails = threads.any() & reported(self.report_mask, arriving.fault)
        m.d.comb += [
            decoder.word.eq(arriving.word), decoder.constant.eq(arriving.operands[0]),
            places.arriving.valid.eq(self.dispatch.valid), taken.warp.eq(arriving.warp),
            taken.serial.eq(arriving.serial), taken.pc.eq(arriving.pc), taken.threads.eq(threads),
            taken.error.eq(Mux(fails, arriving.fault.as_value(), WarpError.NONE)),
            taken.instruction.eq(decoder.instruction), taken.gathers.eq(decoder.gathers),
            taken.upper.eq(decoder.upper),
            taken.registers.eq(decoder.registers), taken.operand.eq(decoder.operand),
            taken.destination.eq(decoder.destination), taken.write_barrier.eq(arriving.write_barrier),
            taken.read_barrier.eq(arriving.read_barrier), self.room.eq(places.room)]
        connect(m, places.head, flipped(self.entry))
        return m
