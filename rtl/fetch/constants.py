"""The constant cache."""

from typing import Any

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import data, memory, stream
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.isa.syntax import WORD_BITS
from rtl.layouts import Event
from rtl.params import LINE_ADDRESS_BITS, SmParams
from rtl.structs import struct_value
from rtl.wires import IN_BLOCKS

from .records import (
    CONSTANT_BITS,
    LINE_CONSTANTS,
    LINE_WORDS,
    WORD_ADDRESS_BITS,
    LineLoaderPort,
    cache_line,
)

__all__ = ["ConstantCache"]

_IN_LINE_BITS = ceil_log2(LINE_CONSTANTS)
_IN_ROW_BITS = ceil_log2(WORD_BITS // CONSTANT_BITS)


class ConstantCache(Component):
    """The constant cache, direct mapped by the address in memory. A row has two 32-bit words,
    a line eight rows. ::

        address --> READ --> COMPARE --> hit, error, value
                    tag and row

    A line's tag is invalid from the arrival of its first part until its last part is written. A tag
    that is read in the cycle of a write to it counts as a miss.

    Members
    -------
    address : In(WORD_ADDRESS_BITS)
        The address of a 32-bit word to look up.
    hit, error, value : Out(1), Out(1), Out(32)
        Two cycles after ``address``: its line is in the cache; memory has no such line; the word.
    wanted : In(1)
        Requests the line of the lookup that ``hit`` answers in this cycle, if ``loader.free``.
    preload : In(stream of LINE_ADDRESS_BITS)
        A line that may be needed soon. It is requested when no other line is ``wanted``.
    loader : Out(LineLoaderPort)
        ``filled``: a line has been written. It is found by lookups whose ``address`` was applied in
        the previous cycle or later; the ``hit`` of this cycle may not see it yet.
    clear : In(Event(cache_line))
        This line of the cache becomes empty.
    """

    def __init__(self, params: SmParams) -> None:
        self._lines = params.constant_words // LINE_CONSTANTS
        self._index_bits = ceil_log2(self._lines)
        self._tag = data.StructLayout({
            "valid": 1,
            "error": 1,
            "line": LINE_ADDRESS_BITS - self._index_bits,
        })
        super().__init__({
            "address": In(WORD_ADDRESS_BITS),
            "hit": Out(1),
            "error": Out(1),
            "value": Out(CONSTANT_BITS),
            "wanted": In(1),
            "preload": In(stream.Signature(LINE_ADDRESS_BITS)),
            "loader": Out(LineLoaderPort()),
            "clear": In(Event(cache_line(params))),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.tags = tags = memory.Memory(
            shape=self._tag, depth=self._lines, init=[], attrs=IN_BLOCKS)
        m.submodules.rows = rows = memory.Memory(
            shape=WORD_BITS, depth=self._lines * LINE_WORDS, init=[], attrs=IN_BLOCKS)
        tag_write = tags.write_port()
        self._look_up(m, tags.read_port(domain="comb"), rows.read_port(domain="comb"), tag_write)
        self._fill(m, tag_write, rows.write_port())
        return m

    def _look_up(self, m: Module, tag_read: Any, row_read: Any, tag_write: Any) -> None:
        """READ: reads tag and row. Synthesis merges the registers after the memories into the block
        RAM. COMPARE: hit and word."""
        address = Signal(WORD_ADDRESS_BITS)
        tag: Any = Signal(self._tag)
        tag_is_written = Signal()
        row = Signal(WORD_BITS)
        m.d.comb += tag_read.addr.eq(self.address[_IN_LINE_BITS:])
        m.d.comb += row_read.addr.eq(self.address[_IN_ROW_BITS:])
        m.d.sync += address.eq(self.address)
        m.d.sync += tag.eq(tag_read.data)
        m.d.sync += tag_is_written.eq(tag_write.en & (tag_write.addr == tag_read.addr))
        m.d.sync += row.eq(row_read.data)

        has_tag = tag.line == address[_IN_LINE_BITS + self._index_bits:]
        m.d.sync += self.hit.eq(tag.valid & ~tag_is_written & has_tag)
        m.d.sync += self.error.eq(tag.error)
        m.d.sync += self.value.eq(row.word_select(address[:_IN_ROW_BITS], CONSTANT_BITS))
        self._request(m, address)

    def _request(self, m: Module, address: Value) -> None:
        """Requests the line of the lookup that missed, or else a line to preload. ``address`` is
        that in COMPARE; its hit is known in the next cycle."""
        miss = self.loader.miss
        missed_line = Signal(LINE_ADDRESS_BITS)
        m.d.sync += missed_line.eq(address[_IN_LINE_BITS:])
        with m.If(self.wanted):
            m.d.comb += miss.valid.eq(1)
            m.d.comb += miss.payload.eq(missed_line)
        with m.Elif(self.loader.free):
            m.d.comb += self.preload.ready.eq(1)
            m.d.comb += miss.valid.eq(self.preload.valid)
            m.d.comb += miss.payload.eq(self.preload.payload)

    def _fill(self, m: Module, tag_write: Any, row_write: Any) -> None:
        """Writes the parts of a line as they arrive, or clears a line."""
        arrives = self.loader.part.valid
        part = self.loader.part.payload
        is_first = part.number == 0
        is_last = part.number == LINE_WORDS - 1
        is_complete = Signal()
        m.d.comb += row_write.en.eq(arrives)
        m.d.comb += row_write.addr.eq(Cat(part.number, part.line))
        m.d.comb += row_write.data.eq(part.word)
        m.d.comb += tag_write.data.eq(struct_value(
            self._tag,
            valid=is_last & ~self.clear.valid,
            error=part.error,
            line=part.line[self._index_bits:]))
        with m.If(self.clear.valid):
            m.d.comb += tag_write.en.eq(1)
            m.d.comb += tag_write.addr.eq(self.clear.payload)
        with m.Else():
            m.d.comb += tag_write.en.eq(arrives & (is_first | is_last))
            m.d.comb += tag_write.addr.eq(part.line)
        m.d.sync += is_complete.eq(arrives & is_last)
        m.d.sync += self.loader.filled.eq(is_complete)
