"""The flow unit: control flow as the threads see it."""

from .decode import FlowDecoder
from .unit import FlowUnit

__all__ = ["FlowDecoder", "FlowUnit"]
