"""The tokens on chip."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.isa.tokens import TOKENS_PER_LINE, TRAP_RESERVE, TokenKind
from rtl.layouts import Event, ThreadCode
from rtl.params import SmParams
from rtl.wires import IN_BLOCKS
from rtl.words import Words

__all__ = [
    "BODY_BITS",
    "LAST_PLACE",
    "PLACE_BITS",
    "POINTER_CALLS",
    "STEP_BITS",
    "STUCK",
    "LineTokenPort",
    "StoredLine",
    "StoredToken",
    "TokenPort",
    "TokenStore",
    "line_number_bits",
    "role_of",
    "steps_on_chip",
    "token_slot_bits",
    "token_write",
]

_WAITED_FOR = (
    TokenKind.BREAK, TokenKind.CONTINUE, TokenKind.RETURN, TokenKind.EXIT, TokenKind.LONGJMP)
PLACE_BITS = (TOKENS_PER_LINE - 1).bit_length()
"""Width of a token's place in its line."""
LAST_PLACE = TOKENS_PER_LINE - 1
STEP_BITS = ceil_log2(TRAP_RESERVE)
"""Tokens of half a granule, as a power of two: 16. Limits count half granules; the last half is
kept for the trap handler."""
POINTER_CALLS = 23
"""Place of the API call depth in the format of GETCRSPTR and SETCRSPTR; the kill bit is the
highest, the depth the lowest."""
STUCK = (ThreadCode.NONE, ThreadCode.BREAK, ThreadCode.CONTINUE, ThreadCode.LONGJMP)
"""If a thread has one of these codes when no token is left, it waits for a token that there is not:
the warp does not end, but has STACK_ERROR."""
BODY_BITS = 65
"""The fields of a token that are stored in block RAM, and are late in the cycle: pc, mask and
``counted``."""


class StoredToken(data.Struct):
    """A token on chip, 72 bits."""

    pc: unsigned(32)
    mask: unsigned(32)
    counted: unsigned(1)
    """It raised the API call depth."""
    kind: TokenKind
    role: ThreadCode
    """The code that a thread must have to continue at it: the kind, if threads leave the active
    mask with that kind as their code (BRK, RET and so on); NONE for others, as SYNC and DIVERGE."""


_KIND_BITS = StoredToken.as_shape().size - BODY_BITS
"""The fields of a token that are stored in LUTs, and are early in the cycle: kind and role."""
StoredLine = data.ArrayLayout(StoredToken, TOKENS_PER_LINE)


def steps_on_chip(params: SmParams) -> int:
    """Half granules in the limit of a stack without a region, which has the tokens on chip alone.
    Less than one counts as one; then the stack is full when all tokens on chip are used."""
    return max(params.stack_tokens >> STEP_BITS, 1)


def token_slot_bits(params: SmParams) -> int:
    """The bits of a token's number that address it on chip: its place, its line's slot."""
    return PLACE_BITS + params.stack_slot_bits


def line_number_bits(params: SmParams) -> int:
    """Width of a line's number among the lines on chip of all warps: its slot, and the warp."""
    return params.stack_slot_bits + params.warp_bits


def role_of(kind: Any) -> Value:
    """The role of a token of that kind."""
    waited_for = kind.as_value().matches(*(each.value for each in _WAITED_FOR))
    return Mux(waited_for, kind.as_value()[:3], ThreadCode.NONE.value)


def token_write(params: SmParams) -> Event:
    """Tokens of a line to write: the line's number (``slot``), which ``places`` of it, and all four
    ``tokens``."""
    return Event(data.StructLayout({
        "slot": line_number_bits(params),
        "places": TOKENS_PER_LINE,
        "tokens": StoredLine,
    }))


class TokenPort(wiring.Signature):
    """The pipeline's port of the tokens on chip. Its requests are never refused.

    Members
    -------
    read : Out(Event(slot))
        Number of a line to read.
    line : In(array of StoredToken)
        The line that was read a cycle ago, by either port.
    write : Out(token_write)
        The tokens come late in the cycle.
    """

    def __init__(self, params: SmParams, **others: Any) -> None:
        super().__init__({
            "read": Out(Event(line_number_bits(params))),
            "line": In(StoredLine),
            "write": Out(token_write(params)),
            **others,
        })


