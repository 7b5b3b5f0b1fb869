"""Two units that ask for words of constant banks, as one."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component
from rtl.layouts import indexed_request, indexed_response
from rtl.stream_merger import StreamMerger

__all__ = ["ConstantClients"]


class ConstantClients(Component):
    """Merges what two units ask, and gives each its answer. One question is answered before the next one is taken.

    Members
    -------
    asked, answers : In(array of 2 streams of indexed_request), Out(array of 2 streams of indexed_response)
    indexed, value : Out(stream of indexed_request), In(stream of indexed_response)
    """

    def __init__(self) -> None:
        super().__init__({
            "asked": In(stream.Signature(indexed_request())).array(2),
            "answers": Out(stream.Signature(indexed_response())).array(2),
            "indexed": Out(stream.Signature(indexed_request())), "value": In(stream.Signature(indexed_response()))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.merger = merger = StreamMerger(indexed_request())
        value, second = self.value, Signal()
        for own, source in zip(self.asked, merger.sources, strict=True):
            connect(m, flipped(own), source)
        connect(m, merger.merged, flipped(self.indexed))
        with m.If(merger.merged.valid & merger.merged.ready):
            m.d.sync += second.eq(merger.second)
        m.d.comb += value.ready.eq(Mux(second, self.answers[1].ready, self.answers[0].ready))
        for number, answer in enumerate(self.answers):
            m.d.comb += [answer.payload.eq(value.payload), answer.valid.eq(value.valid & (second == number))]
        return m

    def give(self, m: Module, *units: Component) -> None:
        """Joins the two units by their ports ``indexed`` and ``value``."""
        for unit, asked, answer in zip(units, self.asked, self.answers, strict=True):
            connect(m, unit.indexed, asked)
            connect(m, answer, unit.value)
