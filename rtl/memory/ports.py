"""The memory unit's ports, which its forms have in common."""

from amaranth.lib import stream
from amaranth.lib.wiring import In, Member, Out

from rtl.layouts import (
    Event,
    ExecutionUnit,
    GridConfiguration,
    LaneClientPort,
    MemoryPort,
    shared_clear,
    warp_launch,
)
from rtl.params import SmParams

from .instruction import MemoryEvents, memory_tag_bits
from .limits import local_move

__all__ = ["unit_ports"]


def unit_ports(params: SmParams) -> dict[str, Member]:
    """The members of :class:`~rtl.memory.MemoryUnit`."""
    return {
        **ExecutionUnit(params).members,
        "port": Out(LaneClientPort(params)),
        "grid": In(GridConfiguration),
        "launch": In(Event(warp_launch(params))),
        "local_base": In(Event(local_move(params))),
        "clear": In(stream.Signature(shared_clear(params))),
        "memory": Out(MemoryPort(memory_tag_bits(params))),
        "events": Out(MemoryEvents),
    }
