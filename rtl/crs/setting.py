"""What SETCRSPTR makes of the value it is given."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.layouts import DEPTH_BITS, LINE_BITS, StackPointer

from .limits import LINES_PER_STEP, STEPS_BITS

__all__ = ["PointerSetting", "pointer_value"]

_RESERVED_BITS = 32 - DEPTH_BITS - 8 - 1


def pointer_value(pointer: StackPointer) -> Cat:
    """The pointer in the format of GETCRSPTR and SETCRSPTR: its depth rounded up to a whole line."""
    lines = (pointer.depth[2:] + pointer.depth[:2].any())[:LINE_BITS]
    return Cat(Const(0, 2), lines, Const(0, _RESERVED_BITS), pointer.calls, pointer.kill)


class PointerSetting(wiring.Component):
    """Rounds the depth up to a whole line and clamps it to the limit.

    Members
    -------
    value : In(32)
    steps : In
        The limit of the current mode, in steps of the entries reserved for the trap handler.
    pointer : Out(StackPointer)
    """

    value: In(32)
    steps: In(STEPS_BITS)
    pointer: Out(StackPointer)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lines, limit = Signal(LINE_BITS + 1), Signal(LINE_BITS + 1)
        m.d.comb += [
            lines.eq(self.value[2:DEPTH_BITS] + self.value[:2].any()),
            limit.eq(self.steps * LINES_PER_STEP),
            self.pointer.depth.eq(Cat(Const(0, 2), Mux(lines > limit, limit, lines)[:LINE_BITS])),
            self.pointer.calls.eq(self.value[DEPTH_BITS + _RESERVED_BITS:31]), self.pointer.kill.eq(self.value[31])]
        return m
