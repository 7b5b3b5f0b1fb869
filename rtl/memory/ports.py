"""The memory unit's ports, which its forms have in common."""

from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Member, Out

from rtl.layouts import (
    GridConfiguration,
    LaneClientPort,
    MemoryPort,
    completion,
    dispatched,
    error_event,
    warp_launch,
)
from rtl.params import SmParams

from .banks import clear_request
from .instruction import MemoryEvents, memory_tag_bits
from .limits import REPORT_BITS, local_move

__all__ = ["unit_ports"]


def unit_ports(params: SmParams) -> dict[str, Member]:
    """The members of :class:`~rtl.memory.MemoryUnit`."""
    return {
        "dispatch": In(data.StructLayout({"valid": 1, "payload": dispatched(params)})),
        "room": Out(1),
        "port": Out(LaneClientPort(params)),
        "completion": Out(completion(params)),
        "error": Out(error_event(params)),
        "report_mask": In(REPORT_BITS),
        "grid": In(GridConfiguration),
        "launch": In(data.StructLayout({"valid": 1, "payload": warp_launch(params)})),
        "local_base": In(local_move(params)),
        "clear": In(stream.Signature(clear_request(params))),
        "memory": Out(MemoryPort(memory_tag_bits(params))),
        "events": Out(MemoryEvents),
    }
