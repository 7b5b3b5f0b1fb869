"""A kernel's limits on a machine: threads of a block, and blocks that run at a time."""

from math import prod

from rtl.launch.plan import ROW_GRANULE, SHARED_GRANULE
from rtl.params import WARP_THREADS, SmParams
from sim.support.alignment import round_up
from sim.toolchain.module import EntryPoint

__all__ = ["MOST_THREADS", "blocks_at_a_time", "most_threads"]

MOST_THREADS = 1024
"""The most threads of a block on sm_50."""


def _rows(kernel: EntryPoint) -> int:
    """Returns the rows of the register file that a warp occupies."""
    return round_up(max(kernel.registers, 1), ROW_GRANULE)


def most_threads(kernel: EntryPoint, params: SmParams) -> int:
    """Returns the most threads that a block of the kernel can have on a machine.

    They are whole warps, limited by warp slots, registers and the kernel's launch bounds.
    """
    warps = min(params.warps, params.registers // _rows(kernel))
    bounds = [
        prod(sizes) for sizes in (kernel.bounds.largest, kernel.bounds.exact) if sizes is not None
    ]
    return min(MOST_THREADS, warps * WARP_THREADS, *bounds)


def blocks_at_a_time(
    kernel: EntryPoint, params: SmParams, threads: int, dynamic_shared: int = 0
) -> int:
    """Returns the number of blocks of this many threads that the machine holds at a time, limited
    by warp slots, registers and shared memory.
    """
    warps = -(-threads // WARP_THREADS)
    shared = round_up(kernel.shared + dynamic_shared, SHARED_GRANULE)
    limits = [params.warps // warps, params.registers // (_rows(kernel) * warps)]
    if shared:
        limits.append(params.shared_bytes // shared)
    return max(min(limits), 0)
