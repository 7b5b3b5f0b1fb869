"""The units' access to the lanes, seen from them."""

from amaranth.lib import wiring

from rtl.layouts import LaneClientPort
from rtl.params import SmParams

__all__ = ["LaneDataPort"]


class LaneDataPort(wiring.Signature):
    """A :class:`~rtl.layouts.LaneClientPort` from the other side, without its operations, which issue takes."""

    def __init__(self, params: SmParams) -> None:
        members = LaneClientPort(params).members
        super().__init__({name: member.flip() for name, member in members.items() if name != "operation"})
