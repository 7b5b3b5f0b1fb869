"""An arbiter between two units that read words of constant banks at indexed addresses."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component
from rtl.layouts import indexed_request, indexed_response
from rtl.stream_merger import StreamMerger

__all__ = ["ConstantArbiter"]


class ConstantArbiter(Component):
    """Merges the requests of two clients, and routes each response to the client that requested it.

    One request is answered before the next one is accepted. Round robin, see StreamMerger.

    Members
    -------
    requests : In(array of 2 streams of indexed_request)
    responses : Out(array of 2 streams of indexed_response)
    request : Out(stream of indexed_request)
    response : In(stream of indexed_response)
    """

    def __init__(self) -> None:
        super().__init__({
            "requests": In(stream.Signature(indexed_request())).array(2),
            "responses": Out(stream.Signature(indexed_response())).array(2),
            "request": Out(stream.Signature(indexed_request())),
            "response": In(stream.Signature(indexed_response())),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.merger = merger = StreamMerger(indexed_request())
        for request, source in zip(self.requests, merger.sources, strict=True):
            connect(m, flipped(request), source)
        connect(m, merger.merged, flipped(self.request))

        second_waits = Signal()
        with m.If(merger.merged.valid & merger.merged.ready):
            m.d.sync += second_waits.eq(merger.second)
        first, second = self.responses
        m.d.comb += self.response.ready.eq(Mux(second_waits, second.ready, first.ready))
        m.d.comb += first.payload.eq(self.response.payload)
        m.d.comb += first.valid.eq(self.response.valid & ~second_waits)
        m.d.comb += second.payload.eq(self.response.payload)
        m.d.comb += second.valid.eq(self.response.valid & second_waits)
        return m
