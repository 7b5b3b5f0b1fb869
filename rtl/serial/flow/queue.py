"""The flow unit's queue of the serial machine: one place."""

from typing import Any

from amaranth.hdl import Module

from rtl.flow import FlowQueue

__all__ = ["SerialFlowQueue"]


class SerialFlowQueue(FlowQueue):
    """A FlowQueue of one place, since one instruction is in flight."""

    trusting = True
    places = 1

    def inject(self, m: Module, decoded: Any) -> None:
        """Overrides no field of a trap move: SerialFlowUnit ignores the guard and fault of a trap
        move, and uses the request's pc in place of the operand."""
