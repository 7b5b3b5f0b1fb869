"""Device memory: sparse, byte addressed, with checked bounds."""

import ctypes
import mmap
import os
from bisect import bisect_right, insort
from collections.abc import Container, Iterable

from rtl.isa.tokens import LINE_BYTES
from rtl.params import ADDRESS_BITS
from sim.support.alignment import round_up

__all__ = ["PAGE_BYTES", "Memory", "MemoryFaultError", "OutOfMemoryError", "SharedMemory"]

_PAGE_BITS = 12
PAGE_BYTES = 1 << _PAGE_BITS
_WHOLE_LINE = (1 << LINE_BYTES) - 1
_COPIED_BYTES = 1 << 16
"""Size of the blocks in which shared memory is copied, in bytes."""
_PUNCHED_BYTES = 1 << 16
"""Minimum size in bytes from which freed memory is returned to the system."""


class MemoryFaultError(Exception):
    """An access to an unmapped address."""

    def __init__(self, address: int) -> None:
        super().__init__(f"nothing is mapped at {address:#x}")
        self.address = address


class OutOfMemoryError(Exception):
    """An allocation for which the memory has no room."""


class Memory:
    """Bytes at 40-bit addresses. Only mapped lines exist; they are initially zero.

    Memory consists of lines of 64 bytes, the machine's unit of access: a line that is mapped in
    part exists as a whole.

    Parameters:
        heap: Start of the heap, the addresses that :meth:`allocate` returns.
        gap: Bytes between allocated ranges, so that an access beyond the end of a range faults.
        limit: End of the heap: the first address that no allocation reaches.

    Attributes:
        regions: First address and size in bytes of every allocated range, by name.
        version: Counts the changes of the mapped ranges.
        constant: Names of the ranges that launches only read: programs, constant banks,
            descriptors.
    """

    def __init__(
        self, heap: int = 0x2_0000_0000, gap: int = PAGE_BYTES, limit: int = 1 << ADDRESS_BITS
    ) -> None:
        self.regions: dict[str, tuple[int, int]] = {}
        self.constant: set[str] = set()
        self.version = 0
        self._pages: dict[int, bytearray] = {}
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._names: dict[int, str] = {}
        self._heap = heap
        self._gap = gap
        self._limit = limit
        self._holes: list[tuple[int, int]] = []
        self._last_number = 1

    def copy(self) -> "Memory":
        """Returns another memory with the same content."""
        other = Memory(self._heap, self._gap, self._limit)
        other.regions, other.constant = dict(self.regions), set(self.constant)
        other._starts = list(self._starts)
        other._ends = list(self._ends)
        other._names = dict(self._names)
        other._holes = list(self._holes)
        other._last_number = self._last_number
        other._pages = {number: bytearray(page) for number, page in self._pages.items()}
        return other

    def map(self, name: str, base: int, size: int) -> None:
        """Maps the lines of ``size`` bytes from ``base``; ValueError if some are mapped already or
        beyond the address width.
        """
        if not 0 <= base < base + size <= 1 << ADDRESS_BITS:
            raise ValueError(
                f"{name}: {size} bytes at {base:#x} do not fit in {ADDRESS_BITS}-bit addresses"
            )
        first, end = base - base % LINE_BYTES, base + size + -(base + size) % LINE_BYTES
        at = bisect_right(self._starts, first)
        if (at and self._ends[at - 1] > first) or (
            at < len(self._starts) and self._starts[at] < end
        ):
            raise ValueError(f"{name}: some of {size} bytes at {base:#x} are mapped already")
        if name in self.regions:
            raise ValueError(f"{name} is mapped already")
        self.version += 1
        self._starts.insert(at, first)
        self._ends.insert(at, end)
        self._names[first] = name
        self.regions[name] = (base, size)

    def allocate(self, name: str, size: int, alignment: int = 256) -> int:
        """Maps ``size`` bytes (at least one) on the heap; returns the address.

        The range is in the first hole with room for it, else a gap behind the last range. Raises
        OutOfMemoryError if that is beyond the limit.
        """
        size = max(size, 1)
        for number, (start, end) in enumerate(self._holes):
            base = round_up(start, alignment)
            if base + size + self._gap <= end:
                self.map(name, base, size)
                self._holes[number : number + 1] = [
                    hole
                    for hole in ((start, base), (base + size + self._gap, end))
                    if hole[0] < hole[1]
                ]
                return base
        base = round_up(self._heap, alignment)
        if base + size > self._limit:
            raise OutOfMemoryError(f"{name}: no room for {size} bytes")
        if base > self._heap:
            insort(self._holes, (self._heap, base))
        self.map(name, base, size)
        self._heap = base + size + self._gap
        return base

    def room(self, alignment: int = 256) -> int:
        """Returns the largest size in bytes of a range with this alignment that can be allocated."""
        holes = [(start, end - self._gap) for start, end in self._holes]
        return max(
            0,
            *(
                end - round_up(start, alignment)
                for start, end in [*holes, (self._heap, self._limit)]
            ),
        )

    def free_name(self, name: str) -> str:
        """Returns the name, extended by a number if a range has it already."""
        if name not in self.regions:
            return name
        self._last_number += 1
        return f"{name} {self._last_number}"

    def mark_constant(self, base: int) -> None:
        """Declares that launches only read the range that begins at ``base``."""
        self.constant.update(name for name, (first, _) in self.regions.items() if first == base)

    def free(self, base: int) -> None:
        """Unmaps the range that begins at ``base`` and returns its place to the heap; ValueError if
        no range begins there.
        """
        at = bisect_right(self._starts, base) - 1
        name = self._names.get(self._starts[at]) if at >= 0 else None
        if name is None or self.regions[name][0] != base:
            raise ValueError(f"no range begins at {base:#x}")
        size = self.regions.pop(name)[1]
        self.version += 1
        self.constant.discard(name)
        first, end = self._starts.pop(at), self._ends.pop(at)
        del self._names[first]
        self._forget(first, end)
        self._release(base, base + max(size, 1) + self._gap)

    def new_bases(self, before: Container[str]) -> tuple[int, ...]:
        """Returns the first addresses of the ranges whose names are not in ``before``."""
        return tuple(base for name, (base, _) in self.regions.items() if name not in before)

    def free_new(self, before: Container[str]) -> None:
        """Frees all ranges whose names are not in ``before``."""
        self.free_all(self.new_bases(before))

    def free_all(self, bases: Iterable[int]) -> None:
        """Frees the ranges that begin at these addresses."""
        for base in bases:
            self.free(base)

    def _release(self, start: int, end: int) -> None:
        """Returns addresses to the heap; adjacent holes are merged, and the last one is joined to
        the heap's end.
        """
        at = bisect_right(self._holes, (start, end))
        if at < len(self._holes) and self._holes[at][0] == end:
            end = self._holes.pop(at)[1]
        if at and self._holes[at - 1][1] == start:
            at -= 1
            start = self._holes.pop(at)[0]
        if end == self._heap:
            self._heap = start
        else:
            self._holes.insert(at, (start, end))

    def _forget(self, first: int, end: int) -> None:
        """Clears the bytes of these lines."""
        for number in range(first >> _PAGE_BITS, (end - 1 >> _PAGE_BITS) + 1):
            page = self._pages.get(number)
            if page is None:
                continue
            start, stop = (
                max(first - (number << _PAGE_BITS), 0),
                min(end - (number << _PAGE_BITS), PAGE_BYTES),
            )
            if stop - start == PAGE_BYTES:
                del self._pages[number]
            else:
                page[start:stop] = bytes(stop - start)

    def range_of(self, address: int, size: int = 1) -> tuple[int, int] | None:
        """Returns first address and size of the range that contains ``size`` bytes from
        ``address``; None if none does.
        """
        at = bisect_right(self._starts, address) - 1
        if at < 0:
            return None
        base, length = self.regions[self._names[self._starts[at]]]
        return (base, length) if base <= address and address + size <= base + length else None

    def fill(self, address: int, size: int, byte: int = 0) -> None:
        """Writes a byte ``size`` times; MemoryFaultError, with nothing written, if an address is
        unmapped.
        """
        self.write(address, bytes([byte]) * size)

    def copy_range(self, target: int, source: int, size: int) -> None:
        """Copies bytes; the ranges may overlap. MemoryFaultError if an address is unmapped."""
        self.write(target, self.read(source, size))

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """The ranges of mapped lines in order, each as its first address and the one behind it."""
        return list(zip(self._starts, self._ends, strict=True))

    @property
    def pages(self) -> dict[int, bytearray]:
        """The pages of PAGE_BYTES that were written, by number, newest last. They stay in place
        while :attr:`version` does not change.
        """
        return self._pages

    def touch(self, number: int) -> None:
        """Allocates the page with this number, unless it exists."""
        self._pages.setdefault(number, bytearray(PAGE_BYTES))

    @property
    def end(self) -> int:
        """The address behind the last mapped byte."""
        return max(self._ends, default=0)

    def is_mapped(self, address: int, size: int) -> bool:
        """Whether all of ``size`` bytes from ``address`` on are mapped, in one range of lines."""
        at = bisect_right(self._starts, address) - 1
        return at >= 0 and address + size <= self._ends[at]

    def _check(self, address: int, size: int) -> None:
        at = bisect_right(self._starts, address) - 1
        if at < 0 or address >= self._ends[at]:
            raise MemoryFaultError(address)
        if address + size > self._ends[at]:
            raise MemoryFaultError(self._ends[at])

    def read(self, address: int, size: int) -> bytes:
        """Reads ``size`` bytes from ``address``; MemoryFaultError if one is unmapped."""
        self._check(address, size)
        inside = address & PAGE_BYTES - 1
        if inside + size <= PAGE_BYTES:
            page = self._pages.get(address >> _PAGE_BITS)
            return bytes(size) if page is None else bytes(page[inside : inside + size])
        result = bytearray()
        while size:
            inside = address & PAGE_BYTES - 1
            step = min(size, PAGE_BYTES - inside)
            page = self._pages.get(address >> _PAGE_BITS)
            result += page[inside : inside + step] if page is not None else bytes(step)
            address += step
            size -= step
        return bytes(result)

    def write(self, address: int, content: bytes | bytearray | memoryview) -> None:
        """Writes ``content`` at ``address``; MemoryFaultError, with nothing written, if an address
        is unmapped.
        """
        self._check(address, len(content))
        done = 0
        while done < len(content):
            inside = address + done & PAGE_BYTES - 1
            step = min(len(content) - done, PAGE_BYTES - inside)
            page = self._pages.setdefault(address + done >> _PAGE_BITS, bytearray(PAGE_BYTES))
            page[inside : inside + step] = content[done : done + step]
            done += step

    def write_line(self, address: int, content: bytes, mask: int) -> None:
        """Writes the bytes of a line that the mask selects, bit n for byte n."""
        if mask != _WHOLE_LINE:
            old = self.read(address, LINE_BYTES)
            content = bytes(
                new if mask >> at & 1 else byte
                for at, (new, byte) in enumerate(zip(content, old, strict=True))
            )
        self.write(address, content)

    def read_number(self, address: int, size: int) -> int:
        """Reads the little-endian number of ``size`` bytes at ``address``."""
        return int.from_bytes(self.read(address, size), "little")

    def write_number(self, address: int, size: int, value: int) -> None:
        """Writes the low ``size`` bytes of ``value`` at ``address``, little endian."""
        self.write(address, (value & (1 << 8 * size) - 1).to_bytes(size, "little"))


