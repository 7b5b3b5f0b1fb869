"""The flow unit: control flow as the threads see it, and what the trap unit makes warps do."""

from amaranth.lib import wiring

from rtl.params import SmParams

from .decode import FlowDecoder, FlowQueue
from .serial import SerialFlowUnit
from .unit import FlowUnit

__all__ = ["FlowDecoder", "FlowQueue", "FlowUnit", "SerialFlowUnit", "flow_unit"]


def flow_unit(params: SmParams) -> wiring.Component:
    """The flow unit of a machine with these parameters."""
    return SerialFlowUnit(params) if params.serial else FlowUnit(params)
