"""The memory unit: loads, stores, atomic operations and shuffles."""

from .coalescer import MEMORY_UNIT_TAG_BITS
from .decode import MEMORY_FORMS, MemoryDecoder
from .unit import MemoryUnit

__all__ = ["MEMORY_FORMS", "MEMORY_UNIT_TAG_BITS", "MemoryDecoder", "MemoryUnit"]
