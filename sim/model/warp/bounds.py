"""Detects global accesses outside the memory that a program was given: buffers, variables,
constants, output and heap.

The machine allocates memory in lines of 64 bytes, so it reports no error for an access a few bytes
beyond the end of a buffer.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rtl.isa.control_code import INSTRUCTION_BYTES, instruction_address
from sim.launch import LOCAL_MEMORY, Launch
from sim.toolchain.assembly.spelling import spell

from .spaces import PlacedAccess
from .state import Warp

__all__ = ["Bounds", "Outside"]

_NOT_GIVEN = frozenset({"program", "trap handler", LOCAL_MEMORY})
"""Regions of memory that a program's global accesses should not reach."""


@dataclass
class Outside:
    """The out-of-bounds accesses of one instruction: the first one, and their count.

    Attributes:
        pc: Address of the instruction from the program base.
        instruction: Its disassembly.
        block: Position of the CTA in the grid.
        thread: Position of the thread in the block.
        address: First byte of the access.
        size: Bytes of the access.
        nearest_region: Position of the access relative to the nearest region below it.
        count: Number of such accesses.
    """

    pc: int
    instruction: str
    block: tuple[int, int, int]
    thread: tuple[int, int, int]
    address: int
    size: int
    nearest_region: str
    count: int

    def line(self) -> str:
        """Returns the report as one line of text."""
        places = f"block: {_place(self.block)}, thread: {_place(self.thread)}"
        more = f"; {self.count} accesses" if self.count > 1 else ""
        what = f"{self.size} byte{'s' * (self.size != 1)} at {self.address:#x}, {self.nearest_region}{more}"
        return f"outside       pc {self.pc:#06x}, {self.instruction}: {places}: {what}"

    def decoded(self) -> Mapping[str, Any]:
        """Returns the report as a mapping, for JSON."""
        return {
            "pc": self.pc,
            "instruction": self.instruction,
            "block": self.block,
            "thread": self.thread,
            "address": self.address,
            "bytes": self.size,
            "where": self.nearest_region,
            "accesses": self.count,
        }


def _place(index: tuple[int, int, int]) -> str:
    return f"[{','.join(map(str, index))}]"


class Bounds:
    """Checks accesses against the regions that a launch's memory has when this object is made.

    Attributes:
        found: The accesses outside of them, by the pc of their instruction.
    """

    def __init__(self, launch: Launch) -> None:
        self.found: dict[int, Outside] = {}
        self._launch = launch
        regions = sorted(
            (base, size, name)
            for name, (base, size) in launch.memory.regions.items()
            if name not in _NOT_GIVEN
        )
        self._regions = regions
        self._bases = np.array([base for base, _, _ in regions], np.uint64)
        self._ends = np.array([base + size for base, size, _ in regions], np.uint64)

    def note(self, warp: Warp, parts: Iterable[PlacedAccess]) -> None:
        """Checks the accesses of a warp's next instruction."""
        for part in parts:
            if part.space == "global":
                self._note_global(warp, part)

    def _note_global(self, warp: Warp, part: PlacedAccess) -> None:
        addresses, size = part.access.addresses, part.access.size
        outside = np.ones(len(addresses), np.bool_)
        if self._regions:
            at = np.searchsorted(self._bases, addresses, "right").astype(np.intp) - 1
            outside = (at < 0) | (addresses + np.uint64(size) > self._ends[at])
        rows = np.flatnonzero(outside)
        if not len(rows):
            return
        pc = instruction_address(warp.pc)
        if pc in self.found:
            self.found[pc].count += len(rows)
            return
        address, lane = int(addresses[rows[0]]), int(part.access.threads[rows[0]])
        word = self._launch.memory.read_number(self._launch.program_base + pc, INSTRUCTION_BYTES)
        x, y, z = (int(index[lane]) for index in warp.thread_index)
        self.found[pc] = Outside(
            pc,
            spell(word, pc),
            warp.cta.index,
            (x, y, z),
            address,
            size,
            self._where(address),
            len(rows),
        )

    def _where(self, address: int) -> str:
        """Describes an address relative to the nearest region below it."""
        at = bisect_right(self._regions, address, key=lambda region: region[0]) - 1
        if at < 0:
            return "below all memory that was given"
        base, length, name = self._regions[at]
        end = base + length
        description = f"{name} ({length} bytes at {base:#x})"
        return (
            f"over the end of {description}"
            if address < end
            else f"{address - end} bytes behind {description}"
        )
