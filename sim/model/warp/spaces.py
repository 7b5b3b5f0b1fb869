"""The address spaces of the 32 threads of a warp: global, local and shared, and the generic space
over them.
"""

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

__all__ = ["Access", "Accesses", "PlacedAccess", "place_access", "place_generic"]

Addresses = NDArray[np.uint64]
"""One address for each of some threads."""
Octets = NDArray[np.uint8]
"""Bytes: one row for each of some threads."""

_NEAR = 1 << 13
"""Accesses of a warp within this many bytes are combined into one."""
_WORD = 4
_ELEMENTS = {1: "u1", 2: "<u2", 4: "<u4", 8: "<u8", 16: "V16"}
"""The type of an element by its size in bytes; an element is read and written as a whole."""
_SHIFTS = {width: np.uint64(width.bit_length() - 1) for width in _ELEMENTS}
"""The shift from an element's address to its index, by its size in bytes."""


@dataclass(frozen=True)
class Access:
    """An access of some threads: their numbers, ascending, and the address of each."""

    threads: NDArray[np.intp]
    addresses: Addresses
    size: int
    """Size of each thread's access in bytes: 1, 2, 4, 8 or 16."""

    def subset(self, chosen: NDArray[np.bool_], base: int) -> "Access":
        """Returns the access of the chosen threads, with addresses relative to ``base``."""
        return Access(self.threads[chosen], self.addresses[chosen] - np.uint64(base), self.size)


class _LaneFaultError(Exception):
    """The first thread that cannot make its access, and the error."""

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
    """An access whose addresses are checked: it can be read and written without an error.

    Parameters:
        space: Name of the space in records.
        addresses: Addresses of the access's elements, one row for each thread. An access is one
            element, except in local memory, whose words are interleaved: there each word is one.
    """

    def __init__(
        self,
        space: str,
        access: Access,
        addresses: Addresses,
        load: Callable[[Addresses], Octets],
        store: Callable[[Addresses, Octets], None],
    ) -> None:
        self.space = space
        self.access = access
        self._addresses = addresses
        self._load = load
        self._store = store

    def load(self) -> Octets:
        """Reads the bytes of every thread."""
        return self._load(self._addresses)

    def store(self, content: Octets) -> None:
        """Writes the bytes of every thread; where threads collide, the highest thread's bytes are
        kept (ours).
        """
        self._store(self._addresses, content)

    def single(self, row: int) -> "PlacedAccess":
        """Returns the access of a single thread, selected by its row."""
        part = Access(
            self.access.threads[row : row + 1],
            self.access.addresses[row : row + 1],
            self.access.size,
        )
        return PlacedAccess(
            self.space, part, self._addresses[row : row + 1], self._load, self._store
        )


Accesses = list[PlacedAccess]
"""A generic access is split into one access for each space."""


def _elements(block: bytes | bytearray | memoryview, width: int) -> NDArray[Any]:
    """Views bytes as elements of ``width`` bytes; a partial element at the end is left out."""
    return np.frombuffer(block, _ELEMENTS[width], count=len(block) // width)


def _numbers(places: Addresses, start: int, width: int) -> NDArray[np.intp]:
    """Returns the indices of the elements at ``places``, relative to ``start``; all distances are
    multiples of the width.
    """
    return ((places - np.uint64(start)) >> _SHIFTS[width]).view(np.intp)


def _near_block(places: Addresses, width: int) -> tuple[int, int] | None:
    """Returns start and length of the range that contains some elements; None if it is too long."""
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
    """Writes elements into a block; of several with the same index the last one is kept."""
    elements = np.ascontiguousarray(content).view(_ELEMENTS[width])
    _elements(block, width)[numbers.ravel()] = elements.ravel()


def _first(access: Access, failing: NDArray[np.bool_], error: WarpError) -> list[_LaneFaultError]:
    """Returns the error of the first thread that ``failing`` marks, as a list of at most one."""
    if not np.count_nonzero(failing):
        return []
    row = int(failing.argmax())
    return [_LaneFaultError(int(access.threads[row]), int(access.addresses[row]), error)]


def _check(access: Access, *failures: tuple[NDArray[np.bool_], WarpError]) -> None:
    """Raises the error of the first thread that has one; of a thread's several errors, the one
    named first.
    """
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
    """Marks the threads whose elements are not all mapped."""
    is_mapped = [all(memory.is_mapped(place, width) for place in row) for row in places.tolist()]
    return ~np.array(is_mapped)


def _in_memory(
    space: str, memory: Memory, access: Access, places: Addresses, width: int
) -> PlacedAccess:
    """Returns the access at ``places`` of global memory; WarpFaultError with MMU_FAULT if one is
    not mapped.
    """
    near = _near_block(places, width)
    if near is not None and memory.is_mapped(*near):
        _check(access)
    else:
        _check(access, (_unmapped(memory, places, width), WarpError.MMU_FAULT))
    return PlacedAccess(space, access, places, _load_from(memory, width), _store_to(memory, width))


def _in_global(memory: Memory, access: Access) -> PlacedAccess:
    return _in_memory("global", memory, access, access.addresses[:, None], access.size)


def _in_local(memory: Memory, warp: Warp, access: Access) -> PlacedAccess:
    """Places a local access: word k of thread t is word 32 * k + t of the warp's block."""
    _check(access, _beyond(access, warp.local_size))
    word = np.uint64(_WORD)
    words = np.arange(max(1, access.size // _WORD), dtype=np.uint64)
    numbers = (access.addresses // word)[:, None] + words
    rows = numbers * np.uint64(WARP_THREADS) + access.threads[:, None].astype(np.uint64)
    places = np.uint64(warp.local_base) + rows * word + (access.addresses % word)[:, None]
    return _in_memory("local", memory, access, places, min(access.size, _WORD))


def _beyond(access: Access, end: int) -> tuple[NDArray[np.bool_], WarpError]:
    """Marks the threads whose access exceeds the end of their memory."""
    return access.addresses + np.uint64(access.size) > end, WarpError.OOR_ADDR


def _in_shared(warp: Warp, access: Access) -> PlacedAccess:
    shared, width = warp.cta.shared, access.size
    _check(access, _beyond(access, len(shared)))

    def load(places: Addresses) -> Octets:
        return _elements(shared, width)[_numbers(places, 0, width)].view(np.uint8)

    def store(places: Addresses, content: Octets) -> None:
        _put(shared, width, _numbers(places, 0, width), content)

    return PlacedAccess("shared", access, access.addresses[:, None], load, store)


def place_access(space: str, memory: Memory, warp: Warp, access: Access) -> Accesses:
    """Places an access in one space.

    Raises:
        WarpFaultError: For the first thread that fails: MISALIGNED_ADDR, OOR_ADDR beyond the end of
            the thread's local or the CTA's shared memory, or MMU_FAULT where no memory is mapped.
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
    """Places an access through generic addresses: the windows of shared and local memory, and
    global memory.

    Without ``windows`` an address in a window is an error: INVALID_ADDR_SPACE.
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
