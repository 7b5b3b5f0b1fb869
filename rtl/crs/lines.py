"""The tokens on chip."""

from typing import Any

from amaranth.hdl import Cat, Module
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.tokens import CACHED_TOKENS, TOKENS_PER_LINE, Token
from rtl.params import SmParams

__all__ = ["CACHED_LINES", "SLOT_BITS", "LineStore", "TokensOfLine", "TopLines"]

CACHED_LINES = CACHED_TOKENS // TOKENS_PER_LINE
"""Lines of a warp that fit on chip."""
SLOT_BITS = (CACHED_LINES - 1).bit_length()
"""Width of a line's slot: its number modulo CACHED_LINES."""
TokensOfLine = data.ArrayLayout(Token, TOKENS_PER_LINE)
"""A line on chip."""


class LineStore(Component):
    """The stack cache: CACHED_LINES lines a warp in block RAM. One line is read in every cycle, and is there in the
    next.

    Members
    -------
    read_warp, read_slot, line : In, In, Out
        The line at a slot of a warp, in the next cycle.
    write_warp, write_slot, write_tokens, write_line : In
        Where to write, which of the line's tokens, and what. What is read there in the same cycle is of no use.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "read_warp": In(params.warp_bits), "read_slot": In(SLOT_BITS), "line": Out(TokensOfLine),
            "write_warp": In(params.warp_bits), "write_slot": In(SLOT_BITS), "write_tokens": In(TOKENS_PER_LINE),
            "write_line": In(TokensOfLine)})
        attributes: Any = {"ram_style": "block", "no_rw_check": 1}
        self.banks = [memory.Memory(shape=Token, depth=params.warps * CACHED_LINES, init=[], attrs=attributes)
                      for _ in range(TOKENS_PER_LINE)]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for token, bank in enumerate(self.banks):
            m.submodules[f"token{token}"] = bank
            # The register becomes the block RAM's own. A synchronous port would promise the old token to a read of
            # what is just written, which takes as much logic again as all else here.
            read, write = bank.read_port(domain="comb"), bank.write_port()
            m.d.sync += self.line[token].eq(read.data)
            m.d.comb += [
                read.addr.eq(Cat(self.read_slot, self.read_warp)),
                write.addr.eq(Cat(self.write_slot, self.write_warp)),
                write.data.eq(self.write_line[token]), write.en.eq(self.write_tokens[token])]
        return m


class TopLines(Component):
    """A second copy of each warp's top line, there in the cycle that asks for it.

    Members
    -------
    read_warp, line : In, Out
    write_warp, write_tokens, write_line : In
        Seen by reads of the next cycle on.
    """

    def __init__(self, params: SmParams) -> None:
        self._depth = params.warps
        super().__init__({
            "read_warp": In(params.warp_bits), "line": Out(TokensOfLine),
            "write_warp": In(params.warp_bits), "write_tokens": In(TOKENS_PER_LINE), "write_line": In(TokensOfLine)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for token in range(TOKENS_PER_LINE):
            m.submodules[f"token{token}"] = bank = memory.Memory(shape=Token, depth=self._depth, init=[])
            read, write = bank.read_port(domain="comb"), bank.write_port()
            m.d.comb += [
                read.addr.eq(self.read_warp), self.line[token].eq(read.data), write.addr.eq(self.write_warp),
                write.data.eq(self.write_line[token]), write.en.eq(self.write_tokens[token])]
        return m
