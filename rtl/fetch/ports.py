"""The ports of the fetch unit."""

from amaranth.lib import stream
from amaranth.lib.wiring import In, Member, Out

from rtl.layouts import (
    Event,
    GridConfiguration,
    MemoryPort,
    fetched_group,
    indexed_request,
    indexed_response,
    redirect,
)
from rtl.params import SmParams

from .records import TAG_BITS

__all__ = ["unit_ports"]


def unit_ports(params: SmParams) -> dict[str, Member]:
    """The members of :class:`~rtl.fetch.FetchUnit`."""
    return {
        "grid": In(GridConfiguration),
        "redirect": In(Event(redirect(params))),
        "room": In(params.warps),
        "claimed": Out(Event(params.warp_bits)),
        "group": Out(Event(fetched_group(params))),
        "indexed": In(stream.Signature(indexed_request())),
        "value": Out(stream.Signature(indexed_response())),
        "invalidate": In(1),
        "busy": Out(1),
        "memory": Out(MemoryPort(TAG_BITS)),
    }
