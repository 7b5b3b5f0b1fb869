"""A kernel's limits on a machine: the most threads of a block, blocks at a time."""

from math import prod

from rtl.launch.plan import ROW_GRANULE, SHARED_GRANULE
from rtl.params import WARP_THREADS, SmParams
from sim.support.alignment import round_up
from sim.toolchain.module import EntryPoint

__all__ = ["MOST_THREADS", "blocks_at_a_time", "most_threads"]

MOST_THREADS = 1024
"""Threads of a block, at most, on sm_50."""


def _rows(kernel: EntryPoint) -> int:
    """Rows of the register file that a warp takes."""
    return round_up(max(kernel.registers, 1), ROW_GRANULE)


def most_threads(kernel: EntryPoint, params: SmParams) -> int:
    """The most threads that a block of the kernel can have on a machine: whole warps, as many as there are slots and
    registers for, but no more than the kernel's launch bounds allow."""
    warps = min(params.warps, params.registers // _rows(kernel))
    bounds = [
        prod(sizes) for sizes in (kernel.bounds.largest, kernel.bounds.exact) if sizes is not None
    ]
    return min(MOST_THREADS, warps * WARP_THREADS, *bounds)


def blocks_at_a_time(
    kernel: EntryPoint, params: SmParams, threads: int, dynamic_shared: int = 0
) -> int:
    """How many blocks of so many threads the machine holds at a time: as many as there are warps, registers and shared
    memory for."""
    warps = -(-threads // WARP_THREADS)
    shared = round_up(kernel.shared + dynamic_shared, SHARED_GRANULE)
    limits = [params.warps // warps, params.registers // (_rows(kernel) * warps)]
    if shared:
        limits.append(params.shared_bytes // shared)
    return max(min(limits), 0)
