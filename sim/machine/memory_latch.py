"""A latch in hardware between the machine's memory port and the simulation.

It holds each request until the testbench reads it, and each response until the machine accepts it,
so that the clock can run until the next event.
"""

from amaranth.hdl import Module, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.layouts import MemoryPort, memory_request, memory_response

__all__ = ["MemoryLatch"]

_COUNT_BITS = 8


class MemoryLatch(Component):
    """A latch between a memory port and a testbench that acts only in some cycles.

    Members
    -------
    port : In(MemoryPort)
        Requests are accepted at once.
    requested : Out(1)
        There is a request in this cycle; after its end ``request`` holds it.
    request : Out(memory_request)
    count : Out(8)
        Requests so far.
    answer : In(turn and memory_response)
        ``turn`` toggles for a new response.
    free : Out(1)
        The last response was accepted.
    """

    def __init__(self, tag_bits: int) -> None:
        super().__init__(
            {
                "port": In(MemoryPort(tag_bits)),
                "requested": Out(1),
                "request": Out(memory_request(tag_bits)),
                "count": Out(_COUNT_BITS),
                "answer": In(data.StructLayout({"turn": 1, "payload": memory_response(tag_bits)})),
                "free": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Builds the registers of requests and responses."""
        m = Module()
        given = Signal()
        waits = self.answer.turn ^ given
        m.d.comb += [
            self.port.request.ready.eq(1),
            self.requested.eq(self.port.request.valid),
            self.free.eq(~waits),
            self.port.response.valid.eq(waits),
            self.port.response.payload.eq(self.answer.payload),
        ]
        with m.If(self.requested):
            m.d.sync += [self.request.eq(self.port.request.payload), self.count.eq(self.count + 1)]
        with m.If(waits & self.port.response.ready):
            m.d.sync += given.eq(self.answer.turn)
        return m
