"""The line loader: lines from memory to the two caches."""

from typing import Any

from amaranth.hdl import Assert, Cat, Module, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.syntax import WORD_BITS
from rtl.layouts import MemoryPort, memory_response
from rtl.params import LINE_ADDRESS_BITS
from rtl.structs import struct_value

from .records import LINE_WORDS, LINES_IN_FLIGHT, TAG_BITS, LineLoaderPort, LinePart

__all__ = ["LineLoader"]

_PORTS = LINES_IN_FLIGHT + 1


class LineLoader(Component):
    """Requests the lines that the caches miss, and delivers them word by word. ::

        miss --> request register --> memory --> response register --> part (8 words)

    Each port has at most one line outstanding. A port's number is the tag of its requests. Lines of
    different ports arrive in any order.

    Priority: the constant cache, then the instruction cache, since a miss of a constant stalls all
    warps. The constant cache repeats its miss in every other cycle until its line has arrived. In
    these cycles the instruction cache cannot request a line, although the line of the constant
    cache is already in flight. While a request waits for memory, no cache can make another one.

    Members
    -------
    instructions : In(array of LineLoaderPort)
        The ports of the instruction cache, which requests a line on at most one of them in a cycle.
    constants : In(LineLoaderPort)
        The port of the constant cache.
    constants_are_held : In(1)
        The constant cache cannot request a line.
    memory : Out(MemoryPort)
        The words of a response are delivered from the next cycle on, one a cycle.
    """

    def __init__(self) -> None:
        super().__init__({
            "instructions": In(LineLoaderPort()).array(LINES_IN_FLIGHT),
            "constants": In(LineLoaderPort()),
            "constants_are_held": In(1),
            "memory": Out(MemoryPort(TAG_BITS)),
        })
        self._lines = Signal(data.ArrayLayout(LINE_ADDRESS_BITS, _PORTS))
        """For each port, the address of the line that it requested last."""

    @property
    def _ports(self) -> tuple[Any, ...]:
        """The ports of the caches, by the tags of their requests."""
        return *self.instructions, self.constants

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._request(m)
        self._deliver(m)
        return m

    def _request(self, m: Module) -> None:
        """Sends one request at a time, until memory accepts it."""
        request = self.memory.request
        requests_constants = self.constants.miss.valid & ~self.constants_are_held
        with m.If(~request.valid):
            for port in self.instructions:
                m.d.comb += port.free.eq(~port.in_flight & ~requests_constants)
            m.d.comb += self.constants.free.eq(
                ~self.constants.in_flight & ~self.constants_are_held)
        with m.If(request.ready):
            m.d.sync += request.valid.eq(0)
        for tag, port in enumerate(self._ports):
            with m.If(port.miss.valid & port.free):
                m.d.sync += request.valid.eq(1)
                m.d.sync += request.payload.tag.eq(tag)
                m.d.sync += request.payload.address.eq(port.miss.payload)
                m.d.sync += self._lines[tag].eq(port.miss.payload)
                m.d.sync += port.in_flight.eq(1)
            with m.Elif(port.filled):
                m.d.sync += port.in_flight.eq(0)

    def _deliver(self, m: Module) -> None:
        """Accepts a response at once, and delivers it in the following cycles."""
        response = self.memory.response
        is_delivering = Signal()
        delivered: Any = Signal(memory_response(TAG_BITS))
        number = Signal(range(LINE_WORDS))
        part = struct_value(
            LinePart,
            line=self._lines[delivered.tag],
            number=number,
            word=delivered.data.word_select(number, WORD_BITS),
            error=delivered.error)
        m.d.comb += response.ready.eq(~is_delivering)
        for tag, port in enumerate(self._ports):
            m.d.comb += port.part.valid.eq(is_delivering & (delivered.tag == tag))
            m.d.comb += port.part.payload.eq(part)
        with m.If(~is_delivering):
            m.d.sync += is_delivering.eq(response.valid)
            m.d.sync += number.eq(0)
            m.d.sync += delivered.eq(response.payload)
        with m.Else():
            m.d.sync += number.eq(number + 1)
            with m.If(number == LINE_WORDS - 1):
                m.d.sync += is_delivering.eq(0)

        in_flight = Cat(port.in_flight for port in self._ports)
        is_requested = in_flight.bit_select(response.payload.tag, 1)
        m.d.sync += Assert(~response.valid | is_requested, "memory answers without a request")
