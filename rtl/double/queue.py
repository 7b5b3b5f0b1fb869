"""Instructions on their way to the unit."""

from amaranth.hdl import Module
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component
from rtl.dispatch_queue import DispatchQueue
from rtl.layouts import Event, dispatched
from rtl.params import SmParams

from .decode import DoubleDecoder
from .instruction import double_entry

__all__ = ["DoubleQueue"]

class DoubleQueue(Component):
    """Takes what was dispatched to the unit, and hands it on decoded, in order.

    Members
    -------
    dispatch : In(Event of dispatched)
    room : Out(1)
        There is room for an instruction whenever it comes, if it is selected now.
    entry : Out(stream of double_entry)
    """

    def __init__(self, params: SmParams) -> None:
        self._layout = double_entry(params)
        super().__init__({
            "dispatch": In(Event(dispatched(params))),
            "room": Out(1),
            "entry": Out(stream.Signature(self._layout)),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        dispatch = self.dispatch.payload
        m.submodules.decoder = decoder = DoubleDecoder()
        m.d.comb += decoder.word.eq(dispatch.word)
        m.d.comb += decoder.constant.eq(dispatch.operands[0])

        m.submodules.places = places = DispatchQueue(self._layout)
        m.d.comb += places.arriving.valid.eq(self.dispatch.valid)
        m.d.comb += self.room.eq(places.room)
        connect(m, places.head, flipped(self.entry))

        entry = places.arriving.payload
        m.d.comb += entry.warp.eq(dispatch.warp)
        m.d.comb += entry.serial.eq(dispatch.serial)
        m.d.comb += entry.write_barrier.eq(dispatch.write_barrier)
        m.d.comb += entry.read_barrier.eq(dispatch.read_barrier)
        m.d.comb += entry.threads.eq(dispatch.active & dispatch.guard)
        m.d.comb += entry.predicates.eq(dispatch.predicate)
        m.d.comb += entry.decoded.eq(decoder.decoded)
        return m
