"""One stream of two."""

from amaranth.hdl import Module, Mux, ShapeLike
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component

__all__ = ["StreamMerger"]


class StreamMerger(Component):
    """Two streams as one: who has gone last is the second one to go.

    Members
    -------
    sources : In(array of 2 streams)
    merged : Out(stream)
    second : Out(1)
        Whose the payload of ``merged`` is.
    """

    def __init__(self, shape: ShapeLike) -> None:
        super().__init__({"sources": In(stream.Signature(shape)).array(2), "merged": Out(stream.Signature(shape)),
                          "second": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        first, second = self.sources
        merged, turn = self.merged, self.second
        m.d.comb += [
            merged.valid.eq(Mux(turn, second.valid, first.valid)),
            merged.payload.eq(Mux(turn, second.payload, first.payload)),
            first.ready.eq(merged.ready & ~turn), second.ready.eq(merged.ready & turn)]
        # Whoever offers something keeps the turn until it is taken.
        with m.If(merged.ready | ~merged.valid):
            m.d.sync += turn.eq(Mux(turn, ~first.valid, second.valid))
        return m
