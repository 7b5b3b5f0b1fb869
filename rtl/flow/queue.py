"""Flow instructions on their way to the flow unit."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, fifo, stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.layouts import dispatched, flow_request
from rtl.params import SmParams

from .decode import FlowDecoder

__all__ = ["FlowQueue"]

_UNDER_WAY = 4
"""Instructions that may still come after the queue has said that it is full: between selection and dispatch."""
_PLACES = 8


class FlowQueue(Component):
    """Takes what was dispatched to the flow unit, and hands it on decoded, in order; in the same cycle if nobody waits.

    Members
    -------
    dispatch : In(valid and dispatched)
        A flow instruction.
    room : Out(1)
        There is room for it whenever it comes, if it is selected now.
    request : Out(stream of flow_request)
    """

    def __init__(self, params: SmParams) -> None:
        self._layout = flow_request(params)
        super().__init__({
            "dispatch": In(data.StructLayout({"valid": 1, "payload": dispatched(params)})), "room": Out(1),
            "request": Out(stream.Signature(self._layout))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.decoder = decoder = FlowDecoder()
        m.submodules.places = places = fifo.SyncFIFO(width=self._layout.size, depth=_PLACES)
        arriving, taken = self.dispatch.payload, Signal(self._layout)
        m.d.comb += [
            decoder.word.eq(arriving.word), taken.warp.eq(arriving.warp), taken.pc.eq(arriving.pc),
            taken.instruction.eq(decoder.instruction), taken.guard.eq(arriving.guard), taken.cc.eq(arriving.cc),
            taken.operand.eq(arriving.operands[0]), taken.same.eq(arriving.same), taken.fault.eq(arriving.fault)]
        at_once = ~places.r_rdy & self.request.ready
        m.d.comb += [
            self.request.valid.eq(places.r_rdy | self.dispatch.valid),
            self.request.payload.eq(Mux(places.r_rdy, places.r_data, taken.as_value())),
            places.r_en.eq(self.request.ready), places.w_en.eq(self.dispatch.valid & ~at_once),
            places.w_data.eq(taken), self.room.eq(places.w_level <= _PLACES - _UNDER_WAY)]
        return m
