"""The tokens on chip."""

from amaranth.hdl import Cat, Module
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.tokens import CACHED_TOKENS, TOKENS_PER_LINE, Token
from rtl.params import SmParams

__all__ = ["CACHED_LINES", "LineMemory", "TokensOfLine"]

CACHED_LINES = CACHED_TOKENS // TOKENS_PER_LINE
"""Lines of a warp that fit on chip."""
TokensOfLine = data.ArrayLayout(Token, TOKENS_PER_LINE)
"""A line on chip."""


class LineMemory(wiring.Component):
    """The stack cache: CACHED_LINES lines a warp, read a line at a time, written a line or a token at a time.

    Line n of a stack lies at slot n modulo CACHED_LINES. A write is seen by reads of the next cycle on.

    Members
    -------
    read_warp, read_slot, line : In, In, Out
        The line at a slot of a warp, in the same cycle.
    write_warp, write_slot, write_tokens, write_line : In
        Where to write, which of the line's tokens, and what.
    """

    def __init__(self, params: SmParams) -> None:
        self._depth = params.warps * CACHED_LINES
        slot_bits = (CACHED_LINES - 1).bit_length()
        super().__init__({
            "read_warp": In(params.warp_bits), "read_slot": In(slot_bits), "line": Out(TokensOfLine),
            "write_warp": In(params.warp_bits), "write_slot": In(slot_bits), "write_tokens": In(TOKENS_PER_LINE),
            "write_line": In(TokensOfLine)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for token in range(TOKENS_PER_LINE):
            m.submodules[f"token{token}"] = bank = memory.Memory(shape=Token, depth=self._depth, init=[])
            read, write = bank.read_port(domain="comb"), bank.write_port()
            m.d.comb += [
                read.addr.eq(Cat(self.read_slot, self.read_warp)),
                self.line[token].eq(read.data),
                write.addr.eq(Cat(self.write_slot, self.write_warp)),
                write.data.eq(self.write_line[token]),
                write.en.eq(self.write_tokens[token])]
        return m
