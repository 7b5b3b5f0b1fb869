"""Where dispatched instructions wait for their unit."""

from amaranth.hdl import Assert, Module
from amaranth.lib import data, fifo, stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component

__all__ = ["DispatchQueue"]

_UNDER_WAY = 5
"""Instructions that may still come after the queue has said that it is full: from being ready to dispatch."""
_PLACES = 8


class DispatchQueue(Component):
    """Keeps what was dispatched to a unit, and hands it on in order.

    Parameters
    ----------
    layout
        Of an instruction, as the unit has decoded it.
    decoding
        Cycles from dispatch to arrival here; an instruction a cycle may be on this way.
    bypass
        What arrives is handed on in the same cycle if nobody waits.

    Members
    -------
    arriving : In(valid and an instruction)
    room : Out(1)
        There is room for an instruction whenever it comes, if it is selected now.
    head : Out(stream of instructions)
    """

    def __init__(self, layout: data.StructLayout, *, decoding: int = 0, bypass: bool = False) -> None:
        self._layout, self._decoding, self._bypass = layout, decoding, bypass
        super().__init__({
            "arriving": In(data.StructLayout({"valid": 1, "payload": layout})), "room": Out(1),
            "head": Out(stream.Signature(layout))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        arriving, head = self.arriving, self.head
        content = arriving.payload.as_value()
        m.submodules.places = places = fifo.SyncFIFO(width=len(content), depth=_PLACES)
        m.d.comb += [
            head.valid.eq(places.r_rdy), head.payload.eq(places.r_data), places.r_en.eq(head.ready),
            places.w_en.eq(arriving.valid), places.w_data.eq(content),
            self.room.eq(places.w_level <= _PLACES - _UNDER_WAY - self._decoding)]
        m.d.sync += Assert(~(places.w_en & ~places.w_rdy), "more instructions come than there is room for")
        if self._bypass:
            with m.If(~places.r_rdy):
                m.d.comb += [
                    head.valid.eq(arriving.valid), head.payload.eq(content),
                    places.w_en.eq(arriving.valid & ~head.ready)]
        return m
