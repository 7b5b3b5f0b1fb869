"""The instruction cache."""

from typing import Any

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.isa.control_code import GROUP_INSTRUCTIONS
from rtl.isa.errors import WarpError
from rtl.layouts import Event, InstructionKind, delayed
from rtl.params import LINE_ADDRESS_BITS, SmParams
from rtl.structs import struct_value
from rtl.wires import IN_BLOCKS

from .predecode import Predecoder
from .records import (
    GROUP_BITS,
    LINE_GROUPS,
    LINE_WORDS,
    LineLoaderPort,
    StoredGroup,
    StoredInstruction,
    cache_line,
)

__all__ = ["InstructionCache"]

_GROUP_IN_LINE_BITS = ceil_log2(LINE_GROUPS)
_LINE_BITS = GROUP_BITS - _GROUP_IN_LINE_BITS
"""Width of a line's number, counted from pc 0."""
_GROUP_WORDS = 1 + GROUP_INSTRUCTIONS
"""A control word and its instructions."""
_POSITION_BITS = ceil_log2(_GROUP_WORDS)


class InstructionCache(Component):
    """Direct mapped by pc; a row is a group, a line two of them. Words are predecoded when their
    line comes from memory, and stored with what they are. ::

        group --> LOOK UP --> hit, stored

        part --> DECODE --> GATHER --> row --> filled

    LOOK UP reads tag and row, and keeps both: the comparison of tags follows in the next cycle. Of
    a line's eight words DECODE takes one a cycle; GATHER puts four of them together, a control word
    and three instructions, and writes the group with its last word.

    A line has no valid tag from its first word on until its last one is written. What is read of a
    tag in the cycle of a write to it does not count.

    Members
    -------
    program : In(LINE_ADDRESS_BITS)
        The line of pc 0.
    registers : In(9)
        Of a thread.
    enable, group : In(1), In(GROUP_BITS)
        A group to look up, by its number.
    hit, stored : Out(1), Out(StoredGroup)
        A cycle after ``enable``, until the next one: whether it is in the cache, and the group.
    wanted : In(1)
        The line that ``hit`` was about a cycle ago is requested, if the loader is free: its warp
        was in the fetch unit's LOOK UP then, and is in MISS now.
    loader : Out(LineLoaderPort)
        ``filled``: a line has been written. What is looked up from this cycle on finds it.
    clear : In(Event(cache_line))
        This line of the cache becomes empty.
    """

    def __init__(self, params: SmParams) -> None:
        self._rows = params.instruction_groups
        self._floats = params.floats
        self._doubles = params.doubles
        self._lines = params.instruction_groups // LINE_GROUPS
        self._index_bits = ceil_log2(self._lines)
        self._tag = data.StructLayout({"valid": 1, "line": _LINE_BITS - self._index_bits})
        super().__init__({
            "program": In(LINE_ADDRESS_BITS),
            "registers": In(9),
            "enable": In(1),
            "group": In(GROUP_BITS),
            "hit": Out(1),
            "stored": Out(StoredGroup),
            "wanted": In(1),
            "loader": Out(LineLoaderPort()),
            "clear": In(Event(cache_line(params))),
        })
        self._missed_line = Signal(_LINE_BITS)
        """The line that ``hit`` was about a cycle ago."""
        self._requested_line = Signal(_LINE_BITS)
        """The line that comes from memory."""
        self._instruction: Any = Signal(StoredInstruction)
        """The word in GATHER, if it is an instruction."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.tags = tags = memory.Memory(
            shape=self._tag, depth=self._lines, init=[], attrs=IN_BLOCKS)
        m.submodules.rows = rows = memory.Memory(
            shape=StoredGroup, depth=self._rows, init=[], attrs=IN_BLOCKS)
        tag_write = tags.write_port()
        self._look_up(m, tags.read_port(domain="comb"), rows.read_port(domain="comb"), tag_write)
        self._request(m)
        decoded = self._decode(m)
        self._gather(m, decoded, rows.write_port())
        self._write_tag(m, decoded, tag_write)
        return m

    def _look_up(self, m: Module, tag_read: Any, row_read: Any, tag_write: Any) -> None:
        """LOOK UP: tag and row. The registers behind the memories become those of the block RAM."""
        group = Signal(GROUP_BITS)
        tag: Any = Signal(self._tag)
        tag_is_written = Signal()
        m.d.comb += tag_read.addr.eq(self.group[_GROUP_IN_LINE_BITS:])
        m.d.comb += row_read.addr.eq(self.group)
        with m.If(self.enable):
            m.d.sync += group.eq(self.group)
            m.d.sync += tag.eq(tag_read.data)
            m.d.sync += tag_is_written.eq(tag_write.en & (tag_write.addr == tag_read.addr))
            m.d.sync += self.stored.eq(row_read.data)
        line = group[_GROUP_IN_LINE_BITS:]
        has_tag = tag.line == line[self._index_bits:]
        m.d.comb += self.hit.eq(tag.valid & ~tag_is_written & has_tag)
        m.d.sync += self._missed_line.eq(line)

    def _request(self, m: Module) -> None:
        """A miss."""
        loader = self.loader
        m.d.comb += loader.miss.valid.eq(self.wanted)
        m.d.comb += loader.miss.payload.eq(self.program + self._missed_line)
        with m.If(self.wanted & loader.free):
            m.d.sync += self._requested_line.eq(self._missed_line)

    def _decode(self, m: Module) -> Any:
        """DECODE: what a word is. The predecoder takes a cycle. A word that memory does not have is
        refused. Returns the word in GATHER."""
        m.submodules.predecoder = predecoder = Predecoder(self._floats, self._doubles)
        arrived = delayed(m, self.loader.part)
        decoded = delayed(m, arrived)
        instruction = self._instruction
        m.d.comb += predecoder.word.eq(arrived.payload.word)
        m.d.comb += predecoder.registers.eq(self.registers)
        m.d.comb += instruction.eq(struct_value(
            StoredInstruction, word=decoded.payload.word, predecoded=predecoder.predecoded))
        with m.If(decoded.payload.error):
            m.d.comb += instruction.predecoded.kind.eq(InstructionKind.REFUSED)
            m.d.comb += instruction.predecoded.error.eq(WarpError.MMU_FAULT.value)
            m.d.comb += instruction.predecoded.constant.eq(0)
        return decoded

    def _gather(self, m: Module, decoded: Any, row_write: Any) -> None:
        """GATHER: the words of a group; its last instruction goes into the row by itself."""
        part = decoded.payload
        group: Any = Signal(StoredGroup)
        position = part.number[:_POSITION_BITS]
        group_in_line = part.number[_POSITION_BITS:]
        last = GROUP_INSTRUCTIONS - 1
        with m.If(decoded.valid), m.Switch(position):
            with m.Case(0):
                m.d.sync += group.codes.eq(part.word[:len(group.codes)])
            for slot in range(last):
                with m.Case(1 + slot):
                    m.d.sync += group.instructions[slot].eq(self._instruction)
        m.d.comb += row_write.en.eq(decoded.valid & (position == 1 + last))
        m.d.comb += row_write.addr.eq(Cat(group_in_line, self._requested_line))
        m.d.comb += row_write.data.eq(group)
        m.d.comb += row_write.data.instructions[last].eq(self._instruction)

    def _write_tag(self, m: Module, decoded: Any, tag_write: Any) -> None:
        """The tag of the line that comes, or of one that is cleared."""
        is_first = decoded.payload.number == 0
        is_last = decoded.payload.number == LINE_WORDS - 1
        m.d.comb += tag_write.data.eq(struct_value(
            self._tag,
            valid=is_last & ~self.clear.valid,
            line=self._requested_line[self._index_bits:]))
        with m.If(self.clear.valid):
            m.d.comb += tag_write.en.eq(1)
            m.d.comb += tag_write.addr.eq(self.clear.payload)
        with m.Else():
            m.d.comb += tag_write.en.eq(decoded.valid & (is_first | is_last))
            m.d.comb += tag_write.addr.eq(self._requested_line)
        m.d.sync += self.loader.filled.eq(decoded.valid & is_last)
