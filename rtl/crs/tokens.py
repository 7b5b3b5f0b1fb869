"""The tokens on chip."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.tokens import CACHED_TOKENS, TOKENS_PER_LINE, TokenKind
from rtl.layouts import ThreadCode
from rtl.params import SmParams

from .words import read, write

__all__ = ["BODY_BITS", "StoredLine", "StoredToken", "TokenStore", "from_memory", "role_of"]

_WAITED_FOR = (TokenKind.BREAK, TokenKind.CONTINUE, TokenKind.RETURN, TokenKind.EXIT, TokenKind.LONGJMP)
_KINDS = tuple(kind for kind in TokenKind if kind is not TokenKind.ILLEGAL)
BODY_BITS = 65
"""Of a token, what comes late."""


class StoredToken(data.Struct):
    """A token on chip, 72 bits. ``role`` is the code that a thread must have to go on at it: the kind, or NONE if no
    thread leaves early to wait for it."""

    pc: unsigned(32)
    mask: unsigned(32)
    counted: unsigned(1)
    kind: TokenKind
    role: ThreadCode


StoredLine = data.ArrayLayout(StoredToken, TOKENS_PER_LINE)


def role_of(kind: Any) -> Value:
    """The role of a token of that kind."""
    waited_for = reduce(or_, (kind == each for each in _WAITED_FOR))
    return Mux(waited_for, kind.as_value()[:3], ThreadCode.NONE.value)


def from_memory(m: Module, token: Any, stored: Any) -> None:
    """Makes ``stored``, a StoredToken, what a MemoryToken means."""
    m.d.comb += [stored.pc.eq(token.pc), stored.mask.eq(token.mask), stored.counted.eq(token.counted),
                 stored.role.as_value().eq(role_of(stored.kind))]
    with m.Switch(token.kind):
        for kind in _KINDS:
            with m.Case(kind.value):
                m.d.comb += stored.kind.eq(kind)
        with m.Default():
            m.d.comb += stored.kind.eq(TokenKind.ILLEGAL)


class TokenStore(Component):
    """CACHED_TOKENS tokens a warp. In every cycle a line is read, and any tokens of a line are written.

    A line is read two cycles after it was written at the earliest; what is read in the cycle in which it is written is
    of no use. Kinds and roles are in LUTs, the rest, which comes late in the cycle, is in block RAM.

    Members
    -------
    read : In(slot and warp)
    line : Out(StoredLine)
        What was there a cycle ago.
    write, slot, written : In(4), In(slot and warp), In(StoredLine)
        Which tokens of a line are written.
    """

    def __init__(self, params: SmParams) -> None:
        lines = params.warps * CACHED_TOKENS // TOKENS_PER_LINE
        bits = params.warp_bits + (lines // params.warps - 1).bit_length()
        super().__init__({"read": In(bits), "line": Out(StoredLine), "write": In(TOKENS_PER_LINE), "slot": In(bits),
                          "written": In(StoredLine)})
        self.bodies, self.kinds = (
            [memory.Memory(shape=bits, depth=lines, init=[], attrs=attributes) for _ in range(TOKENS_PER_LINE)]
            for bits, attributes in ((BODY_BITS, {"ram_style": "block", "no_rw_check": 1}),
                                     (StoredToken.as_shape().size - BODY_BITS, {"ram_style": "distributed"})))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        at = Signal.like(self.read)
        m.d.sync += at.eq(self.read)
        for place, (bodies, kinds) in enumerate(zip(self.bodies, self.kinds, strict=True)):
            m.submodules[f"bodies{place}"], m.submodules[f"kinds{place}"] = bodies, kinds
            written, came = self.written[place], Signal(BODY_BITS, name=f"body{place}")
            write(m, bodies, self.write[place], self.slot, written.as_value()[:BODY_BITS])
            write(m, kinds, self.write[place], self.slot, written.as_value()[BODY_BITS:])
            # The register becomes the block RAM's own. A synchronous port would promise the old token to a read of what
            # is just written, which takes much logic.
            m.d.sync += came.eq(read(m, bodies, self.read))
            m.d.comb += self.line[place].eq(Cat(came, read(m, kinds, at)))
        return m
