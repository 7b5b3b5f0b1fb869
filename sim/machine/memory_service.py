"""Memory behind the whole machine, for long runs: idle cycles are skipped."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

from amaranth.lib import data

from rtl.isa.tokens import LINE_BYTES
from rtl.layouts import memory_request, memory_response
from sim.launch.memory import Memory, MemoryFaultError
from sim.machine.memory_latch import MemoryLatch

__all__ = ["LATENCY", "ON_TIME", "MemoryService", "Trouble"]

LATENCY = 20
"""Cycles from a request to its response, unless responses queue."""


class Trouble(NamedTuple):
    """A fault of a memory request.

    Attributes:
        error: The request is not performed, and answered with an error.
        late: Additional cycles of latency.
    """

    error: bool = False
    late: int = 0


ON_TIME = Trouble()
"""No fault."""


def _places(layout: data.StructLayout) -> dict[str, tuple[int, int]]:
    """Returns offset and mask of each field."""
    return {str(name): (field.offset, (1 << field.width) - 1) for name, field in layout}


@dataclass
class _ServiceRequest:
    """A request in flight.

    Attributes:
        performed: The cycle in which it is performed.
        due: The first cycle in which its response may be sent.
        answer: The response, once it has been performed.
    """

    fields: dict[str, int]
    performed: int
    due: int
    error: bool = False
    answer: int | None = None


class MemoryService:
    """Serves a :class:`MemoryLatch` from a memory.

    Parameters:
        latency: Cycles from a request to its response.
        disorder: None: requests are performed when they are made, and answered in order. Else a
            seed: a request takes from 1 to ``latency`` cycles and is performed at any time in
            between; responses of different tags overtake each other, those of one tag do not.
        trouble: Returns the fault of each request, by its number from 0.

    Attributes:
        reads: Number of read requests so far.
        writes: Number of write requests so far.
    """

    def __init__(
        self,
        latch: MemoryLatch,
        memory: Memory,
        latency: int = LATENCY,
        disorder: Random | None = None,
        trouble: Callable[[int], Trouble] = lambda _number: ON_TIME,
    ) -> None:
        tag_bits = len(latch.request.tag)
        self._memory, self._latency, self._disorder, self.trouble = (
            memory,
            latency,
            disorder,
            trouble,
        )
        self._requested, self._requests = latch.request.as_value(), latch.count
        self._answered, self._free = latch.answer.as_value(), latch.free
        self._request, self._answer = (
            _places(memory_request(tag_bits)),
            _places(memory_response(tag_bits)),
        )
        self._waiting: dict[int, deque[_ServiceRequest]] = {}
        self._turn = self._count = 0
        self.reads = self.writes = 0

    def wait(self, cycle: int) -> int | None:
        """Returns the number of cycles until a response is due, at least one; None if none is."""
        return (
            max(min(queue[0].due for queue in self._waiting.values()) - cycle, 1)
            if self._waiting
            else None
        )

    def take(self, ctx: Any, cycle: int) -> None:
        """Records the request of the previous cycle, if there was one."""
        count = ctx.get(self._requests)
        if count == self._count:
            return
        self._count = count
        bits = ctx.get(self._requested)
        field = {name: bits >> offset & mask for name, (offset, mask) in self._request.items()}
        error, late = self.trouble(self.reads + self.writes)
        if field["write"]:
            self.writes += 1
        else:
            self.reads += 1
        request = _ServiceRequest(field, cycle, cycle + self._latency + late, error)
        queue = self._waiting.setdefault(field["tag"] if self._disorder is not None else 0, deque())
        if self._disorder is not None:
            request.due = cycle + self._disorder.randint(1, self._latency) + late
            request.performed = self._disorder.randint(cycle, request.due)
            if queue:
                request.performed = max(request.performed, queue[-1].performed)
                request.due = max(request.due, queue[-1].due, request.performed)
        queue.append(request)
        if self._disorder is None:
            self._do(request)
        else:
            self._perform(cycle)

    def serve(self, ctx: Any, cycle: int) -> None:
        """Sends a response that is due, if the previous one has been accepted."""
        due = [tag for tag, queue in self._waiting.items() if queue[0].due <= cycle]
        if not due or not ctx.get(self._free):
            return
        tag = due[0]
        if self._disorder is not None:
            self._perform(cycle)
            tag = self._disorder.choice(due)
        request = self._waiting[tag].popleft()
        if not self._waiting[tag]:
            del self._waiting[tag]
        assert request.answer is not None
        self._turn ^= 1
        ctx.set(self._answered, self._turn | request.answer << 1)

    def finish(self) -> None:
        """Performs the pending requests of all clients."""
        self._perform(None)

    def _perform(self, cycle: int | None) -> None:
        """Performs the requests that are performed by a cycle, or all, in the order of time.

        Requests of one tag are performed in the order in which they were made. At equal times, the
        tag that has been in use longer comes first.
        """
        requests = [
            request
            for queue in self._waiting.values()
            for request in queue
            if request.answer is None and (cycle is None or request.performed <= cycle)
        ]
        for request in sorted(requests, key=lambda request: request.performed):
            self._do(request)

    def _do(self, request: _ServiceRequest) -> None:
        field = request.fields
        address, error, content = field["address"] * LINE_BYTES, 0, 0
        try:
            if request.error:
                error = 1
            elif field["write"]:
                self._memory.write_line(
                    address, field["data"].to_bytes(LINE_BYTES, "little"), field["mask"]
                )
            else:
                content = self._memory.read_number(address, LINE_BYTES)
        except MemoryFaultError:
            error = 1
        answer = {"write": field["write"], "tag": field["tag"], "error": error, "data": content}
        request.answer = sum(answer[name] << offset for name, (offset, _) in self._answer.items())
