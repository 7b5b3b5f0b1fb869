"""What the stages of the stack's pipeline hand to each other."""

from amaranth.hdl import unsigned
from amaranth.lib import data

from rtl.isa.errors import WarpError
from rtl.isa.tokens import TOKENS_PER_LINE, TokenKind
from rtl.layouts import DEPTH_BITS, LINE_BITS, StackPointer, ThreadCodes
from rtl.params import WARP_THREADS, SmParams

from .lines import TokensOfLine
from .match import TokenVerdict
from .window import LINE_COUNT_BITS

__all__ = ["Step", "commit_stage", "match_stage", "select_stage"]


class Step(data.Struct):
    """What a stage does for its warp."""

    walk: unsigned(1)
    """A line is looked at for the token that ends an unwind."""
    quad: unsigned(1)
    """It is looked at for a QUAD token."""
    begins: unsigned(1)
    """The first line of its unwind."""
    seen: unsigned(LINE_COUNT_BITS)
    """Lines on chip above this one."""
    there: unsigned(1)
    """The line is on chip."""
    more: unsigned(1)
    """So is the one below."""
    lowest: unsigned(1)
    """It is line 0, or the stack is empty."""
    set: unsigned(1)
    """The stack pointer is set."""
    finish: unsigned(1)
    """A write-back is over."""


def match_stage(params: SmParams) -> data.StructLayout:
    """From the stack access: the line read, the pointer as it was."""
    return data.StructLayout({
        "warp": params.warp_bits, "step": Step, "error": WarpError, "line": TokensOfLine, "valid": TOKENS_PER_LINE,
        "pointer": StackPointer, "top": LINE_BITS, "value": 32, "limit": DEPTH_BITS})


def select_stage(params: SmParams) -> data.StructLayout:
    """From the match: a verdict on each token."""
    return data.StructLayout({
        "warp": params.warp_bits, "step": Step, "error": WarpError, "pointer": StackPointer, "number": LINE_BITS,
        "value": 32, "codes": ThreadCodes, "verdicts": data.ArrayLayout(TokenVerdict, TOKENS_PER_LINE),
        "revived": data.ArrayLayout(WARP_THREADS, TOKENS_PER_LINE), "pcs": data.ArrayLayout(32, TOKENS_PER_LINE),
        "kinds": data.ArrayLayout(TokenKind, TOKENS_PER_LINE), "returned": 1, "stuck": 1})


def commit_stage(params: SmParams) -> data.StructLayout:
    """From the selection: what the operation makes of the warp's pointer and window."""
    return data.StructLayout({
        "warp": params.warp_bits, "step": Step, "pointer": StackPointer, "number": LINE_BITS,
        "stops": TOKENS_PER_LINE, "calls": TOKENS_PER_LINE, "found": 1, "failed": 1, "ends": 1, "waits": 1})
