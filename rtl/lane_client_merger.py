"""Two units that read and write registers, merged into one client of the lanes."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component
from rtl.layouts import LaneClientPort, register_gather, register_write
from rtl.params import SmParams
from rtl.stream_merger import StreamMerger

__all__ = ["LaneClientMerger"]

_SECOND_BIT = 3
"""The bit of an operation's ``index`` that says which client it belongs to. Clients use the bits
below it."""


class LaneClientMerger(Component):
    """Merges the operations of two clients, and routes data by the ``index`` that comes back.

    Round robin, see StreamMerger. Values are requested from a client one cycle before they are
    valid, so the choice between the clients' values is registered.

    Members
    -------
    first, second : In(LaneClientPort)
    merged : Out(LaneClientPort)
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "first": In(LaneClientPort(params)),
            "second": In(LaneClientPort(params)),
            "merged": Out(LaneClientPort(params)),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.gather = gather = StreamMerger(register_gather(self._params))
        m.submodules.write = write = StreamMerger(register_write(self._params))
        first, second, merged = self.first, self.second, self.merged
        self._merge(m, gather, first.gather, second.gather, merged.gather)
        self._merge(m, write, first.write, second.write, merged.write)
        self._route_data(m)
        return m

    def _route_data(self, m: Module) -> None:
        """Passes gathered operands and requests for values to their client, and returns that
        client's values."""
        first, second, merged = self.first.data, self.second.data, self.merged.data
        for client, is_second in ((first, 0), (second, 1)):
            self._route(m, merged.gathered, client.gathered, is_second)
            self._route(m, merged.wanted, client.wanted, is_second)

        second_supplies = Signal()
        m.d.sync += second_supplies.eq(merged.wanted.payload.index[_SECOND_BIT])
        m.d.comb += merged.values.eq(Mux(second_supplies, second.values, first.values))
        m.d.comb += merged.flags.eq(Mux(second_supplies, second.flags, first.flags))
        m.d.comb += merged.conditions.eq(
            Mux(second_supplies, second.conditions, first.conditions))

    def _merge(self, m: Module, merger: StreamMerger, first: Any, second: Any, out: Any) -> None:
        """Two streams of operations to one, whose indexes identify the client."""
        connect(m, flipped(first), merger.sources[0])
        connect(m, flipped(second), merger.sources[1])
        index = merger.merged.payload.index[:_SECOND_BIT]
        m.d.comb += out.valid.eq(merger.merged.valid)
        m.d.comb += merger.merged.ready.eq(out.ready)
        m.d.comb += out.payload.eq(merger.merged.payload)
        m.d.comb += out.payload.index.eq(Cat(index, merger.second))

    def _route(self, m: Module, event: Any, client: Any, is_second: int) -> None:
        """A beat's data, or the request for them, to the client that its index names."""
        index = event.payload.index
        m.d.comb += client.valid.eq(event.valid & (index[_SECOND_BIT] == is_second))
        m.d.comb += client.payload.eq(event.payload)
        m.d.comb += client.payload.index.eq(index[:_SECOND_BIT])
