"""What SETCRSPTR makes of the value it is given, and GETCRSPTR of a pointer."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.tokens import TOKENS_PER_LINE, TRAP_RESERVE
from rtl.layouts import DEPTH_BITS, LINE_BITS

from .pointers import HIGH_BITS

__all__ = ["PointerSetting", "calls_of", "kill_of", "pointer_value", "without_depth"]

_RESERVED_BITS = 32 - DEPTH_BITS - 8 - 1
_LINES_PER_STEP = TRAP_RESERVE // TOKENS_PER_LINE


def pointer_value(top: Value, pointer: Any) -> Value:
    """The format of GETCRSPTR and SETCRSPTR: the depth rounded up to whole lines. ``top`` are the lowest bits of the
    top line's number, ``pointer`` is the WidePointer that has the others.
    """
    lines = (Cat(top, pointer.high) + 1)[:LINE_BITS]
    return Cat(Const(0, 2), lines, Const(0, _RESERVED_BITS), pointer.calls, pointer.kill)


def without_depth(value: Value, empties: Value) -> Value:
    """A value in that format, with a depth of 0 if it ``empties`` the stack."""
    return Cat(value[:DEPTH_BITS] & ~empties.replicate(DEPTH_BITS), value[DEPTH_BITS:])


def calls_of(value: Signal) -> Value:
    """The API call depth in that format."""
    return value[DEPTH_BITS + _RESERVED_BITS:31]


def kill_of(value: Signal) -> Value:
    """The kill bit in that format."""
    return value[31]


class PointerSetting(wiring.Component):
    """Rounds the depth up to whole lines and clamps it to the limit.

    Members
    -------
    value : In(32)
    steps : In(HIGH_BITS)
        The limit, in steps of the entries reserved for the trap handler.
    lines : Out(LINE_BITS)
    """

    value: In(32)
    steps: In(HIGH_BITS)
    lines: Out(LINE_BITS)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lines, limit = Signal(LINE_BITS + 1), Signal(LINE_BITS + 1)
        m.d.comb += [
            lines.eq(self.value[2:DEPTH_BITS] + self.value[:2].any()),
            limit.eq(self.steps * _LINES_PER_STEP),
            self.lines.eq(Mux(lines > limit, limit, lines))]
        return m
