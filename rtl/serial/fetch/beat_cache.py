"""The cache of a serial machine: for instructions and constants, a beat at a time."""

from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.fetch.records import LINE_CONSTANTS, LINE_GROUPS, TAG_BITS
from rtl.isa.syntax import WORD_BITS
from rtl.layouts import BEAT_NUMBER_BITS, BEATS, BeatPort
from rtl.params import LINE_ADDRESS_BITS, SmParams
from rtl.structs import struct_value
from rtl.wires import IN_BLOCKS

__all__ = ["BEAT_ADDRESS_BITS", "BeatCache"]

BEAT_ADDRESS_BITS = LINE_ADDRESS_BITS + BEAT_NUMBER_BITS
"""Width of the address of a beat, of 64 bits."""


class BeatCache(Component):
    """A cache that is direct mapped by the address in memory; one half is for instructions, the
    other one for constants. It has as many lines as two caches of the larger one's size. One beat
    is looked up at a time. ::

        look --> IDLE --> COMPARE --> found
                            |  ^
                       miss v  |
                         REQUEST --> FILL --> READ

    IDLE and READ read tag and row. FILL writes the beats of the line as they come, and the tag with
    the last one. CLEAR, which begins in IDLE, clears a tag a cycle.

    Members
    -------
    address, constant : In(BEAT_ADDRESS_BITS), In(1)
        The address of a beat, and its half; both are stable from the cycle before ``look`` to
        ``found``.
    look : In(1)
        It is looked up. Not before the cycle after the last ``found``.
    found, word, error : Out(1), Out(64), Out(1)
        For one cycle, in which ``look`` is still 1: the beat, or that memory reported an error.
        ``word`` follows ``address`` by a cycle.
    invalidate, busy : In(1), Out(1)
        The cache becomes empty before anything else is looked up; it is about to.
    memory : Out(BeatPort)
    """

    def __init__(self, params: SmParams) -> None:
        instruction_lines = params.instruction_groups // LINE_GROUPS
        constant_lines = params.constant_words // LINE_CONSTANTS
        self._lines = 2 * max(instruction_lines, constant_lines)
        super().__init__({
            "address": In(BEAT_ADDRESS_BITS),
            "constant": In(1),
            "look": In(1),
            "found": Out(1),
            "word": Out(WORD_BITS),
            "error": Out(1),
            "invalidate": In(1),
            "busy": Out(1),
            "memory": Out(BeatPort(TAG_BITS)),
        })
        # The address: the line of memory, the line of the cache that may hold it, and the rest,
        # which is the tag.
        index_bits = ceil_log2(self._lines)
        self._line = self.address[BEAT_NUMBER_BITS:]
        self._beat = self.address[:BEAT_NUMBER_BITS]
        self._index = Cat(self._line[:index_bits - 1], self.constant)
        self._rest = self._line[index_bits - 1:]
        self._tag_layout = data.StructLayout({"valid": 1, "error": 1, "line": len(self._rest)})
        self._tag: Any = Signal(self._tag_layout)
        """The tag that was read."""
        self._fills = Signal()
        """The last beat of a line is written, and its tag."""
        self._clears = Signal()
        self._cleared = Signal(index_bits)
        """The tag that is cleared."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.tags = tags = memory.Memory(
            shape=self._tag_layout, depth=self._lines, init=[], attrs=IN_BLOCKS)
        m.submodules.rows = rows = memory.Memory(
            shape=WORD_BITS, depth=self._lines * BEATS, init=[], attrs=IN_BLOCKS)
        self._read(m, tags.read_port(domain="comb"), rows.read_port(domain="comb"))
        self._write_row(m, rows.write_port())
        self._write_tag(m, tags.write_port())
        self._control(m)
        return m

    def _read(self, m: Module, tag_read: Any, row_read: Any) -> None:
        """Tag and row of the address. The registers are merged into the block RAM."""
        m.d.comb += tag_read.addr.eq(self._index)
        m.d.comb += row_read.addr.eq(Cat(self._beat, self._index))
        m.d.sync += self._tag.eq(tag_read.data)
        m.d.sync += self.word.eq(row_read.data)
        m.d.comb += self.error.eq(self._tag.error)

    def _write_row(self, m: Module, row_write: Any) -> None:
        """Beats of the line are written as they come."""
        response = self.memory.response
        m.d.comb += response.ready.eq(1)
        m.d.comb += row_write.en.eq(response.valid)
        m.d.comb += row_write.addr.eq(Cat(response.payload.beat, self._index))
        m.d.comb += row_write.data.eq(response.payload.data)

    def _write_tag(self, m: Module, tag_write: Any) -> None:
        """The tag of a line that has come, or of one that is cleared."""
        m.d.comb += tag_write.en.eq(self._fills | self._clears)
        m.d.comb += tag_write.addr.eq(Mux(self._clears, self._cleared, self._index))
        m.d.comb += tag_write.data.eq(struct_value(
            self._tag_layout,
            valid=~self._clears,
            error=self.memory.response.payload.error,
            line=self._rest))

    def _control(self, m: Module) -> None:
        """The states."""
        request = self.memory.request
        response = self.memory.response
        is_last_beat = response.valid & (response.payload.beat == BEATS - 1)
        is_filling = Signal()
        m.d.comb += request.payload.address.eq(self._line)
        with m.If(self.invalidate):
            m.d.sync += self.busy.eq(1)
        with m.FSM():
            with m.State("IDLE"):
                with m.If(self.busy):
                    m.next = "CLEAR"
                with m.Elif(self.look):
                    m.next = "COMPARE"
            with m.State("COMPARE"):
                m.d.comb += self.found.eq(self._tag.valid & (self._tag.line == self._rest))
                with m.If(self.found):
                    m.next = "IDLE"
                with m.Else():
                    m.next = "REQUEST"
            with m.State("REQUEST"):
                m.d.comb += request.valid.eq(1)
                with m.If(request.ready):
                    m.next = "FILL"
            with m.State("FILL"):
                m.d.comb += is_filling.eq(1)
                m.d.comb += self._fills.eq(is_last_beat)
                with m.If(is_last_beat):
                    m.next = "READ"
            with m.State("READ"):
                m.next = "COMPARE"
            with m.State("CLEAR"):
                m.d.comb += self._clears.eq(1)
                m.d.sync += self._cleared.eq(self._cleared + 1)
                with m.If(self._cleared.all()):
                    m.d.sync += self.busy.eq(self.invalidate)
                    m.next = "IDLE"
        m.d.sync += Assert(~response.valid | is_filling, "memory answers without a request")
