"""Predicates and CC, of a thread and of a warp."""

from amaranth.hdl import unsigned
from amaranth.lib import data

from rtl.isa.condition import Flags
from rtl.isa.syntax import PT
from rtl.params import WARP_THREADS

__all__ = ["ThreadFlags", "WarpFlags"]


class ThreadFlags(data.Struct):
    """Predicates and CC of a thread."""

    predicates: unsigned(PT)
    """P0 to P6."""
    condition: Flags
    """CC."""


class WarpFlags(data.Struct):
    """Predicates and CC of a warp's threads."""

    predicates: data.ArrayLayout(WARP_THREADS, PT)
    """The threads in which each of P0 to P6 is set."""
    conditions: data.ArrayLayout(Flags, WARP_THREADS)
    """CC of each thread."""
    live: unsigned(WARP_THREADS)
    """Predicates and CC of a thread that is not live count as 0: the reader has to apply this mask
    to the others. A thread is live if its beat has been written since the warp's launch."""
