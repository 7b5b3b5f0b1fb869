"""Memory behind the whole machine, for long runs: nobody looks at a cycle in which nothing happens."""

from collections import deque
from typing import Any

from amaranth.lib import data

from rtl.isa.tokens import LINE_BYTES
from rtl.layouts import memory_request, memory_response
from sim.memory import Memory, MemoryFaultError
from sim.memory_latch import MemoryLatch

__all__ = ["LATENCY", "MemoryService"]

LATENCY = 20
"""Cycles from a request to its answer, unless answers queue."""
_ALL = (1 << LINE_BYTES) - 1


def _places(layout: data.StructLayout) -> dict[str, tuple[int, int]]:
    """Offset and mask of each field."""
    return {str(name): (field.offset, (1 << field.width) - 1) for name, field in layout}


class MemoryService:
    """Serves a :class:`MemoryLatch` from a memory.

    Attributes
    ----------
    reads, writes : int
        Requests so far.
    """

    def __init__(self, latch: MemoryLatch, memory: Memory, latency: int = LATENCY) -> None:
        tag_bits = len(latch.request.tag)
        self._memory, self._latency = memory, latency
        self._requested, self._requests = latch.request.as_value(), latch.count
        self._answered, self._free = latch.answer.as_value(), latch.free
        self._request, self._answer = _places(memory_request(tag_bits)), _places(memory_response(tag_bits))
        self._due: deque[tuple[int, int]] = deque()
        self._turn = self._count = 0
        self.reads = self.writes = 0

    def wait(self, cycle: int) -> int | None:
        """Cycles until something is due, at least one; None when nothing is."""
        return max(self._due[0][0] - cycle, 1) if self._due else None

    def take(self, ctx: Any, cycle: int) -> None:
        """Performs the request that was made in the cycle before this one, if one was."""
        count = ctx.get(self._requests)
        if count == self._count:
            return
        self._count = count
        bits = ctx.get(self._requested)
        field = {name: bits >> offset & mask for name, (offset, mask) in self._request.items()}
        address, error, content = field["address"] * LINE_BYTES, 0, 0
        try:
            if field["write"]:
                self.writes += 1
                self._write(address, field["data"].to_bytes(LINE_BYTES, "little"), field["mask"])
            else:
                self.reads += 1
                content = self._memory.read_number(address, LINE_BYTES)
        except MemoryFaultError:
            error = 1
        answer = {"write": field["write"], "tag": field["tag"], "error": error, "data": content}
        self._due.append((cycle + self._latency,
                          sum(answer[name] << offset for name, (offset, _) in self._answer.items())))

    def serve(self, ctx: Any, cycle: int) -> None:
        """Gives an answer that is due, if the one before has been taken."""
        if self._due and self._due[0][0] <= cycle and ctx.get(self._free):
            self._turn ^= 1
            ctx.set(self._answered, self._turn | self._due.popleft()[1] << 1)

    def _write(self, address: int, content: bytes, mask: int) -> None:
        if mask == _ALL:
            self._memory.write(address, content)
            return
        first = 0
        while first < LINE_BYTES:
            if mask >> first & 1:
                end = first
                while end < LINE_BYTES and mask >> end & 1:
                    end += 1
                self._memory.write(address + first, content[first:end])
                first = end
            first += 1
