"""The instruction cache."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.isa.control_code import GROUP_INSTRUCTIONS
from rtl.isa.errors import WarpError
from rtl.isa.syntax import WORD_BITS
from rtl.layouts import InstructionKind
from rtl.params import LINE_ADDRESS_BITS, SmParams
from rtl.wires import IN_BLOCKS

from .loader import line_part
from .predecode import Predecoder
from .records import GROUP_BITS, LINE_GROUPS, LINE_WORDS, StoredGroup, StoredInstruction

__all__ = ["InstructionCache"]

_LINE_BITS = GROUP_BITS - ceil_log2(LINE_GROUPS)
"""Width of a line's number, counted from pc 0."""
_ROW_WORDS = 1 + GROUP_INSTRUCTIONS


class InstructionCache(Component):
    """Direct mapped, by pc; a row of it is a group, a line two of them. What an instruction is is found out once,
    when its line comes.

    Members
    -------
    program : In(LINE_ADDRESS_BITS)
        The line of pc 0.
    registers : In(9)
        Of a thread.
    enable, group : In(1), In(GROUP_BITS)
        A group to look up, by its number.
    hit, stored : Out(1), Out(StoredGroup)
        A cycle after ``enable``, until the next one: whether it is there, and the group.
    wanted : In(1)
        What was looked up two cycles ago is not there, and shall be asked for.
    miss : Out(valid and address of a line), free : In(1)
        See LineLoader.
    part : In(line_part)
    filled : Out(1)
        A line has come, and is found by what is looked up from this cycle on.
    clearing, cleared : In(1), In
        This line of the cache becomes empty.
    """

    def __init__(self, params: SmParams) -> None:
        self._rows, self._knobs = params.instruction_groups, (params.floats, params.doubles)
        self.lines = params.instruction_groups // LINE_GROUPS
        """Lines in the cache."""
        super().__init__({
            "program": In(LINE_ADDRESS_BITS), "registers": In(9), "enable": In(1), "group": In(GROUP_BITS),
            "hit": Out(1), "stored": Out(StoredGroup), "wanted": In(1),
            "miss": Out(data.StructLayout({"valid": 1, "line": LINE_ADDRESS_BITS})), "free": In(1),
            "part": In(line_part()), "filled": Out(1), "clearing": In(1), "cleared": In(range(self.lines))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        index_bits = ceil_log2(self.lines)
        tag = data.StructLayout({"valid": 1, "line": _LINE_BITS - index_bits})
        # What is read of a line in the cycle of a write to its tag does not count, nor what is read of a row in the
        # cycle in which it is written: its line is not found then. The register behind it becomes the block RAM's own.
        m.submodules.tags = tags = memory.Memory(shape=tag, depth=self.lines, init=[], attrs=IN_BLOCKS)
        m.submodules.rows = rows = memory.Memory(shape=StoredGroup, depth=self._rows, init=[], attrs=IN_BLOCKS)
        tag_in, tag_out = tags.write_port(), tags.read_port(domain="comb")
        row_in, row_out = rows.write_port(), rows.read_port(domain="comb")

        # Look up.
        line, looked_up, changes = self.group[ceil_log2(LINE_GROUPS):], Signal(GROUP_BITS), Signal()
        found: Any = Signal(tag)
        m.d.comb += [tag_out.addr.eq(line), row_out.addr.eq(self.group)]
        with m.If(self.enable):
            m.d.sync += [looked_up.eq(self.group), self.stored.eq(row_out.data),
                         found.eq(tag_out.data), changes.eq(tag_in.en & (tag_in.addr == tag_out.addr))]
        sought, missed = looked_up[ceil_log2(LINE_GROUPS):], Signal(_LINE_BITS)
        m.d.comb += self.hit.eq(found.valid & ~changes & (found.line == sought[index_bits:]))
        m.d.sync += missed.eq(sought)

        # Ask.
        coming = Signal(_LINE_BITS)
        m.d.comb += [self.miss.valid.eq(self.wanted), self.miss.line.eq(self.program + missed)]
        with m.If(self.wanted & self.free):
            m.d.sync += coming.eq(missed)

        # Fill: a word a cycle, of which is found out what it is while it passes; then it is put into its row.
        m.submodules.predecoder = predecoder = Predecoder(*self._knobs)
        arriving, known = Signal(line_part()), Signal(line_part())
        instruction: Any = Signal(StoredInstruction)
        m.d.sync += [
            arriving.eq(self.part), arriving.valid.eq(self.part.valid & ~self.part.constant), known.eq(arriving)]
        m.d.comb += [
            predecoder.word.eq(arriving.word), predecoder.registers.eq(self.registers),
            instruction.word.eq(known.word), instruction.predecoded.eq(predecoder.predecoded)]
        with m.If(known.error):
            m.d.comb += [
                instruction.predecoded.kind.eq(InstructionKind.REFUSED),
                instruction.predecoded.error.eq(WarpError.MMU_FAULT.value), instruction.predecoded.constant.eq(0)]

        gathered: Any = Signal(StoredGroup)
        position = known.number[:ceil_log2(_ROW_WORDS)]
        with m.If(known.valid):
            with m.If(position == 0):
                m.d.sync += gathered.codes.eq(known.word[:WORD_BITS - 1])
            for number in range(GROUP_INSTRUCTIONS - 1):
                with m.If(position == number + 1):
                    m.d.sync += gathered.instructions[number].eq(instruction)
        m.d.comb += [
            row_in.en.eq(known.valid & (position == GROUP_INSTRUCTIONS)),
            row_in.addr.eq(Cat(known.number[ceil_log2(_ROW_WORDS):], coming)), row_in.data.eq(gathered),
            row_in.data.instructions[GROUP_INSTRUCTIONS - 1].eq(instruction)]

        # A line is not found from its first word on until its last one is there.
        last = known.number == LINE_WORDS - 1
        m.d.comb += [
            tag_in.en.eq(self.clearing | known.valid & (last | (known.number == 0))),
            tag_in.addr.eq(Mux(self.clearing, self.cleared, coming)), tag_in.data.valid.eq(~self.clearing & last),
            tag_in.data.line.eq(coming[index_bits:])]
        m.d.sync += self.filled.eq(known.valid & last)
        return m
