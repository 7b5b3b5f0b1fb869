"""Attributes for synthesis: wires that it keeps, memories that are in block RAM."""

from typing import Any

__all__ = ["IN_BLOCKS", "KEEP", "ONE_HOT", "SWEPT", "for_depth"]

KEEP = {"keep": 1}
"""Attributes of a wire across which synthesis does not rearrange logic: logic that is described in
few levels keeps them."""

IN_BLOCKS: dict[str, Any] = {"ram_style": "block", "no_rw_check": 1}
"""Attributes of a memory in block RAM. A word that is read in the cycle of a write to it has no
meaning."""
SWEPT: dict[str, Any] = {"swept": 1}
"""Attribute of a memory that gets its first content after a reset, see :mod:`rtl.sweep`. Without
meaning for synthesis."""
ONE_HOT = {"fsm_encoding": "one-hot"}
"""Attributes of the state of a state machine that has a flip-flop for each state, so that none is
decoded."""
_IN_REGISTERS = 2
"""Words of a memory, at most, for which registers and a multiplexer are smaller than a memory in
LUTs: that takes six LUTs for four bits."""


def for_depth(depth: int, **attributes: Any) -> dict[str, Any]:
    """Attributes of a memory that is not in block RAM: ``attributes``, but registers where it has
    very few words."""
    if depth <= _IN_REGISTERS:
        return attributes | {"ram_style": "logic"}
    return attributes
