"""A little hardware between the machine's memory port and the simulation.

It keeps each request until it is looked at, and each answer until it is taken, so that the clock can run until the
next event.
"""

from amaranth.hdl import Module, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.layouts import MemoryPort, memory_request, memory_response

__all__ = ["MemoryLatch"]

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
        """The latch."""
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
