"""The address spaces of the 32 threads of a warp: global, local, shared, and the generic one of
all."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtl.isa.errors import WarpError
from rtl.params import WARP_THREADS
from sim.launch import LOCAL_WINDOW, SHARED_WINDOW, WINDOW_BYTES
from sim.launch.memory import Memory

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
_ELEMENTS = {1: "u1", 2: "<u2", 4: "<u4", 8: "<u8", 16: "V16"}
"""By its bytes: the type of an element, which is read and written as a whole."""
_SHIFTS = {width: np.uint64(width.bit_length() - 1) for width in _ELEMENTS}
"""By its bytes: from an element's address to its number."""


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
        self.address = address
        self.error = error

    def of(self, warp: Warp) -> WarpFaultError:
        """The fault of the warp, with the block and the thread in it, as CUDA numbers them."""
        x, y, z = (int(index[self.thread]) for index in warp.thread_index)
        block = ",".join(map(str, warp.cta.index))
        detail = f"block [{block}], thread [{x},{y},{z}], address {self.address:#x}"
        return WarpFaultError(self.error, detail)


class PlacedAccess:
    """An access whose every address is good: it may be read and written without an error.

    ``space`` names it in records; ``places`` are the addresses of its elements, a row for each thread: an access is one
    element, but in local memory, whose words are interleaved, as many as it has words.
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


def _elements(block: bytes | bytearray | memoryview, width: int) -> NDArray[Any]:
    """Bytes as elements of ``width`` bytes; what is left behind the last whole one does not count."""
    return np.frombuffer(block, _ELEMENTS[width], count=len(block) // width)


def _numbers(places: Addresses, start: int, width: int) -> NDArray[np.intp]:
    """The numbers of elements at ``places``, counted from ``start``, one of which each is a whole number away."""
    return ((places - np.uint64(start)) >> _SHIFTS[width]).view(np.intp)


def _near_block(places: Addresses, width: int) -> tuple[int, int] | None:
    """First address and length of the bytes around some elements, if they are few."""
    lowest = int(np.minimum.reduce(places, axis=None))
    length = int(np.maximum.reduce(places, axis=None)) - lowest + width
    return (lowest, length) if length <= _NEAR else None


def _load_from(memory: Memory, width: int) -> Callable[[Addresses], Octets]:
    def load(places: Addresses) -> Octets:
        near = _near_block(places, width)
        if near is not None and memory.is_mapped(*near):
            found = _elements(memory.read(*near), width)[_numbers(places, near[0], width)]
            return found.view(np.uint8)
        content = b"".join(memory.read(place, width) for place in places.ravel().tolist())
        return np.frombuffer(content, np.uint8).reshape(len(places), -1)

    return load


def _store_to(memory: Memory, width: int) -> Callable[[Addresses, Octets], None]:
    def store(places: Addresses, content: Octets) -> None:
        near = _near_block(places, width)
        if near is not None and memory.is_mapped(*near):
            block = bytearray(memory.read(*near))
            _put(block, width, _numbers(places, near[0], width), content)
            memory.write(near[0], block)
            return
        for place, octets in zip(places.ravel().tolist(), content.reshape(-1, width), strict=True):
            memory.write(place, octets.tobytes())

    return store


def _put(
    block: bytearray | memoryview, width: int, numbers: NDArray[np.intp], content: Octets
) -> None:
    """Writes elements into a block; of several with one number the last one stays."""
    elements = np.ascontiguousarray(content).view(_ELEMENTS[width])
    _elements(block, width)[numbers.ravel()] = elements.ravel()


def _first(access: Access, failing: NDArray[np.bool_], error: WarpError) -> list[_LaneFaultError]:
    """The error of the first thread for which ``failing`` is set, if there is one."""
    if not np.count_nonzero(failing):
        return []
    row = int(failing.argmax())
    return [_LaneFaultError(int(access.threads[row]), int(access.addresses[row]), error)]


def _check(access: Access, *failures: tuple[NDArray[np.bool_], WarpError]) -> None:
    """Raises the error of the first thread that has one; of several of its errors the one named first."""
    misaligned = (
        (access.addresses & np.uint64(access.size - 1)) != 0,
        WarpError.MISALIGNED_ADDR,
    )
    faults = [
        fault
        for failing, error in (misaligned, *failures)
        for fault in _first(access, failing, error)
    ]
    if faults:
        raise min(faults, key=lambda fault: fault.thread)


def _unmapped(memory: Memory, places: Addresses, width: int) -> NDArray[np.bool_]:
    """The threads whose elements are not all mapped."""
    is_mapped = [all(memory.is_mapped(place, width) for place in row) for row in places.tolist()]
    return ~np.array(is_mapped)


def _in_memory(
    space: str, memory: Memory, access: Access, places: Addresses, width: int
) -> PlacedAccess:
    """An access whose elements are at ``places`` of global memory, if they are mapped."""
    near = _near_block(places, width)
    if near is not None and memory.is_mapped(*near):
        _check(access)
    else:
        _check(access, (_unmapped(memory, places, width), WarpError.MMU_FAULT))
    return PlacedAccess(space, access, places, _load_from(memory, width), _store_to(memory, width))


def _in_global(memory: Memory, access: Access) -> PlacedAccess:
    return _in_memory("global", memory, access, access.addresses[:, None], access.size)


def _in_local(memory: Memory, warp: Warp, access: Access) -> PlacedAccess:
    """Word k of thread t is word 32 * k + t of the warp's block."""
    _check(access, _beyond(access, warp.local_size))
    word = np.uint64(_WORD)
    words = np.arange(max(1, access.size // _WORD), dtype=np.uint64)
    numbers = (access.addresses // word)[:, None] + words
    rows = numbers * np.uint64(WARP_THREADS) + access.threads[:, None].astype(np.uint64)
    places = np.uint64(warp.local_base) + rows * word + (access.addresses % word)[:, None]
    return _in_memory("local", memory, access, places, min(access.size, _WORD))


def _beyond(access: Access, end: int) -> tuple[NDArray[np.bool_], WarpError]:
    """The threads whose access goes beyond the end of their memory."""
    return access.addresses + np.uint64(access.size) > end, WarpError.OOR_ADDR


def _in_shared(warp: Warp, access: Access) -> PlacedAccess:
    shared, width = warp.cta.shared, access.size
    _check(access, _beyond(access, len(shared)))

    def load(places: Addresses) -> Octets:
        return _elements(shared, width)[_numbers(places, 0, width)].view(np.uint8)

    def store(places: Addresses, content: Octets) -> None:
        _put(shared, width, _numbers(places, 0, width), content)

    return PlacedAccess("shared", access, access.addresses[:, None], load, store)


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
        raise fault.of(warp) from fault


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
        raise min(faults, key=lambda fault: fault.thread).of(warp)
    return result
