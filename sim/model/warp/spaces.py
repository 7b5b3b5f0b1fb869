"""The address spaces of the 32 threads of a warp: global, local, shared, and the generic one of
all."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rtl.isa.errors import WarpError
from rtl.params import WARP_THREADS
from sim.launch import LOCAL_WINDOW, SHARED_WINDOW, WINDOW_BYTES
from sim.launch.memory import Memory, MemoryFaultError

from .faults import WarpFaultError
from .state import Warp

__all__ = ["Access", "Accesses", "PlacedAccess", "place", "place_generic"]

Addresses = NDArray[np.uint64]
"""One address for each of some threads."""
Octets = NDArray[np.uint8]
"""Bytes: a row for each of some threads."""

_NEAR = 1 << 13
"""Accesses of a warp within this many bytes are combined into one."""
_WORD = 4
_OFFSETS = {size: np.arange(size, dtype=np.uint64) for size in (1, 2, 4, 8, 16)}
"""By the size of an access: the offsets of its bytes."""


@dataclass(frozen=True)
class Access:
    """An access of some threads: their numbers, ascending, and the address of each one."""

    threads: NDArray[np.intp]
    addresses: Addresses
    size: int
    """Bytes that each thread accesses: 1, 2, 4, 8 or 16."""

    def subset(self, chosen: NDArray[np.bool_], base: int) -> "Access":
        """Some of the threads, with addresses counted from ``base``."""
        return Access(self.threads[chosen], self.addresses[chosen] - np.uint64(base), self.size)


class _LaneFaultError(Exception):
    """The first thread that can't make its access, and why."""

    def __init__(self, thread: int, address: int, error: WarpError) -> None:
        super().__init__(thread, error)
        self.thread = thread
        self.error = error
        self.detail = f"thread {thread}, address {address:#x}"


class PlacedAccess:
    """An access whose every address is good: it may be read and written without an error.

    ``space`` names it in records; ``places`` are the addresses of all its bytes, a row for each thread.
    """

    def __init__(
        self,
        space: str,
        access: Access,
        places: Addresses,
        load: Callable[[Addresses], Octets],
        store: Callable[[Addresses, Octets], None],
    ) -> None:
        self.space = space
        self.access = access
        self._places = places
        self._load = load
        self._store = store

    def load(self) -> Octets:
        """The bytes of every thread."""
        return self._load(self._places)

    def store(self, content: Octets) -> None:
        """Writes the bytes of every thread; where threads meet, the highest one's stay (ours)."""
        self._store(self._places, content)

    def single(self, row: int) -> "PlacedAccess":
        """The access of one of the threads alone, by its row."""
        part = Access(
            self.access.threads[row : row + 1],
            self.access.addresses[row : row + 1],
            self.access.size,
        )
        return PlacedAccess(self.space, part, self._places[row : row + 1], self._load, self._store)


Accesses = list[PlacedAccess]
"""An access through generic addresses falls apart into one for each space."""


def _bytes_of(access: Access) -> Addresses:
    """The addresses of all bytes of an access."""
    return access.addresses[:, None] + _OFFSETS[access.size]


def _bounds(places: Addresses) -> tuple[int, int]:
    lowest = int(places.min())
    return lowest, int(places.max()) - lowest + 1


def _near_block(memory: Memory, places: Addresses) -> tuple[int, bytes] | None:
    """The bytes around an access and where they start, if they are few and all mapped."""
    lowest, length = _bounds(places)
    if length <= _NEAR:
        try:
            return lowest, memory.read(lowest, length)
        except MemoryFaultError:
            pass  # an unmapped gap between the threads' addresses is no fault of theirs
    return None


def _runs(row: Addresses) -> list[tuple[int, int]]:
    """The pieces of consecutive bytes in one thread's access: address and length."""
    if int(row[-1] - row[0]) == len(row) - 1:
        return [(int(row[0]), len(row))]
    breaks = np.flatnonzero(np.diff(row) != 1) + 1
    return [(int(piece[0]), len(piece)) for piece in np.split(row, breaks)]


def _load_from(memory: Memory) -> Callable[[Addresses], Octets]:
    def load(places: Addresses) -> Octets:
        if (near := _near_block(memory, places)) is not None:
            return np.frombuffer(near[1], np.uint8)[(places - np.uint64(near[0])).view(np.intp)]
        rows = [memory.read(start, count) for row in places for start, count in _runs(row)]
        return np.frombuffer(b"".join(rows), np.uint8).reshape(places.shape)

    return load


def _store_to(memory: Memory) -> Callable[[Addresses, Octets], None]:
    def store(places: Addresses, content: Octets) -> None:
        if (near := _near_block(memory, places)) is not None:
            block = np.frombuffer(bytearray(near[1]), np.uint8)
            block[(places - np.uint64(near[0])).view(np.intp).ravel()] = content.ravel()
            memory.write(near[0], block.tobytes())
            return
        for row, octets in zip(places, content, strict=True):
            at = 0
            for start, count in _runs(row):
                memory.write(start, octets[at : at + count].tobytes())
                at += count

    return store


