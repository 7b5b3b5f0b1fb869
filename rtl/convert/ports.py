"""The ports of a conversion unit, pipelined or serial."""

from amaranth.lib import stream
from amaranth.lib.wiring import In, Member, Out

from rtl.layouts import (
    ExecutionUnit,
    LaneClientPort,
    indexed_request,
    indexed_response,
)
from rtl.params import SmParams

__all__ = ["unit_ports"]


def unit_ports(params: SmParams) -> dict[str, Member]:
    """The members of :class:`~rtl.convert.ConversionUnit`."""
    return {
        **ExecutionUnit(params).members,
        "port": Out(LaneClientPort(params)),
        "indexed": Out(stream.Signature(indexed_request())),
        "value": In(stream.Signature(indexed_response())),
    }
