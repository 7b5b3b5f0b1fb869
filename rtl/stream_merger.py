"""One stream of two."""

from amaranth.hdl import Module, ShapeLike
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component

__all__ = ["StreamMerger"]


class StreamMerger(Component):
    """Merges two streams: if both are valid, the one that was not served last is chosen. An offer
    is held until it is taken.

    Members
    -------
    sources : In(array of 2 streams)
    merged : Out(stream)
    second : Out(1)
        The payload of ``merged`` is the second source's.
    """

    def __init__(self, shape: ShapeLike) -> None:
        super().__init__({
            "sources": In(stream.Signature(shape)).array(2),
            "merged": Out(stream.Signature(shape)),
            "second": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        first, second = self.sources
        merged = self.merged
        with m.If(self.second):
            connect(m, flipped(second), flipped(merged))
        with m.Else():
            connect(m, flipped(first), flipped(merged))

        with m.If(merged.ready | ~merged.valid):
            with m.If(self.second):
                m.d.sync += self.second.eq(~first.valid)
            with m.Else():
                m.d.sync += self.second.eq(second.valid)
        return m
