"""Between the second and the third stage of a full lane: the bounds of a result's type, and its place in a word."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .control import LaneControl, ResultBits
from .stages import Terms, Unbounded

__all__ = ["ONE", "BoundStage", "kept_bytes", "size_of", "taken_bytes"]

ONE = 0x3F80_0000
"""The floating-point number 1."""
_HALF_BITS = 16


class BoundStage(wiring.Component):
    """The first term, within the bounds of the result's type if asked, where it goes, and nothing beside it;
    combinational.

    Members
    -------
    control : In(LaneControl)
    unbounded : In(Unbounded)
    terms : Out(Terms)
    """

    control: In(LaneControl)
    unbounded: In(Unbounded)
    terms: Out(Terms)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        control, first, negative, beyond = (
            self.control, self.unbounded.terms.x[:32], self.unbounded.negative, self.unbounded.beyond)
        to_signed, exceeds = control.signed_result, Signal()
        high, half, byte = size_of(control)

        def differs(start: int, stop: int) -> Value:
            """Whether some of these bits are not as the sign."""
            return Mux(negative, ~first[start:stop].all(), first[start:stop].any())

        m.d.comb += exceeds.eq(control.bound & (
            beyond | (negative & ~to_signed) | ((half | byte) & differs(_HALF_BITS, 32))
            | (byte & differs(8, _HALF_BITS))
            | (to_signed & (negative ^ Mux(byte, first[7], Mux(half, first[15], first[31]))))))

        # A byte takes bits of the term, those of a bound, or none. The highest bit of a bound is that of a negative
        # number only if the type has a sign.
        taken = taken_bytes(control)
        highest, top = exceeds & ~negative, exceeds & (negative == to_signed)
        open_bytes, set_bytes = Signal(4), Signal(4)
        m.d.comb += [open_bytes.eq(Cat(taken) & ~exceeds.replicate(4)), set_bytes.eq(Cat(taken) & highest.replicate(4))]
        last = {7: byte & ~high, 15: half & ~high, 23: byte & high, 31: ~byte}
        bits, placed = [], Cat(first[:_HALF_BITS], Mux(high, first[:_HALF_BITS], first[_HALF_BITS:]))
        for place, bit in enumerate(placed):
            truth = control.as_bit & ~high if place == _HALF_BITS else control.as_bit if place else Const(0, 1)
            cleared = truth if ONE >> place & 1 else truth | control.as_one
            ones = set_bytes[place // 8]
            if place in last:
                ones = Mux(last[place], top & taken[place // 8], ones)
            bits.append((bit & open_bytes[place // 8] & ~cleared) | ones)
        m.d.comb += [self.terms.eq(self.unbounded.terms), self.terms.x[:32].eq(Cat(bits))]
        return m


def kept_bytes(control: Any) -> Value:
    """Where c keeps its bits, into which the first term goes."""
    _, half, byte = size_of(control)
    return Cat((control.add_c & ~((half | byte) & taken)).replicate(8) for taken in taken_bytes(control))


def size_of(control: Any) -> tuple[Value, Value, Value]:
    """Whether the result goes to the high half; whether it is a half; whether a byte."""
    return control.result_high, control.result_bits == ResultBits.HALF, control.result_bits == ResultBits.BYTE


def taken_bytes(control: Any) -> tuple[Value, ...]:
    """The bytes that the first term takes."""
    high, half, byte = size_of(control)
    return ~high, ~high & ~byte, high | ~(half | byte), ~(half | byte) | (high & half)
