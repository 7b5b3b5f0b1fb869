"""Tokens of the call/return stack: their kinds, and their format in memory.

=======  =====================================================================
bytes    content
=======  =====================================================================
0..3     ``pc``; in MASKS tokens a second mask; bits 1:0 of a TRAP token's are
         the number of holes under it, which are popped with it (ours)
4..7     ``mask`` (position: ours)
8        ``kind``
9        bit 0: ``counted``, the token raised the API call depth (ours)
10..15   zero
=======  =====================================================================

The kinds are choices of this project, TRAP alone has a public number.
"""

from amaranth.hdl import unsigned
from amaranth.lib import data, enum

__all__ = [
    "API_CALL_LIMIT",
    "CACHED_TOKENS",
    "CRS_GRANULE",
    "HOLE_BITS",
    "LINE_BYTES",
    "TOKENS_PER_LINE",
    "TOKEN_BYTES",
    "TRAP_RESERVE",
    "MemoryToken",
    "Token",
    "TokenKind",
]

TOKEN_BYTES = 16
"""Bytes of one token in memory."""
TOKENS_PER_LINE = 4
"""Tokens that are spilled or filled at once."""
HOLE_BITS = 2
"""Of a TRAP token's pc: how many holes are under it."""
LINE_BYTES = TOKEN_BYTES * TOKENS_PER_LINE
"""Bytes of a line: the unit of the memory port."""
CACHED_TOKENS = 16
"""Tokens of a warp that fit on chip, unless the machine has another number of them."""
TRAP_RESERVE = 16
"""Tokens at the end of a warp's region that user mode may not fill."""
CRS_GRANULE = 512
"""A warp's region is a multiple of this many bytes."""
API_CALL_LIMIT = 32
"""Calls that may be open at once when the launch enables the check."""


class TokenKind(enum.Enum, shape=4):
    """What a token is for. NONE is a hole that an unwind skips."""

    NONE = 0x0
    SYNC = 0x1
    DIVERGE = 0x2
    BREAK = 0x3
    CONTINUE = 0x4
    RETURN = 0x5
    EXIT = 0x6
    LONGJMP = 0x7
    QUAD = 0x8
    TRAP = 0xA
    MASKS = 0xB
    ILLEGAL = 0xF
    """Not a kind: the cache's code for any other kind byte in memory (ours)."""


class Token(data.Struct):
    """A token on chip."""

    pc: unsigned(32)
    mask: unsigned(32)
    kind: TokenKind
    counted: unsigned(1)


class MemoryToken(data.Struct):
    """A token in memory, least significant byte first."""

    pc: unsigned(32)
    mask: unsigned(32)
    kind: unsigned(8)
    counted: unsigned(1)
    zero: unsigned(55)
