"""Fits a launch into the memory of a board, which is small compared to that of a simulation."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from rtl.fpga.machine import MEMORY_BASE
from rtl.isa.tokens import CRS_GRANULE
from rtl.params import WARP_THREADS
from sim.launch import (
    BANK_ALIGNMENT,
    CRS_DEFAULT,
    LOCAL_DEFAULT,
    LOCAL_GRANULE,
    LOCAL_MEMORY,
    PROGRAM_BASE,
    Launch,
)
from sim.launch.descriptor import place_descriptor
from sim.launch.memory import Memory, OutOfMemoryError
from sim.support.alignment import round_up
from sim.toolchain.module import EntryPoint

from .errors import BoardError

__all__ = ["LaunchPlacer", "fit", "launch_with_stacks", "share", "stack_sizes"]

_SHARE = 16
"""A kernel's output and its heap each get at most this fraction (1/n) of a board's memory by
default.
"""
T = TypeVar("T", covariant=True)
assert PROGRAM_BASE == MEMORY_BASE, "programs start at the beginning of a board's memory"


class LaunchPlacer(Protocol[T]):
    """Places a launch in an empty memory.

    Args:
        local: Bytes of local memory of a thread; None: the default.
        crs: Bytes of stack of a warp; None: the default.
        memory: The memory.

    Returns:
        The launch, and any data that belongs to it.
    """

    def __call__(self, local: int | None, crs: int | None, memory: Memory) -> tuple[Launch, T]:
        """Places the launch."""
        ...


def _round_down(value: int, granule: int) -> int:
    return max(value, 0) // granule * granule


def fit(
    placer: LaunchPlacer[T], size: int, slots: int, local: int | None = None, crs: int | None = None
) -> T:
    """Returns the second result of ``placer`` for a launch that fits into ``size`` bytes, with local
    memory for ``slots`` warps.

    A size that is not given (``local``, ``crs``) is the default or, where there is no room for
    that, the largest that fits. Raises BoardError if not even the program's minimum fits.
    """
    trial, _ = placer(local, crs, Memory())
    below = max(
        base + length for base, length in trial.memory.regions.values() if base < MEMORY_BASE + size
    )
    least_local = round_up(trial.kernel.local, LOCAL_GRANULE) if local is None else local
    least_crs = round_up(max(trial.kernel.crs, CRS_GRANULE), CRS_GRANULE) if crs is None else crs

    def placed(local: int, crs: int) -> tuple[Launch, T]:
        return placer(local, crs, Memory(round_up(below, BANK_ALIGNMENT), gap=0))

    launch, _ = placed(least_local, least_crs)
    memory = launch.memory.copy()
    launch.allocate_local(slots, memory)
    place_descriptor(launch, memory)
    spare = MEMORY_BASE + size - memory.end
    if spare < 0:
        raise BoardError(
            f"the launch needs {size - spare:,} bytes of memory, the board has {size:,}"
        )
    return placed(
        *stack_sizes(
            spare,
            slots,
            least_local,
            least_crs,
            LOCAL_DEFAULT if local is None else least_local,
            CRS_DEFAULT if crs is None else least_crs,
        )
    )[1]


def stack_sizes(
    spare: int, slots: int, local: int, crs: int, most_local: int, most_crs: int
) -> tuple[int, int]:
    """Returns local memory of a thread and stack of a warp in bytes: from ``local`` and ``crs`` on,
    the largest that fit into ``spare`` more bytes for ``slots`` warps.
    """
    each = _round_down(spare // slots - CRS_GRANULE, CRS_GRANULE)
    more = min(max(most_crs - crs, 0), _round_down(each // 2, CRS_GRANULE))
    return local + min(
        max(most_local - local, 0), _round_down((each - more) // WARP_THREADS, LOCAL_GRANULE)
    ), crs + more


def launch_with_stacks(
    make: Callable[[int, int], Launch], slots: int, local: int, kernel: EntryPoint
) -> Launch:
    """Returns the launch that ``make`` makes for bytes of local memory of a thread and of stack of
    a warp.

    These are ``local`` and the default, or what fits into the memory beside the launch's
    descriptor. Raises OutOfMemoryError if not even the kernel's minimum fits.
    """
    least_local = round_up(kernel.local, LOCAL_GRANULE)
    least_crs = round_up(max(kernel.crs, CRS_GRANULE), CRS_GRANULE)
    launch = make(least_local, least_crs)
    memory = launch.memory
    before = set(memory.regions)
    try:
        place_descriptor(launch, memory)
        room = memory.room(CRS_GRANULE)
    finally:
        memory.free_new(before)
    spare = room - slots * launch.warp_block
    if spare < 0:
        raise OutOfMemoryError(f"{LOCAL_MEMORY}: no room for {slots * launch.warp_block} bytes")
    return make(*stack_sizes(spare, slots, least_local, least_crs, local, CRS_DEFAULT))


def share(default: int, size: int) -> int:
    """Returns the size in bytes of kernel output or heap in a memory of ``size`` bytes: the
    default, or its share of the memory.
    """
    return min(default, size // _SHARE)
