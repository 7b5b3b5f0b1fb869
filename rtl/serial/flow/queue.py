"""The instruction that waits for the flow unit of a serial machine."""

from typing import Any

from amaranth.hdl import Module

from rtl.flow import FlowQueue

__all__ = ["SerialFlowQueue"]


class SerialFlowQueue(FlowQueue):
    """One register: there is one instruction."""

    trusting = True
    places = 1

    def inject(self, m: Module, decoded: Any) -> None:
        """Nothing is overridden for what the trap unit makes a warp do: the unit ignores its guard
        and fault, and has the pc."""
