"""The lanes and the registers, and what leaves them for other units."""

from .indexed import IndexedTargets
from .unit import ExecuteUnit

__all__ = ["ExecuteUnit", "IndexedTargets"]
