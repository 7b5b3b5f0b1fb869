"""What synthesis is told: wires that it keeps, memories that lie in block RAM."""

from typing import Any

__all__ = ["IN_BLOCKS", "KEEP"]

KEEP = {"keep": 1}
"""Attributes of a wire across which synthesis does not rearrange logic: the few levels that were meant stay few."""

IN_BLOCKS: dict[str, Any] = {"ram_style": "block", "no_rw_check": 1}
"""Attributes of a memory in block RAM whose word counts for nothing when it is read in the cycle of a write to it."""
