"""The line loader: lines from memory to the two caches."""

from typing import Any

from amaranth.hdl import Assert, Module, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.syntax import WORD_BITS
from rtl.layouts import MemoryPort, memory_request
from rtl.params import LINE_ADDRESS_BITS

from .records import LINE_WORDS, TAG_BITS, LineRequest, line_part

__all__ = ["LineLoader"]

_INSTRUCTIONS = 0
_CONSTANTS = 1
_CACHES = 2


class LineLoader(Component):
    """Requests the lines that the caches miss, and delivers them word by word. ::

        miss --> request register --> memory --> line register --> part (8 words)

    Two that come at once: the constant cache goes first, since its miss stalls all warps. It goes
    on missing in every other cycle until its line has come, and in these cycles the instruction
    cache cannot request a line, although the constant cache's is under way already. While a
    request waits for memory, no cache can make another one.

    Members
    -------
    miss : In(2 times LineRequest)
        The instruction cache's, the constant cache's. It counts in a cycle in which ``free`` is 1.
    free : Out(2)
        The cache can request a line.
    under_way : Out(2)
        A line for the cache is outstanding: it was requested, and is not ``settled``.
    settled : In(2)
        The cache has put its line where it belongs.
    part : Out(line_part)
        From the cycle behind memory's answer on, a word a cycle.
    memory : Out(MemoryPort)
    """

    def __init__(self) -> None:
        super().__init__({
            "miss": In(data.ArrayLayout(LineRequest, _CACHES)),
            "free": Out(_CACHES),
            "under_way": Out(_CACHES),
            "settled": In(_CACHES),
            "part": Out(line_part()),
            "memory": Out(MemoryPort(TAG_BITS)),
        })
        self._lines = Signal(data.ArrayLayout(LINE_ADDRESS_BITS, _CACHES))
        """The address of the line that each cache has requested last."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._request(m)
        self._deliver(m)
        return m

    def _request(self, m: Module) -> None:
        """Requests, one at a time, until memory takes them."""
        port = self.memory.request
        is_pending = Signal()
        request: Any = Signal(memory_request(TAG_BITS))
        m.d.comb += port.valid.eq(is_pending)
        m.d.comb += port.payload.eq(request)
        with m.If(~is_pending):
            m.d.comb += self.free[_INSTRUCTIONS].eq(
                ~self.under_way[_INSTRUCTIONS] & ~self.miss[_CONSTANTS].valid)
            m.d.comb += self.free[_CONSTANTS].eq(~self.under_way[_CONSTANTS])
        with m.If(port.ready):
            m.d.sync += is_pending.eq(0)
        for cache in range(_CACHES):
            miss = self.miss[cache]
            with m.If(miss.valid & self.free[cache]):
                m.d.sync += is_pending.eq(1)
                m.d.sync += request.tag.eq(cache)
                m.d.sync += request.address.eq(miss.line)
                m.d.sync += self._lines[cache].eq(miss.line)
                m.d.sync += self.under_way[cache].eq(1)
            with m.Elif(self.settled[cache]):
                m.d.sync += self.under_way[cache].eq(0)

    def _deliver(self, m: Module) -> None:
        """An answer is taken at once, and delivered in the cycles that follow."""
        answer = self.memory.response
        part = self.part
        is_delivering = Signal()
        line = Signal(LINE_WORDS * WORD_BITS)
        number = Signal(range(LINE_WORDS))
        tag = Signal(TAG_BITS)
        error = Signal()
        m.d.comb += answer.ready.eq(~is_delivering)
        m.d.comb += part.valid.eq(is_delivering)
        m.d.comb += part.constant.eq(tag == _CONSTANTS)
        m.d.comb += part.line.eq(self._lines[tag])
        m.d.comb += part.number.eq(number)
        m.d.comb += part.word.eq(line.word_select(number, WORD_BITS))
        m.d.comb += part.error.eq(error)
        with m.If(~is_delivering):
            m.d.sync += is_delivering.eq(answer.valid)
            m.d.sync += number.eq(0)
            m.d.sync += line.eq(answer.payload.data)
            m.d.sync += tag.eq(answer.payload.tag)
            m.d.sync += error.eq(answer.payload.error)
        with m.Else():
            m.d.sync += number.eq(number + 1)
            with m.If(number == LINE_WORDS - 1):
                m.d.sync += is_delivering.eq(0)

        is_requested = self.under_way.bit_select(answer.payload.tag, 1)
        m.d.sync += Assert(~answer.valid | is_requested, "memory answers without a request")
