"""Errors of instructions: their sources, and the mask of those that are reported."""

from typing import Any

from amaranth.hdl import Value
from amaranth.lib import enum

from rtl.isa.errors import WarpError

__all__ = ["ERROR_SOURCES", "REPORT_BITS", "Origin", "reported"]

REPORT_BITS = 32
"""Width of the report mask: bit n enables code n."""
_CODE_BITS = (REPORT_BITS - 1).bit_length()
assert all(error.value < REPORT_BITS for error in WarpError)


class Origin(enum.Enum, shape=2):
    """Where a warp that enters the trap after an error comes back to."""

    NEXT = 0
    """Its next instruction."""
    LAST = 1
    """The instruction that it issued last: it failed, and nothing has issued behind it."""
    FLOW = 2
    """A flow instruction that failed. A push may have been overtaken by the warp's later
    instructions, but for those that can fail: issue holds them until its result is known."""
    MEMORY = 3
    """A memory instruction that failed; it may have been overtaken by whatever (ours)."""


ERROR_SOURCES = {
    "lanes": Origin.LAST,
    "flow": Origin.FLOW,
    "memory": Origin.MEMORY,
    "conversion": Origin.LAST,
    "barrier": Origin.LAST,
    "trap": Origin.LAST,
    "stack": Origin.NEXT,
}
"""Sources of errors, in the order in which one is selected of several in a cycle. The stack: a line
that memory did not take, of no instruction; the pc is 0 (ours)."""


def reported(mask: Any, error: Any) -> Value:
    """Whether this is an error that the report mask lets through."""
    code = Value.cast(error)
    return code.any() & mask.bit_select(code[:_CODE_BITS], 1)
