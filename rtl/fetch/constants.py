"""The constant cache."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.isa.syntax import WORD_BITS
from rtl.isa.tokens import LINE_BYTES
from rtl.params import LINE_ADDRESS_BITS, SmParams
from rtl.wires import IN_BLOCKS

from .loader import line_part
from .records import LINE_WORDS

__all__ = ["WORD_ADDRESS_BITS", "ConstantCache"]

_CONSTANT_BITS = 32
_LINE_CONSTANTS = 8 * LINE_BYTES // _CONSTANT_BITS
WORD_ADDRESS_BITS = LINE_ADDRESS_BITS + ceil_log2(_LINE_CONSTANTS)
"""Width of the address of a 32-bit word."""


class ConstantCache(Component):
    """Direct mapped, by the address in memory.

    Members
    -------
    address : In(WORD_ADDRESS_BITS)
        Of a 32-bit word to look up.
    hit, error, value : Out(1), Out(1), Out(32)
        Two cycles after ``address``: whether its line is there; memory has none; the word.
    wanted : In(1)
        It is not there, and shall be asked for.
    miss : Out(valid and address of a line), free : In(1)
        See LineLoader.
    part : In(line_part)
    filled : Out(1)
        A line has come, and is found by what was looked up from the cycle before on: ``hit`` is a cycle too old.
    clearing, cleared : In(1), In
        This line of the cache becomes empty.
    """

    def __init__(self, params: SmParams) -> None:
        self.lines = params.constant_words // _LINE_CONSTANTS
        """Lines in the cache."""
        super().__init__({
            "address": In(WORD_ADDRESS_BITS), "hit": Out(1), "error": Out(1), "value": Out(_CONSTANT_BITS),
            "wanted": In(1), "miss": Out(data.StructLayout({"valid": 1, "line": LINE_ADDRESS_BITS})), "free": In(1),
            "part": In(line_part()), "filled": Out(1), "clearing": In(1), "cleared": In(range(self.lines))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        index_bits, words = ceil_log2(self.lines), WORD_BITS // _CONSTANT_BITS
        line_at = ceil_log2(_LINE_CONSTANTS)
        tag = data.StructLayout({"valid": 1, "error": 1, "line": LINE_ADDRESS_BITS - index_bits})
        # What is read of a line in the cycle of a write to its tag does not count.
        m.submodules.tags = tags = memory.Memory(shape=tag, depth=self.lines, init=[], attrs=IN_BLOCKS)
        m.submodules.rows = rows = memory.Memory(
            shape=WORD_BITS, depth=self.lines * LINE_WORDS, init=[], attrs=IN_BLOCKS)
        tag_in, tag_out = tags.write_port(), tags.read_port(domain="comb")
        row_in, row_out = rows.write_port(), rows.read_port(domain="comb")

        looked_up, line, changes = Signal(WORD_ADDRESS_BITS), Signal(LINE_ADDRESS_BITS), Signal()
        found: Any = Signal(tag)
        row = Signal(WORD_BITS)
        m.d.sync += [
            looked_up.eq(self.address), found.eq(tag_out.data), row.eq(row_out.data),
            changes.eq(tag_in.en & (tag_in.addr == tag_out.addr)), line.eq(looked_up[line_at:]),
            self.hit.eq(found.valid & ~changes & (found.line == looked_up[line_at + index_bits:])),
            self.error.eq(found.error), self.value.eq(row.word_select(looked_up[:ceil_log2(words)], _CONSTANT_BITS))]
        m.d.comb += [
            tag_out.addr.eq(self.address[line_at:]), row_out.addr.eq(self.address[ceil_log2(words):]),
            self.miss.valid.eq(self.wanted), self.miss.line.eq(line)]

        # A line is not found from its first word on until its last one is there.
        part = self.part
        arriving, first, last = part.valid & part.constant, part.number == 0, part.number == LINE_WORDS - 1
        m.d.comb += [
            row_in.en.eq(arriving), row_in.addr.eq(Cat(part.number, part.line)), row_in.data.eq(part.word),
            tag_in.en.eq(self.clearing | arriving & (first | last)),
            tag_in.addr.eq(Mux(self.clearing, self.cleared, part.line)),
            tag_in.data.valid.eq(~self.clearing & last), tag_in.data.error.eq(part.error),
            tag_in.data.line.eq(part.line[index_bits:])]
        came = Signal()
        m.d.sync += [came.eq(arriving & last), self.filled.eq(came)]
        return m
