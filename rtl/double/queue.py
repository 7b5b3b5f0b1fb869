"""Instructions on their way to the unit."""

from amaranth.hdl import Module
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component, pass_on
from rtl.dispatch_queue import DispatchQueue
from rtl.layouts import EventLayout, dispatched
from rtl.params import SmParams

from .decode import DoubleDecoder
from .instruction import double_entry

__all__ = ["DoubleQueue"]

_DECODED = ("instruction", "registers", "uniform", "uniform_c", "operand", "bank", "address", "destination", "p", "q",
            "conditional")


class DoubleQueue(Component):
    """Takes what was dispatched to the unit, and hands it on decoded, in order.

    Members
    -------
    dispatch : In(EventLayout of dispatched)
    room : Out(1)
        There is room for an instruction whenever it comes, if it is selected now.
    entry : Out(stream of double_entry)
    """

    def __init__(self, params: SmParams) -> None:
        self._layout = double_entry(params)
        super().__init__({"dispatch": In(EventLayout(dispatched(params))), "room": Out(1),
                          "entry": Out(stream.Signature(self._layout))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.decoder = decoder = DoubleDecoder()
        m.submodules.places = places = DispatchQueue(self._layout)
        arriving, taken = self.dispatch.payload, places.arriving.payload
        pass_on(m, arriving, taken, "warp", "serial", "write_barrier", "read_barrier")
        pass_on(m, decoder, taken, *_DECODED)
        m.d.comb += [
            decoder.word.eq(arriving.word), decoder.constant.eq(arriving.operands[0]),
            places.arriving.valid.eq(self.dispatch.valid), taken.threads.eq(arriving.active & arriving.guard),
            taken.predicates.eq(arriving.predicate), self.room.eq(places.room)]
        connect(m, places.head, flipped(self.entry))
        return m
