"""The tokens on chip."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.tokens import CACHED_TOKENS, TOKENS_PER_LINE, TokenKind
from rtl.layouts import Event, ThreadCode
from rtl.params import SmParams

__all__ = ["BODY_BITS", "CACHED_LINES", "PLACE_BITS", "SLOT_BITS", "StoredLine", "StoredToken", "TokenLinePort",
           "TokenPort", "TokenStore", "role_of"]

_WAITED_FOR = (TokenKind.BREAK, TokenKind.CONTINUE, TokenKind.RETURN, TokenKind.EXIT, TokenKind.LONGJMP)
CACHED_LINES = CACHED_TOKENS // TOKENS_PER_LINE
"""Lines of a warp that fit on chip."""
SLOT_BITS = (CACHED_LINES - 1).bit_length()
"""Width of a line's slot: its number modulo CACHED_LINES."""
PLACE_BITS = (TOKENS_PER_LINE - 1).bit_length()
"""Width of a token's place in its line."""
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


KIND_BITS = StoredToken.as_shape().size - BODY_BITS
"""Of a token, what does not."""
StoredLine = data.ArrayLayout(StoredToken, TOKENS_PER_LINE)


def role_of(kind: Any) -> Value:
    """The role of a token of that kind."""
    waited_for = reduce(or_, (kind == each for each in _WAITED_FOR))
    return Mux(waited_for, kind.as_value()[:3], ThreadCode.NONE.value)


class TokenPort(wiring.Signature):
    """What the pipeline sees of the tokens on chip.

    Members
    -------
    walk, line : Out(Event(slot and warp)), In(StoredLine)
        A line is read, and what was there a cycle ago.
    push : Out(Event(slot, place, token, stored))
        A token may have to be written at a place of a line; it is, if ``stored``.
    """

    def __init__(self, params: SmParams) -> None:
        slot = params.warp_bits + SLOT_BITS
        push = data.StructLayout({"slot": slot, "place": PLACE_BITS, "token": StoredToken, "stored": 1})
        super().__init__({"walk": Out(Event(slot)), "line": In(StoredLine), "push": Out(Event(push))})


class TokenLinePort(wiring.Signature):
    """What the line transfer sees of them.

    Members
    -------
    read_slot, read_free, read : Out(slot and warp), In(1), In(StoredLine)
        A line that leaves, if nobody else reads, and what was there a cycle ago.
    write, write_slot, written, write_free : Out(1), Out(slot and warp), Out(StoredLine), In(1)
        A line that has come is written, if nobody else writes.
    """

    def __init__(self, params: SmParams) -> None:
        slot = params.warp_bits + SLOT_BITS
        super().__init__({
            "read_slot": Out(slot), "read_free": In(1), "read": In(StoredLine), "write": Out(1),
            "write_slot": Out(slot), "written": Out(StoredLine), "write_free": In(1)})


class TokenStore(Component):
    """CACHED_TOKENS tokens a warp. In every cycle a line is read, and any tokens of a line are written: an unwind reads
    before a line that leaves, a push writes before one that has come.

    A line is read two cycles after it was written at the earliest; what is read in the cycle in which it is written is
    of no use. Kinds and roles are in LUTs, the rest, which comes late in the cycle, is in block RAM.

    Members
    -------
    pipeline : In(TokenPort)
    lines : In(TokenLinePort)
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({"pipeline": In(TokenPort(params)), "lines": In(TokenLinePort(params))})
        depth = params.warps * CACHED_LINES
        self.bodies, self.kinds = (
            [memory.Memory(shape=bits, depth=depth, init=[], attrs=attributes) for _ in range(TOKENS_PER_LINE)]
            for bits, attributes in ((BODY_BITS, {"ram_style": "block", "no_rw_check": 1}),
                                     (KIND_BITS, {"ram_style": "distributed"})))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        walk, push, lines = self.pipeline.walk, self.pipeline.push, self.lines
        pushed, line = push.payload, Signal(StoredLine)
        reads, writes = (Signal.like(lines.read_slot, name=name) for name in ("reads", "writes"))
        m.d.comb += [
            reads.eq(Mux(walk.valid, walk.payload, lines.read_slot)), lines.read_free.eq(~walk.valid),
            writes.eq(Mux(push.valid, pushed.slot, lines.write_slot)), lines.write_free.eq(~push.valid),
            self.pipeline.line.eq(line), lines.read.eq(line)]
        # Kinds are written a cycle later: for the enables of their memories it would be late in this one.
        read, late = Signal.like(reads), Signal.like(writes)
        m.d.sync += [read.eq(reads), late.eq(writes)]
        for place, (bodies, kinds) in enumerate(zip(self.bodies, self.kinds, strict=True)):
            m.submodules[f"bodies{place}"], m.submodules[f"kinds{place}"] = bodies, kinds
            token, came, kind, enters = Signal(BODY_BITS + KIND_BITS), Signal(BODY_BITS), Signal(KIND_BITS), Signal()
            (out, into), (kind_out, kind_in) = (
                (store.read_port(domain="comb"), store.write_port()) for store in (bodies, kinds))
            m.d.comb += [
                token.eq(Mux(push.valid, pushed.token.as_value(), lines.written[place].as_value())),
                into.en.eq((pushed.stored & (pushed.place == place)) | (lines.write & lines.write_free)),
                into.addr.eq(writes), into.data.eq(token), out.addr.eq(reads),
                kind_in.en.eq(enters), kind_in.addr.eq(late), kind_in.data.eq(kind), kind_out.addr.eq(read),
                line[place].eq(Cat(came, kind_out.data))]
            # The register ``came`` becomes the block RAM's own. A synchronous port would promise the old token to a
            # read of what is just written, which takes much logic.
            m.d.sync += [came.eq(out.data), enters.eq(into.en), kind.eq(token[BODY_BITS:])]
        return m
