"""Accesses of global memory outside of what a program was given: its buffers, variables, constants, output and heap.

Memory comes in lines of 64 bytes, so what runs off the end of a buffer by a few bytes is no error of the machine.
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
"""Regions of memory that no global address of a program should reach."""


@dataclass
class Outside:
    """Accesses of one instruction that were outside: the first one, and how many there were.

    ``block`` and ``thread`` are places of that thread, ``size`` bytes at ``address`` what it
    accessed, ``nearest_region`` describes the memory before it.
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
        """All of it."""
        places = f"block: {_place(self.block)}, thread: {_place(self.thread)}"
        more = f"; {self.count} accesses" if self.count > 1 else ""
        what = f"{self.size} byte{'s' * (self.size != 1)} at {self.address:#x}, {self.nearest_region}{more}"
        return f"outside       pc {self.pc:#06x}, {self.instruction}: {places}: {what}"

    def decoded(self) -> Mapping[str, Any]:
        """The form for files."""
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
    """What a launch's memory has when this is made, and the accesses outside of it.

    Attributes:
        found: Those accesses by the pc of their instruction.
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
        """Looks at what an instruction of a warp accesses."""
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
        """Where an access is, by the memory before it."""
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
