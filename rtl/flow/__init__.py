"""The flow unit: executes branches, calls, returns and exits, and the trap unit's operations."""

from .decode import FlowDecoder, FlowQueue
from .unit import FlowUnit

__all__ = ["FlowDecoder", "FlowQueue", "FlowUnit"]
