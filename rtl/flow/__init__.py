"""The flow unit: control flow as the threads see it, and what the trap unit makes warps do."""

from .decode import FlowDecoder, FlowQueue
from .unit import FlowUnit

__all__ = ["FlowDecoder", "FlowQueue", "FlowUnit"]
