"""The queue of instructions before the unit for double precision."""

from amaranth.hdl import Module
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component
from rtl.dispatch_queue import DispatchQueue
from rtl.layouts import Event, dispatched
from rtl.params import SmParams
from rtl.structs import common_fields

from .decode import DoubleDecoder
from .instruction import double_entry

__all__ = ["DoubleQueue"]

class DoubleQueue(Component):
    """Decodes dispatched instructions, queues them, and outputs them in order; in the cycle of the
    dispatch if none is waiting.

    Members
    -------
    dispatch : In(Event of dispatched)
        See DoubleUnit.
    room : Out(1)
        The queue can take an instruction that issue selects in this cycle.
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

        m.submodules.places = places = DispatchQueue(
            self._layout, bypass=True)
        m.d.comb += places.arriving.valid.eq(self.dispatch.valid)
        m.d.comb += self.room.eq(places.room)
        connect(m, places.head, flipped(self.entry))

        entry = places.arriving.payload
        m.d.comb += common_fields(entry, dispatch)
        m.d.comb += entry.threads.eq(dispatch.active & dispatch.guard)
        m.d.comb += entry.decoded.eq(decoder.decoded)
        return m
