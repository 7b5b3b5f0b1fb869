"""The line loader: lines from memory to the two caches."""

from typing import Any

from amaranth.hdl import Assert, Module, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.syntax import WORD_BITS
from rtl.layouts import MemoryPort, memory_response
from rtl.params import LINE_ADDRESS_BITS
from rtl.structs import struct_value

from .records import LINE_WORDS, TAG_BITS, LineLoaderPort, LinePart

__all__ = ["LineLoader"]

_INSTRUCTIONS = 0
_CONSTANTS = 1
_CACHES = 2


class LineLoader(Component):
    """Requests the lines that the caches miss, and delivers them word by word. ::

        miss --> request register --> memory --> answer register --> part (8 words)

    Two that come at once: the constant cache goes first, since its miss stalls all warps. It goes
    on missing in every other cycle until its line has come, and in these cycles the instruction
    cache cannot request a line, although the constant cache's is under way already. While a
    request waits for memory, no cache can make another one.

    Members
    -------
    instructions, constants : In(LineLoaderPort)
        Of the two caches.
    constants_are_held : In(1)
        The constant cache cannot request a line.
    under_way : Out(2)
        A line for the instruction cache, the constant cache, is outstanding: it was requested, and
        is not ``filled``.
    memory : Out(MemoryPort)
        The words of an answer are delivered from the next cycle on, one a cycle.
    """

    def __init__(self) -> None:
        super().__init__({
            "instructions": In(LineLoaderPort()),
            "constants": In(LineLoaderPort()),
            "constants_are_held": In(1),
            "under_way": Out(_CACHES),
            "memory": Out(MemoryPort(TAG_BITS)),
        })
        self._lines = Signal(data.ArrayLayout(LINE_ADDRESS_BITS, _CACHES))
        """The address of the line that each cache has requested last."""

    @property
    def _caches(self) -> tuple[Any, ...]:
        """The caches' ports, by the tags of their requests."""
        return self.instructions, self.constants

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._request(m)
        self._deliver(m)
        return m

    def _request(self, m: Module) -> None:
        """Requests, one at a time, until memory takes them."""
        request = self.memory.request
        requests_constants = self.constants.miss.valid & ~self.constants_are_held
        with m.If(~request.valid):
            m.d.comb += self.instructions.free.eq(
                ~self.under_way[_INSTRUCTIONS] & ~requests_constants)
            m.d.comb += self.constants.free.eq(
                ~self.under_way[_CONSTANTS] & ~self.constants_are_held)
        with m.If(request.ready):
            m.d.sync += request.valid.eq(0)
        for tag, cache in enumerate(self._caches):
            with m.If(cache.miss.valid & cache.free):
                m.d.sync += request.valid.eq(1)
                m.d.sync += request.payload.tag.eq(tag)
                m.d.sync += request.payload.address.eq(cache.miss.payload)
                m.d.sync += self._lines[tag].eq(cache.miss.payload)
                m.d.sync += self.under_way[tag].eq(1)
            with m.Elif(cache.filled):
                m.d.sync += self.under_way[tag].eq(0)

    def _deliver(self, m: Module) -> None:
        """An answer is taken at once, and delivered in the cycles that follow."""
        answer = self.memory.response
        is_delivering = Signal()
        delivered: Any = Signal(memory_response(TAG_BITS))
        number = Signal(range(LINE_WORDS))
        part = struct_value(
            LinePart,
            line=self._lines[delivered.tag],
            number=number,
            word=delivered.data.word_select(number, WORD_BITS),
            error=delivered.error)
        m.d.comb += answer.ready.eq(~is_delivering)
        for tag, cache in enumerate(self._caches):
            m.d.comb += cache.part.valid.eq(is_delivering & (delivered.tag == tag))
            m.d.comb += cache.part.payload.eq(part)
        with m.If(~is_delivering):
            m.d.sync += is_delivering.eq(answer.valid)
            m.d.sync += number.eq(0)
            m.d.sync += delivered.eq(answer.payload)
        with m.Else():
            m.d.sync += number.eq(number + 1)
            with m.If(number == LINE_WORDS - 1):
                m.d.sync += is_delivering.eq(0)

        is_requested = self.under_way.bit_select(answer.payload.tag, 1)
        m.d.sync += Assert(~answer.valid | is_requested, "memory answers without a request")
