"""What threads have in single bits: predicates and CC."""

from amaranth.hdl import unsigned
from amaranth.lib import data

from rtl.isa.condition import Flags
from rtl.isa.syntax import PT
from rtl.params import WARP_THREADS

__all__ = ["ThreadFlags", "WarpFlags"]


class ThreadFlags(data.Struct):
    """All that a thread has in single bits."""

    predicates: unsigned(PT)
    """P0 to P6."""
    condition: Flags
    """CC."""


class WarpFlags(data.Struct):
    """The same of a warp's threads."""

    predicates: data.ArrayLayout(WARP_THREADS, PT)
    """The threads in which each of P0 to P6 is set."""
    conditions: data.ArrayLayout(Flags, WARP_THREADS)
    """CC of each thread."""
    live: unsigned(WARP_THREADS)
    """Where a thread is not live, its predicates and CC are 0, whatever the others say: who reads
    one of several masks applies this once."""