class SharedMemory(Memory):
    """Memory that other processes can map: its heap is an anonymous file in main memory.

    Parameters:
        size: Size of the heap in bytes. Pages that were not written occupy no memory.
        heap: As in Memory.
        gap: As in Memory.

    Attributes:
        first: The first address of the heap.
        file: The file's descriptor; offset 0 is ``first``. Closed by :meth:`close`.
    """

    def __init__(self, size: int, heap: int = 0x2_0000_0000, gap: int = PAGE_BYTES) -> None:
        super().__init__(heap, gap, heap + size)
        self.file = os.memfd_create("warpstack device memory")
        os.ftruncate(self.file, size)
        self.first = heap
        self._bytes = mmap.mmap(self.file, size)

    @property
    def process_address(self) -> int:
        """The address in this process of the byte at :attr:`first`."""
        return ctypes.addressof(ctypes.c_char.from_buffer(self._bytes))

    def close(self) -> None:
        """Releases the memory and closes the file."""
        self._bytes.close()
        os.close(self.file)

    def map(self, name: str, base: int, size: int) -> None:
        """Maps lines as Memory does; ValueError outside the heap."""
        if not self.first <= base < base + size <= self._limit:
            raise ValueError(f"{name}: {size} bytes at {base:#x} do not lie on the heap")
        super().map(name, base, size)

    def read(self, address: int, size: int) -> bytes:
        """Reads ``size`` bytes from ``address``; MemoryFaultError if one is unmapped."""
        self._check(address, size)
        at = address - self.first
        return self._bytes[at : at + size]

    def write(self, address: int, content: bytes | bytearray | memoryview) -> None:
        """Writes ``content`` at ``address``; MemoryFaultError, with nothing written, if an address
        is unmapped.
        """
        self._check(address, len(content))
        at = address - self.first
        self._bytes[at : at + len(content)] = bytes(content)

    def copy(self) -> Memory:
        """Returns a private memory of this process with the same content."""
        other = super().copy()
        for start, end in zip(self._starts, self._ends, strict=True):
            for at in range(start, end, _COPIED_BYTES):
                content = self.read(at, min(_COPIED_BYTES, end - at))
                if content.count(0) != len(content):
                    other.write(at, content)
        return other

    def _forget(self, first: int, end: int) -> None:
        """Clears the bytes; whole pages of large ranges are returned to the system."""
        start, stop = first - self.first, end - self.first
        whole_start, whole_stop = round_up(start, mmap.PAGESIZE), stop - stop % mmap.PAGESIZE
        if whole_stop - whole_start < _PUNCHED_BYTES:
            self._bytes[start:stop] = bytes(stop - start)
            return
        self._bytes[start:whole_start] = bytes(whole_start - start)
        self._bytes[whole_stop:stop] = bytes(stop - whole_stop)
        self._bytes.madvise(mmap.MADV_REMOVE, whole_start, whole_stop - whole_start)
