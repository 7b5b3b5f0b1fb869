"""The tokens on chip."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.isa.tokens import TOKENS_PER_LINE, TRAP_RESERVE, TokenKind
from rtl.layouts import Event, ThreadCode
from rtl.params import SmParams
from rtl.wires import IN_BLOCKS

__all__ = ["BODY_BITS", "LAST_PLACE", "PLACE_BITS", "POINTER_CALLS", "STEP_BITS", "STUCK", "StoredToken", "TokenPort",
           "TokenStore", "role_of", "steps_on_chip"]

_WAITED_FOR = (TokenKind.BREAK, TokenKind.CONTINUE, TokenKind.RETURN, TokenKind.EXIT, TokenKind.LONGJMP)
PLACE_BITS = (TOKENS_PER_LINE - 1).bit_length()
"""Width of a token's place in its line."""
LAST_PLACE = TOKENS_PER_LINE - 1
STEP_BITS = ceil_log2(TRAP_RESERVE)
"""Limits count steps of so many tokens, as a power of two: what is kept for the trap handler, half a granule."""
POINTER_CALLS = 23
"""Place of the API call depth in the format of GETCRSPTR and SETCRSPTR; the kill bit is the highest, the depth the
lowest."""
STUCK = (ThreadCode.NONE, ThreadCode.BREAK, ThreadCode.CONTINUE, ThreadCode.LONGJMP)
"""The codes of threads that a warp must not end without."""
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


_KIND_BITS = StoredToken.as_shape().size - BODY_BITS
"""Of a token, what does not."""
_Line = data.ArrayLayout(StoredToken, TOKENS_PER_LINE)


def steps_on_chip(params: SmParams) -> int:
    """Steps of the limit of a stack without a region, which has the tokens on chip alone. Less than one is one; then
    the stack is full when its number of tokens is that of those on chip."""
    return max(params.stack_tokens >> STEP_BITS, 1)


def role_of(kind: Any) -> Value:
    """The role of a token of that kind."""
    waited_for = kind.as_value().matches(*(each.value for each in _WAITED_FOR))
    return Mux(waited_for, kind.as_value()[:3], ThreadCode.NONE.value)


class TokenPort(wiring.Signature):
    """What the pipeline and the line transfer each see of the tokens on chip. Lines are numbered by warp and slot.

    Members
    -------
    read, read_free, line : Out(Event(slot)), In(1), In(array of StoredToken)
        A line is read, unless the other port reads; what was there a cycle ago.
    write, write_free : Out(Event(slot, places, tokens)), In(1)
        Of a line, the tokens in ``places`` are written, which comes late, unless the other port writes.
    """

    def __init__(self, params: SmParams) -> None:
        slot = params.warp_bits + params.stack_slot_bits
        super().__init__({
            "read": Out(Event(slot)), "read_free": In(1), "line": In(_Line), "write_free": In(1),
            "write": Out(Event(data.StructLayout({"slot": slot, "places": TOKENS_PER_LINE, "tokens": _Line})))})


class TokenStore(Component):
    """The tokens of all warps. In every cycle a line is read, and any tokens of a line are written; an unwind and a
    push go before lines that move.

    A line is read two cycles after it was written at the earliest; what is read in the cycle in which it is written is
    of no use. Kinds and roles are in LUTs, the rest, which comes late in the cycle, is in block RAM.

    Members
    -------
    pipeline, lines : In(TokenPort)
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({"pipeline": In(TokenPort(params)), "lines": In(TokenPort(params))})
        depth = params.warps * params.stack_lines
        self.bodies, self.kinds = (
            [memory.Memory(shape=bits, depth=depth, init=[], attrs=attributes) for _ in range(TOKENS_PER_LINE)]
            for bits, attributes in ((BODY_BITS, IN_BLOCKS),
                                     (_KIND_BITS, {"ram_style": "distributed"})))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        first, other, line, written = self.pipeline, self.lines, Signal(_Line), Signal.like(self.lines.write.payload)
        read, late, reads = (Signal.like(first.read.payload, name=name) for name in ("read", "late", "reads"))
        m.d.comb += [
            reads.eq(Mux(first.read.valid, first.read.payload, other.read.payload)),
            written.eq(Mux(first.write.valid, first.write.payload.as_value(), other.write.payload.as_value())),
            first.read_free.eq(1), first.write_free.eq(1), other.read_free.eq(~first.read.valid),
            other.write_free.eq(~first.write.valid), first.line.eq(line), other.line.eq(line)]
        # Kinds are written a cycle later: for the enables of their memories it would be late in this one.
        m.d.sync += [read.eq(reads), late.eq(written.slot)]
        writes = first.write.valid | other.write.valid
        for place, (bodies, kinds) in enumerate(zip(self.bodies, self.kinds, strict=True)):
            m.submodules[f"bodies{place}"], m.submodules[f"kinds{place}"] = bodies, kinds
            token: Any = written.tokens[place].as_value()
            came, kind, enters = Signal(BODY_BITS), Signal(_KIND_BITS), Signal()
            (out, into), (kind_out, kind_in) = (
                (store.read_port(domain="comb"), store.write_port()) for store in (bodies, kinds))
            m.d.comb += [
                into.en.eq(writes & written.places[place]), into.addr.eq(written.slot), into.data.eq(token),
                out.addr.eq(reads), kind_in.en.eq(enters), kind_in.addr.eq(late), kind_in.data.eq(kind),
                kind_out.addr.eq(read), line[place].eq(Cat(came, kind_out.data))]
            # The register ``came`` becomes the block RAM's own. A synchronous port would promise the old token to a
            # read of what is just written, which takes much logic.
            m.d.sync += [came.eq(out.data), enters.eq(into.en), kind.eq(token[BODY_BITS:])]
        return m