class LineTokenPort(TokenPort):
    """The line transfer's port of the tokens on chip. The pipeline has priority over it.

    Members
    -------
    read, line, write
        See TokenPort.
    read_free : In(1)
        The pipeline does not read: only then is the line read.
    write_free : In(1)
        The pipeline does not write: only then are the tokens written.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__(params, read_free=In(1), write_free=In(1))


class TokenStore(Component):
    """The tokens of all warps. In every cycle a line is read, and any tokens of a line are written;
    an unwind and a push have priority over lines that move.

    Each place of a line has separate memories, so that a line is read or written in one cycle. A
    line may be read from the cycle after a write to it on; a read in the same cycle returns an
    undefined value. Kinds and roles are in LUTs; the rest is in block RAM, and late in the cycle.

    Members
    -------
    pipeline : In(TokenPort)
    lines : In(LineTokenPort)
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({"pipeline": In(TokenPort(params)), "lines": In(LineTokenPort(params))})
        depth = params.warps * params.stack_lines
        self.bodies = [Words(BODY_BITS, depth, **IN_BLOCKS) for _ in range(TOKENS_PER_LINE)]
        self.kinds = [
            Words(_KIND_BITS, depth, ram_style="distributed") for _ in range(TOKENS_PER_LINE)]
        self._read_slot = Signal(line_number_bits(params), name="read_slot")
        """The line that is read."""
        self._writes = Signal(name="writes")
        self._write: Any = Signal(self.lines.write.payload.shape(), name="write")
        """What is written, by either port."""
        self._line: Any = Signal(StoredLine, name="line")
        self._late_read_slot = Signal.like(self._read_slot, name="late_read_slot")
        self._late_write_slot = Signal.like(self._read_slot, name="late_write_slot")
        """What was read and written a cycle ago."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._arbitrate(m)
        for place in range(TOKENS_PER_LINE):
            self._store(m, place)
        return m

    def _arbitrate(self, m: Module) -> None:
        """Arbitrates between the two ports: the pipeline has priority."""
        pipeline = self.pipeline
        lines = self.lines
        m.d.comb += lines.read_free.eq(~pipeline.read.valid)
        with m.If(pipeline.read.valid):
            m.d.comb += self._read_slot.eq(pipeline.read.payload)
        with m.Else():
            m.d.comb += self._read_slot.eq(lines.read.payload)

        m.d.comb += lines.write_free.eq(~pipeline.write.valid)
        m.d.comb += self._writes.eq(pipeline.write.valid | lines.write.valid)
        with m.If(pipeline.write.valid):
            m.d.comb += self._write.eq(pipeline.write.payload)
        with m.Else():
            m.d.comb += self._write.eq(lines.write.payload)

        m.d.sync += self._late_read_slot.eq(self._read_slot)
        m.d.sync += self._late_write_slot.eq(self._write.slot)
        m.d.comb += pipeline.line.eq(self._line)
        m.d.comb += lines.line.eq(self._line)

    def _store(self, m: Module, place: int) -> None:
        """The tokens in one place of all lines."""
        bodies = self.bodies[place]
        kinds = self.kinds[place]
        m.submodules[f"bodies{place}"] = bodies
        m.submodules[f"kinds{place}"] = kinds
        token: Any = self._write.tokens[place].as_value()
        writes = Signal(name=f"writes{place}")
        m.d.comb += writes.eq(self._writes & self._write.places[place])

        # The register behind the read port becomes the block RAM's own. A synchronous port would
        # promise the old token to a read of what is just written, which takes much logic.
        body = Signal(BODY_BITS, name=f"body{place}")
        m.d.sync += body.eq(bodies.read(m, self._read_slot))
        bodies.write(m, writes, self._write.slot, token[:BODY_BITS])

        # Kinds are read and written a cycle later: for the write enables of their memories a token
        # would be late in its own cycle.
        late_writes = Signal(name=f"late_writes{place}")
        late_kind = Signal(_KIND_BITS, name=f"late_kind{place}")
        m.d.sync += late_writes.eq(writes)
        m.d.sync += late_kind.eq(token[BODY_BITS:])
        kinds.write(m, late_writes, self._late_write_slot, late_kind)
        m.d.comb += self._line[place].eq(Cat(body, kinds.read(m, self._late_read_slot)))
