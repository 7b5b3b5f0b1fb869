"""CTA barriers: how many there are, and the state that B2R and R2B move."""

from amaranth.hdl import unsigned
from amaranth.lib import data

__all__ = ["BARRIERS", "SYNCALL_BARRIER", "BarrierState"]

BARRIERS = 16
"""Barriers of a CTA."""

SYNCALL_BARRIER = BARRIERS
"""Where BAR.SYNCALL meets: one more barrier, which no other instruction can name (ours)."""


class BarrierState(data.Struct):
    """A barrier, as it lies in a register (ours). Warps are counted, not threads."""

    arrived: unsigned(7)
    """Warps that have arrived."""
    expected: unsigned(7)
    """Warps that the last arrival asked for; 0: every live warp of the CTA."""
    population: unsigned(12)
    """Threads that arrived with the predicate of a reduction."""
    some_false: unsigned(1)
    """A thread arrived without it."""
    some_true: unsigned(1)
    """A thread arrived with it."""
