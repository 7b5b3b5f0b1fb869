"""The units' access to the lanes, seen from them."""

from amaranth.lib import wiring

from rtl.layouts import GATHERING, LaneClient, LaneClientPort, LaneWriterPort
from rtl.params import SmParams

__all__ = ["SUPPLYING", "lane_data_port"]

SUPPLYING = (LaneClient.MEMORY, LaneClient.CONVERSION, LaneClient.BARRIER)
"""Those with data for each thread. The flow unit's value is the same for all threads."""


def lane_data_port(client: LaneClient, params: SmParams) -> wiring.Signature:
    """A unit's port from the other side, without its operations, which issue accepts."""
    port = LaneClientPort(params) if client in GATHERING else LaneWriterPort(params)
    return wiring.Signature({
        name: member.flip() for name, member in port.members.items()
        if name not in ("gather", "write")})
