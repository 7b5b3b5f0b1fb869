"""The tokens on chip."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Module, Mux, Value, unsigned
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.tokens import CACHED_TOKENS, TokenKind
from rtl.layouts import ThreadCode
from rtl.params import SmParams

__all__ = ["StoredToken", "TokenStore", "from_memory", "role_of"]

_WAITED_FOR = (TokenKind.BREAK, TokenKind.CONTINUE, TokenKind.RETURN, TokenKind.EXIT, TokenKind.LONGJMP)
_KINDS = tuple(kind for kind in TokenKind if kind is not TokenKind.ILLEGAL)


class StoredToken(data.Struct):
    """A token on chip, 72 bits."""

    pc: unsigned(32)
    mask: unsigned(32)
    kind: TokenKind
    counted: unsigned(1)
    role: ThreadCode
    """The code that a thread must have to go on at this token: the kind, or NONE if no thread leaves early to wait for
    it.
    """


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
    """CACHED_TOKENS tokens a warp in block RAM. One is written and one is read in every cycle.

    A token is read two cycles after it was written at the earliest; what is read in the cycle in which its place is
    written is of no use.

    Members
    -------
    read : In(place)
        A warp, and a token's number modulo CACHED_TOKENS.
    token : Out(StoredToken)
        What was there a cycle ago.
    write, place, written : In(1), In(place), In(StoredToken)
    """

    def __init__(self, params: SmParams) -> None:
        bits = params.warp_bits + (CACHED_TOKENS - 1).bit_length()
        super().__init__({"read": In(bits), "token": Out(StoredToken), "write": In(1), "place": In(bits),
                          "written": In(StoredToken)})
        attributes: Any = {"ram_style": "block", "no_rw_check": 1}
        self.tokens = memory.Memory(shape=StoredToken, depth=params.warps * CACHED_TOKENS, init=[], attrs=attributes)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.tokens = self.tokens
        # The register becomes the block RAM's own. A synchronous port would promise the old token to a read of what is
        # just written, which takes much logic.
        read, write = self.tokens.read_port(domain="comb"), self.tokens.write_port()
        m.d.sync += self.token.eq(read.data)
        m.d.comb += [read.addr.eq(self.read), write.addr.eq(self.place), write.en.eq(self.write),
                     write.data.eq(self.written)]
        return m
