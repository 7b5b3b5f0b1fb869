"""Memory behind the whole machine, for long runs: nobody looks at a cycle in which nothing happens.

A little hardware between the machine's memory port and the simulation (:class:`MemoryLatch`) keeps each request until
it is looked at, and each answer until it is taken, so that the clock can run until the next event.
"""

from collections import deque
from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.tokens import LINE_BYTES
from rtl.layouts import MemoryPort, memory_request, memory_response
from sim.memory import Memory, MemoryFaultError

__all__ = ["LATENCY", "MemoryLatch", "MemoryService"]

LATENCY = 20
"""Cycles from a request to its answer, unless answers queue."""
_ALL = (1 << LINE_BYTES) - 1
_COUNT_BITS = 8


class MemoryLatch(Component):
    """Between a memory port and a simulation that looks only now and then.

    Members
    -------
    port : In(MemoryPort)
        Requests are taken at once.
    requested : Out(1)
        There is a request in this cycle; after its end ``request`` holds it.
    request : Out(memory_request)
    count : Out(8)
        Requests so far.
    answer : In(turn and memory_response)
        ``turn`` changes when there is a new one.
    free : Out(1)
        The last answer was taken.
    """

    def __init__(self, tag_bits: int) -> None:
        super().__init__({
            "port": In(MemoryPort(tag_bits)), "requested": Out(1), "request": Out(memory_request(tag_bits)),
            "count": Out(_COUNT_BITS),
            "answer": In(data.StructLayout({"turn": 1, "payload": memory_response(tag_bits)})), "free": Out(1)})

    def elaborate(self, platform: object) -> Module:
        """The latch."""
        m = Module()
        given = Signal()
        waits = self.answer.turn ^ given
        m.d.comb += [
            self.port.request.ready.eq(1), self.requested.eq(self.port.request.valid), self.free.eq(~waits),
            self.port.response.valid.eq(waits), self.port.response.payload.eq(self.answer.payload)]
        with m.If(self.requested):
            m.d.sync += [self.request.eq(self.port.request.payload), self.count.eq(self.count + 1)]
        with m.If(waits & self.port.response.ready):
            m.d.sync += given.eq(self.answer.turn)
        return m


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
