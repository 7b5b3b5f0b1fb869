"""The conversion unit's ports, which its forms have in common."""

from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Member, Out

from rtl.layouts import (
    LaneClientPort,
    completion,
    dispatched,
    error_event,
    indexed_request,
    indexed_response,
)
from rtl.params import SmParams

__all__ = ["unit_ports"]


def unit_ports(params: SmParams) -> dict[str, Member]:
    """The members of :class:`~rtl.convert.ConversionUnit`."""
    return {
        "dispatch": In(data.StructLayout({"valid": 1, "payload": dispatched(params)})),
        "room": Out(1),
        "port": Out(LaneClientPort(params)),
        "completion": Out(completion(params)),
        "error": Out(error_event(params)),
        "report_mask": In(32),
        "indexed": Out(stream.Signature(indexed_request())),
        "value": In(stream.Signature(indexed_response())),
    }
