"""What programs read of traps: reasons of BPT.TRAP, and the words of SR64 and SR66 (bit positions
ours)."""

from amaranth.hdl import unsigned
from amaranth.lib import data

from .errors import WarpError

__all__ = ["STOP_AT", "TRAP_REASONS", "WarpStatus"]

TRAP_REASONS = range(1, 8)
"""What BPT.TRAP can give as its reason; anything else is ILLEGAL_INSTR_PARAM. The last cannot be
masked."""
STOP_AT = 9
"""Where SR64 has the stop trigger. Its lower bits are for all warps."""


class WarpStatus(data.Struct):
    """What S2R reads of a warp (SR66): why it traps."""

    failed: unsigned(1)
    """It had an error that is reported."""
    reasons: unsigned(len(TRAP_REASONS))
    """Of BPT.TRAP."""
    stepped: unsigned(1)
    """It has executed the one instruction of a single step."""
    reserved: unsigned(7)
    error: WarpError
    """The first."""
    unused: unsigned(8)


assert WarpStatus.as_shape().size == 32
