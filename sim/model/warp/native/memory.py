"""A launch's memory in the core's form: ranges, and the addresses of their bytes in this process."""

import ctypes
from itertools import islice

import numpy as np

from sim.launch.memory import PAGE_BYTES, Memory, SharedMemory

from .state import NativeMachine, NativeRegion

__all__ = ["HostMemory"]


class HostMemory:
    """The ranges of a memory.

    A SharedMemory is one block, which the core uses directly; for other memory the core has a table
    of the memory's own pages.

    Parameters:
        memory: The memory.
        code: An address in the range that holds the program.
        machine: Receives the ranges.
    """

    def __init__(self, memory: Memory, code: int, machine: NativeMachine) -> None:
        self._memory, self._code, self._machine = memory, code, machine
        self._version = -1
        self._known = 0
        self._zeros = bytearray(PAGE_BYTES)
        self._tables: list[np.ndarray] = []
        self._regions: ctypes.Array[NativeRegion] = (NativeRegion * 0)()
        machine.zeros = self._place(self._zeros)

    @staticmethod
    def _place(page: bytearray) -> int:
        """Returns the address of a page's bytes, which is constant because the size of a page is."""
        return ctypes.addressof(ctypes.c_char.from_buffer(page))

    def update(self) -> None:
        """Updates the ranges and pages to those of the memory."""
        memory = self._memory
        if memory.version != self._version:
            self._map()
        elif (count := len(memory.pages)) != self._known:
            for number in islice(reversed(memory.pages), count - self._known):
                self._add(number, memory.pages[number])
            self._known = count

    def _map(self) -> None:
        memory = self._memory
        ranges = memory.ranges
        self._regions = (NativeRegion * len(ranges))()
        self._tables = []
        for region, (start, end) in zip(self._regions, ranges, strict=True):
            region.start, region.size = start, end - start
            region.is_code = start <= self._code < end
            region.first_page = start // PAGE_BYTES
            if isinstance(memory, SharedMemory):
                region.flat = memory.process_address + start - memory.first
            else:
                table = np.zeros((end - 1) // PAGE_BYTES - region.first_page + 1, np.uint64)
                self._tables.append(table)
                region.pages = table.ctypes.data
        self._machine.regions = self._machine.recent = self._regions
        self._machine.region_count = len(ranges)
        self._version, self._known = memory.version, len(memory.pages)
        for number, page in memory.pages.items():
            self._add(number, page)

    def _add(self, number: int, page: bytearray) -> None:
        """Adds a page to every range that overlaps it."""
        for region, table in zip(self._regions, self._tables, strict=False):
            if region.first_page <= number < region.first_page + len(table):
                table[number - region.first_page] = self._place(page)

    def make_missing_page(self) -> None:
        """Allocates the page that the core requested for a write."""
        number, self._machine.missing_page = self._machine.missing_page - 1, 0
        self._memory.touch(number)
        self.update()
