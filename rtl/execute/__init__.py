"""Registers, predicates and lanes, and the dispatch of instructions to other units."""

from .indexed import IndexedTargets
from .unit import ExecuteUnit

__all__ = ["ExecuteUnit", "IndexedTargets"]
