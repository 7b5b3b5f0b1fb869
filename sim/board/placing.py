"""Fits a launch into the memory of a board, which is small beside that of a simulation."""

from typing import Protocol, TypeVar

from rtl.fpga.machine import MEMORY_BASE
from rtl.isa.tokens import CRS_GRANULE
from rtl.params import WARP_THREADS
from sim.launch import BANK_ALIGNMENT, CRS_DEFAULT, LOCAL_DEFAULT, LOCAL_GRANULE, PROGRAM_BASE, Launch
from sim.launch.descriptor import place_descriptor
from sim.launch.memory import Memory

from .errors import BoardError

__all__ = ["Place", "fit"]

T = TypeVar("T", covariant=True)
assert PROGRAM_BASE == MEMORY_BASE, "programs lie at the beginning of a board's memory"


class Place(Protocol[T]):
    """Places a launch in an empty memory, with so many bytes of local memory a thread and of stack a warp; returns it,
    and whatever belongs to it. None: the defaults.
    """

    def __call__(self, local: int | None, crs: int | None, memory: Memory) -> tuple[Launch, T]:
        """Places it."""
        ...


def _down(value: int, granule: int) -> int:
    return max(value, 0) // granule * granule


def _up(value: int, granule: int) -> int:
    return -(-value // granule) * granule


def fit(place: Place[T], size: int, slots: int, local: int | None = None, crs: int | None = None) -> T:
    """What ``place`` returns for a launch that fits into ``size`` bytes with local memory for so many warp slots.

    A size that is not given (``local``, ``crs``) is the default or, where there is no room for that, what there is room
    for. BoardError when there is none for what the program needs.
    """
    trial, _ = place(local, crs, Memory())
    below = max(base + length for base, length in trial.memory.regions.values() if base < MEMORY_BASE + size)
    least_local = _up(trial.kernel.local, LOCAL_GRANULE) if local is None else local
    least_crs = _up(max(trial.kernel.crs, CRS_GRANULE), CRS_GRANULE) if crs is None else crs

    def placed(local: int, crs: int) -> tuple[Launch, T]:
        return place(local, crs, Memory(_up(below, BANK_ALIGNMENT), gap=0))

    launch, _ = placed(least_local, least_crs)
    memory = launch.memory.copy()
    launch.allocate_local(slots, memory)
    place_descriptor(launch, memory)
    spare = MEMORY_BASE + size - memory.end
    if spare < 0:
        raise BoardError(f"the launch needs {size - spare:,} bytes of memory, the board has {size:,}")
    each = _down(spare // slots - CRS_GRANULE, CRS_GRANULE)
    if crs is None:
        least_crs += (more := min(max(CRS_DEFAULT - least_crs, 0), _down(each // 2, CRS_GRANULE)))
        each -= more
    if local is None:
        least_local += min(max(LOCAL_DEFAULT - least_local, 0), _down(each // WARP_THREADS, LOCAL_GRANULE))
    return placed(least_local, least_crs)[1]