def _first(access: Access, failing: NDArray[np.bool_], error: WarpError) -> list[_LaneFaultError]:
    """The error of the first thread for which ``failing`` is set, if there is one."""
    if not failing.any():
        return []
    row = int(failing.argmax())
    return [_LaneFaultError(int(access.threads[row]), int(access.addresses[row]), error)]


def _check(access: Access, *failures: tuple[NDArray[np.bool_], WarpError]) -> None:
    """Raises the error of the first thread that has one; of several of its errors the one named first."""
    misaligned = (access.addresses % np.uint64(access.size) != 0, WarpError.MISALIGNED_ADDR)
    faults = [
        fault
        for failing, error in (misaligned, *failures)
        for fault in _first(access, failing, error)
    ]
    if faults:
        raise min(faults, key=lambda fault: fault.thread)


def _unmapped(memory: Memory, places: Addresses) -> NDArray[np.bool_]:
    """The threads whose bytes are not all mapped."""
    if _near_block(memory, places) is not None:
        return np.zeros(len(places), np.bool_)
    return np.array([not all(_is_mapped(memory, *run) for run in _runs(row)) for row in places])


def _is_mapped(memory: Memory, address: int, size: int) -> bool:
    try:
        memory.read(address, size)
    except MemoryFaultError:
        return False
    return True


def _in_memory(space: str, memory: Memory, access: Access, places: Addresses) -> PlacedAccess:
    """An access whose bytes are at ``places`` of global memory, if they are mapped."""
    _check(access, (_unmapped(memory, places), WarpError.MMU_FAULT))
    return PlacedAccess(space, access, places, _load_from(memory), _store_to(memory))


def _in_global(memory: Memory, access: Access) -> PlacedAccess:
    return _in_memory("global", memory, access, _bytes_of(access))


def _in_local(memory: Memory, warp: Warp, access: Access) -> PlacedAccess:
    """Word k of thread t is word 32 * k + t of the warp's block."""
    _check(
        access, (access.addresses + np.uint64(access.size) > warp.local_size, WarpError.OOR_ADDR)
    )
    own = _bytes_of(access)
    word, byte = own // np.uint64(_WORD), own % np.uint64(_WORD)
    word = word * np.uint64(WARP_THREADS) + access.threads[:, None].astype(np.uint64)
    return _in_memory(
        "local", memory, access, np.uint64(warp.local_base) + word * np.uint64(_WORD) + byte
    )


def _in_shared(warp: Warp, access: Access) -> PlacedAccess:
    shared = warp.cta.shared
    _check(access, (access.addresses + np.uint64(access.size) > len(shared), WarpError.OOR_ADDR))
    octets = np.frombuffer(shared, np.uint8)

    def store(places: Addresses, content: Octets) -> None:
        octets[places.view(np.intp).ravel()] = content.ravel()

    return PlacedAccess(
        "shared", access, _bytes_of(access), lambda places: octets[places.view(np.intp)], store
    )


def place(space: str, memory: Memory, warp: Warp, access: Access) -> Accesses:
    """An access to one space.

    Raises WarpFaultError for the first thread that can't make it: MISALIGNED_ADDR, OOR_ADDR behind the end of
    the thread's local or the CTA's shared memory, MMU_FAULT where no memory is mapped.
    """
    try:
        match space:
            case "local":
                return [_in_local(memory, warp, access)]
            case "shared":
                return [_in_shared(warp, access)]
            case _:
                return [_in_global(memory, access)]
    except _LaneFaultError as fault:
        raise WarpFaultError(fault.error, fault.detail) from fault


def _in_window(access: Access, window: int) -> NDArray[np.bool_]:
    return (access.addresses >= window) & (access.addresses < window + WINDOW_BYTES)


def place_generic(memory: Memory, warp: Warp, access: Access, *, windows: bool = True) -> Accesses:
    """An access through generic addresses: the windows of shared and local memory, and global memory around
    them. Without ``windows`` an address in one of them is an error: INVALID_ADDR_SPACE.
    """
    in_shared, in_local = _in_window(access, SHARED_WINDOW), _in_window(access, LOCAL_WINDOW)
    parts: list[tuple[NDArray[np.bool_], int, Callable[[Access], PlacedAccess]]] = [
        (~(in_shared | in_local), 0, lambda part: _in_global(memory, part)),
        (in_shared, SHARED_WINDOW, lambda part: _in_shared(warp, part)),
        (in_local, LOCAL_WINDOW, lambda part: _in_local(memory, warp, part)),
    ]
    result, faults = [], []
    if not windows:
        faults = _first(access, in_shared | in_local, WarpError.INVALID_ADDR_SPACE)
        parts = parts[:1]
    for chosen, base, into in parts:
        if chosen.any():
            try:
                result.append(into(access.subset(chosen, base)))
            except _LaneFaultError as fault:
                faults.append(fault)
    if faults:
        first = min(faults, key=lambda fault: fault.thread)
        raise WarpFaultError(first.error, first.detail)
    return result
