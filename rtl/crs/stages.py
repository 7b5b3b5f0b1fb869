"""What the stages of the stack's pipeline hand to each other."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Mux, Value, unsigned
from amaranth.lib import data

from rtl.isa.errors import WarpError
from rtl.isa.tokens import HOLE_BITS, TOKENS_PER_LINE, TokenKind
from rtl.layouts import DEPTH_BITS, LINE_BITS, ThreadCodes
from rtl.params import WARP_THREADS, SmParams

from .lines import CACHED_LINES, SLOT_BITS, TokensOfLine
from .match import TokenRole, TokenVerdict
from .pointers import HIGH_BITS, WidePointer
from .window import CommitEvents

__all__ = [
    "SEEN_BITS",
    "Progress",
    "StackRefusal",
    "Step",
    "Unwind",
    "answer_stage",
    "apply_stage",
    "commit_stage",
    "error_of",
    "match_stage",
    "select_stage",
    "turn_stage",
]

SEEN_BITS = 3
"""Width of a count of lines that an unwind has seen, of those on chip."""


class Step(data.Struct):
    """What the stages do for a warp."""

    walk: unsigned(1)
    """A line is looked at for the token that ends an unwind."""
    quad: unsigned(1)
    """It is looked at for a QUAD token."""
    frame: unsigned(1)
    """It is looked at for a trap frame."""
    begins: unsigned(1)
    """The first line of its unwind."""
    seen: unsigned(SEEN_BITS)
    """Lines on chip above this one."""
    cached: unsigned(CACHED_LINES)
    """This line and those below it on chip, a run of ones."""
    bottom: unsigned(1)
    """No line lies below those on chip."""
    restore: unsigned(1)
    """The copy of the top line is made again."""
    sink: unsigned(1)
    """All lines on chip are dead and in memory: the unwind goes on below them."""
    finish: unsigned(1)
    """A write-back is over."""
    get: unsigned(1)
    """The stack pointer is read."""
    set: unsigned(1)
    """The stack pointer is set."""
    launch: unsigned(1)
    """The stack is emptied for a new warp; if ``sized``, it has a region in memory."""
    sized: unsigned(1)
    mode: unsigned(1)
    """The limit has changed."""
    counts: unsigned(1)
    """A push has raised the API call depth, which is limited."""
    wraps: unsigned(1)
    """A push has begun a new run of 16 tokens."""
    ends: unsigned(1)
    """The warp's next request may follow, if no unwind goes on."""


class StackRefusal(data.Struct):
    """Why a request is refused; one at most."""

    calls: unsigned(1)
    """A call at the limit of calls."""
    room: unsigned(1)
    """No room for a token."""
    line: unsigned(1)
    """Memory could not give a line."""
    region: unsigned(1)
    """A pointer is set where there is no memory behind it."""


def match_stage(params: SmParams) -> data.StructLayout:
    """From the access: the line read, the pointer as it was."""
    return data.StructLayout({
        "warp": params.warp_bits, "step": Step, "refusal": StackRefusal, "line": TokensOfLine,
        "roles": data.ArrayLayout(TokenRole, TOKENS_PER_LINE), "valid": TOKENS_PER_LINE,
        "slot": SLOT_BITS, "codes": ThreadCodes, "pointer": WidePointer, "top": SLOT_BITS, "value": 32})


def select_stage(params: SmParams) -> data.StructLayout:
    """From the match: a verdict on each token."""
    return data.StructLayout({
        "warp": params.warp_bits, "step": Step, "error": WarpError, "top": SLOT_BITS,
        "value": 32, "steps": HIGH_BITS, "codes": ThreadCodes,
        "verdicts": data.ArrayLayout(TokenVerdict, TOKENS_PER_LINE),
        "revived": data.ArrayLayout(WARP_THREADS, TOKENS_PER_LINE), "pcs": data.ArrayLayout(32, TOKENS_PER_LINE),
        "kinds": data.ArrayLayout(TokenKind, TOKENS_PER_LINE), "returned": 1, "stuck": 1})


def answer_stage(params: SmParams) -> data.StructLayout:
    """From the selection: the tokens that the answer is one of, and the rest of it."""
    return data.StructLayout({
        "warp": params.warp_bits, "resume": 1, "empty": 1, "error": WarpError, "chosen": TOKENS_PER_LINE,
        "pcs": data.ArrayLayout(32, TOKENS_PER_LINE), "kinds": data.ArrayLayout(TokenKind, TOKENS_PER_LINE),
        "revived": data.ArrayLayout(WARP_THREADS, TOKENS_PER_LINE), "codes": ThreadCodes, "value": 32})


def commit_stage(params: SmParams) -> data.StructLayout:
    """From the selection: what the operation makes of pointer and window; ``lines`` is a depth to set;
    ``holes`` go with the token that is found, from the line below."""
    return data.StructLayout({
        "warp": params.warp_bits, "step": Step, "pointer": WidePointer, "value": 32, "lines": LINE_BITS,
        "number": LINE_BITS, "below": LINE_BITS, "stops": TOKENS_PER_LINE, "holes": HOLE_BITS,
        "calls": TOKENS_PER_LINE,
        "found": 1, "failed": 1, "ends": 1, "waits": 1, "done": 1, "restores": 1})


def turn_stage(params: SmParams) -> data.StructLayout:
    """From the turns: a step of a warp's own, the slots of its top line and of the line it reads, and which tokens
    of that are on the stack."""
    return data.StructLayout({"warp": params.warp_bits, "step": Step, "faulty": 1, "top": SLOT_BITS,
                              "slot": SLOT_BITS, "tokens": TOKENS_PER_LINE})


def apply_stage(params: SmParams) -> data.StructLayout:
    """From the commit: what happens to window and pointer (``write``), and whether the pointer is to be held against
    the limits (``check``, of calls ``check_calls``); ``restores``: the copy of the top line is made now."""
    return data.StructLayout({
        "warp": params.warp_bits, "events": CommitEvents, "write": 1, "pointer": WidePointer, "check": 1,
        "check_calls": 1, "restores": 1})


class Unwind(data.Struct):
    """What is kept of a warp's unwind from its beginning."""

    origin: unsigned(DEPTH_BITS)
    """Number of the topmost token then."""
    quad: unsigned(1)
    frame: unsigned(1)


class Progress(data.Struct):
    """What is kept of it from line to line."""

    seen: unsigned(SEEN_BITS)
    sunk: unsigned(1)
    """It has left the lines that were on chip when it began."""
    calls: unsigned(8)
    """Tokens popped that counted as calls."""


def error_of(refusal: Any) -> Value:
    """The error of a StackRefusal."""
    errors = ((refusal.calls, WarpError.API_STACK_ERROR), (refusal.room, WarpError.STACK_OVERFLOW),
              (refusal.line, WarpError.MMU_FAULT), (refusal.region, WarpError.STACK_ERROR))
    return reduce(or_, (Mux(refused, error, WarpError.NONE) for refused, error in errors))
