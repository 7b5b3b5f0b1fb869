"""The flow unit: control flow as the threads see it."""

from .decode import FlowDecoder
from .indexed import IndexedTargets
from .queue import FlowQueue
from .unit import FlowUnit

__all__ = ["FlowDecoder", "FlowQueue", "FlowUnit", "IndexedTargets"]
