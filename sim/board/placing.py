"""Fits a launch into the memory of a board, which is small beside that of a simulation."""

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
"""The part of a board's memory that a kernel's output and its heap get by default, at most."""
T = TypeVar("T", covariant=True)
assert PROGRAM_BASE == MEMORY_BASE, "programs start at the beginning of a board's memory"


class LaunchPlacer(Protocol[T]):
    """Places a launch in an empty memory, with so many bytes of local memory a thread and of stack
    a warp; returns it, and what belongs to it. None: the defaults.
    """

    def __call__(self, local: int | None, crs: int | None, memory: Memory) -> tuple[Launch, T]:
        """Places it."""
        ...


def _round_down(value: int, granule: int) -> int:
    return max(value, 0) // granule * granule


def fit(
    placer: LaunchPlacer[T], size: int, slots: int, local: int | None = None, crs: int | None = None
) -> T:
    """What ``placer`` returns for a launch that fits into ``size`` bytes with local memory for so many warp slots.

    A size that is not given (``local``, ``crs``) is the default or, where there is no room for
    that, the largest that fits. BoardError when there is none for what the program needs.
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
    """Local memory of a thread and stack of a warp, from ``local`` and ``crs`` on up to the most
    that fits into ``spare`` more bytes for so many warp slots.
    """
    each = _round_down(spare // slots - CRS_GRANULE, CRS_GRANULE)
    more = min(max(most_crs - crs, 0), _round_down(each // 2, CRS_GRANULE))
    return local + min(
        max(most_local - local, 0), _round_down((each - more) // WARP_THREADS, LOCAL_GRANULE)
    ), crs + more


def launch_with_stacks(
    make: Callable[[int, int], Launch], slots: int, local: int, kernel: EntryPoint
) -> Launch:
    """The launch that ``make`` makes in a memory for bytes of local memory a thread and of stack a warp: ``local`` and
    the default, or what the memory has room for beside the launch's descriptor. OutOfMemoryError where there is not
    even room for what the kernel needs.
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
    """Bytes that kernels get for what they print, or allocate, in a memory of ``size`` bytes."""
    return min(default, size // _SHARE)
