"""What the stages of the stack's pipeline hand to each other."""

from amaranth.hdl import unsigned
from amaranth.lib import data

from rtl.isa.errors import WarpError
from rtl.isa.tokens import TOKENS_PER_LINE, TokenKind
from rtl.layouts import DEPTH_BITS, LINE_BITS, ThreadCodes
from rtl.params import WARP_THREADS, SmParams

from .lines import TokensOfLine
from .match import TokenVerdict
from .pointers import HIGH_BITS, WidePointer

__all__ = ["SEEN_BITS", "Progress", "Step", "Unwind", "check_stage", "commit_stage", "match_stage", "select_stage"]

SEEN_BITS = 3
"""Width of a count of lines that an unwind has seen, of those on chip."""


class Step(data.Struct):
    """What a stage does for its warp."""

    walk: unsigned(1)
    """A line is looked at for the token that ends an unwind."""
    quad: unsigned(1)
    """It is looked at for a QUAD token."""
    begins: unsigned(1)
    """The first line of its unwind."""
    seen: unsigned(SEEN_BITS)
    """Lines on chip above this one."""
    there: unsigned(1)
    """The line is on chip."""
    more: unsigned(1)
    """So is the one below."""
    lowest: unsigned(1)
    """It is line 0, or the stack is empty."""
    sink: unsigned(1)
    """All lines on chip are dead and in memory: the unwind goes on below them."""
    set: unsigned(1)
    """The stack pointer is set."""
    launch: unsigned(1)
    """The stack is emptied for a new warp; if ``sized``, it has a region in memory."""
    sized: unsigned(1)
    mode: unsigned(1)
    """The limit has changed."""
    wraps: unsigned(1)
    """A push has begun a new run of 16 tokens."""
    finish: unsigned(1)
    """A write-back is over."""


def match_stage(params: SmParams) -> data.StructLayout:
    """From the access: the line read, the pointer as it was."""
    return data.StructLayout({
        "warp": params.warp_bits, "step": Step, "error": WarpError, "line": TokensOfLine, "valid": TOKENS_PER_LINE,
        "pointer": WidePointer, "top": LINE_BITS, "value": 32})


def select_stage(params: SmParams) -> data.StructLayout:
    """From the match: a verdict on each token."""
    return data.StructLayout({
        "warp": params.warp_bits, "step": Step, "error": WarpError, "pointer": WidePointer, "number": LINE_BITS,
        "value": 32, "steps": HIGH_BITS, "codes": ThreadCodes, "verdicts": data.ArrayLayout(TokenVerdict, TOKENS_PER_LINE),
        "revived": data.ArrayLayout(WARP_THREADS, TOKENS_PER_LINE), "pcs": data.ArrayLayout(32, TOKENS_PER_LINE),
        "kinds": data.ArrayLayout(TokenKind, TOKENS_PER_LINE), "returned": 1, "stuck": 1})


def commit_stage(params: SmParams) -> data.StructLayout:
    """From the selection: what the operation makes of pointer and window; ``lines`` is a depth to set."""
    return data.StructLayout({
        "warp": params.warp_bits, "step": Step, "pointer": WidePointer, "value": 32, "lines": LINE_BITS,
        "number": LINE_BITS, "below": LINE_BITS, "stops": TOKENS_PER_LINE, "calls": TOKENS_PER_LINE,
        "found": 1, "failed": 1, "ends": 1, "waits": 1, "follower": 1})


def check_stage(params: SmParams) -> data.StructLayout:
    """From the commit: a pointer to hold against the limits; that of a push (``pushed``) only against the depth's."""
    return data.StructLayout({"warp": params.warp_bits, "high": HIGH_BITS, "calls": 8, "pushed": 1})


class Unwind(data.Struct):
    """What is kept of a warp's unwind from its beginning."""

    origin: unsigned(DEPTH_BITS)
    """Number of the topmost token then."""
    quad: unsigned(1)


class Progress(data.Struct):
    """What is kept of it from line to line."""

    seen: unsigned(SEEN_BITS)
    sunk: unsigned(1)
    """It has left the lines that were on chip when it began."""
    calls: unsigned(8)
    """Tokens popped that counted as calls."""
