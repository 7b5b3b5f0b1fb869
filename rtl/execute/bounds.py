"""Between the second and the third stage of a full lane: the bounds of a result's type, and its
place in a word."""

from typing import Any, NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .control import LaneControl, ResultBits
from .stages import WORD_BYTES, Terms, Unbounded

__all__ = ["ONE", "BoundStage", "ResultSize", "kept_bytes", "size_of", "taken_bytes"]

ONE = 0x3F80_0000
"""The floating-point number 1."""
_BYTE_BITS = 8
_HALF_BITS = 16


class BoundStage(wiring.Component):
    """Puts the first term within the bounds of the result's type, if it has to be, and in its
    place among zeros; combinational.

    Members
    -------
    control : In(LaneControl)
    unbounded : In(Unbounded)
    terms : Out(Terms)
    """

    control: In(LaneControl)
    unbounded: In(Unbounded)
    terms: Out(Terms)

    def __init__(self) -> None:
        super().__init__()
        self._exceeds = Signal(name="exceeds")
        """The term is beyond the bounds of its type: a bound takes its place."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._check(m)
        self._place(m)
        return m

    def _check(self, m: Module) -> None:
        """Whether the term is beyond its bounds: it has ones, or a negative one zeros, above the
        bits of its type, or another sign than the highest of these bits."""
        control = self.control
        first = self.unbounded.terms.x[:32]
        negative = self.unbounded.is_negative
        size = size_of(control)

        def some_unlike_sign(bits: Value) -> Value:
            return Mux(negative, ~bits.all(), bits.any())

        above_half = (size.is_half | size.is_byte) & some_unlike_sign(first[_HALF_BITS:])
        above_byte = size.is_byte & some_unlike_sign(first[_BYTE_BITS:_HALF_BITS])
        half_top = Mux(size.is_half, first[_HALF_BITS - 1], first[31])
        top = Mux(size.is_byte, first[_BYTE_BITS - 1], half_top)
        wrong_sign = Mux(control.signed_result, negative ^ top, negative)
        m.d.comb += self._exceeds.eq(
            control.bound & (self.unbounded.exceeds_word | above_half | above_byte | wrong_sign))

    def _place(self, m: Module) -> None:
        """A byte of the word has bits of the term, those of a bound, or none.

        The highest bound has ones, the lowest one none; the highest bit of a type with a sign is
        the other way round."""
        control = self.control
        first = self.unbounded.terms.x[:32]
        negative = self.unbounded.is_negative
        size = size_of(control)
        taken = taken_bytes(control)
        is_highest = self._exceeds & ~negative
        sets_top = self._exceeds & (negative == control.signed_result)
        takes_term = Signal(WORD_BYTES)
        takes_ones = Signal(WORD_BYTES)
        m.d.comb += takes_term.eq(Cat(taken) & ~self._exceeds.replicate(WORD_BYTES))
        m.d.comb += takes_ones.eq(Cat(taken) & is_highest.replicate(WORD_BYTES))

        is_top = {
            7: size.is_byte & ~size.is_high,
            15: size.is_half & ~size.is_high,
            23: size.is_byte & size.is_high,
            31: ~size.is_byte,
        }
        upper = Mux(size.is_high, first[:_HALF_BITS], first[_HALF_BITS:])
        bits: list[Value] = []
        for place, bit in enumerate(Cat(first[:_HALF_BITS], upper)):
            byte = place // _BYTE_BITS
            ones: Value = takes_ones[byte]
            if place in is_top:
                ones = Mux(is_top[place], sets_top & taken[byte], ones)
            bits.append((bit & takes_term[byte] & ~self._is_cleared(place)) | ones)
        m.d.comb += self.terms.eq(self.unbounded.terms)
        m.d.comb += self.terms.x[:32].eq(Cat(bits))

    def _is_cleared(self, place: int) -> Value:
        """Whether a bit of all ones is cleared: 1 has one bit, in its place; the floating-point
        number 1 some."""
        control = self.control
        cleared: Value = control.as_bit
        if place == 0:
            cleared = Const(0, 1)
        elif place == _HALF_BITS:
            cleared = control.as_bit & ~control.result_high
        if not ONE >> place & 1:
            cleared = cleared | control.as_one
        return cleared


def kept_bytes(control: Any) -> Value:
    """Where c keeps its bits, among which the first term is put."""
    size = size_of(control)
    is_part = size.is_half | size.is_byte
    return Cat(
        (control.add_c & ~(is_part & taken)).replicate(_BYTE_BITS)
        for taken in taken_bytes(control))


class ResultSize(NamedTuple):
    """What a result takes of a word."""

    is_high: Value
    """It goes to the high half."""
    is_half: Value
    is_byte: Value


def size_of(control: Any) -> ResultSize:
    """What the result takes of a word, by a LaneControl."""
    return ResultSize(
        control.result_high,
        control.result_bits == ResultBits.HALF,
        control.result_bits == ResultBits.BYTE)


def taken_bytes(control: Any) -> tuple[Value, ...]:
    """The bytes that the first term takes."""
    size = size_of(control)
    is_word = ~(size.is_half | size.is_byte)
    return (
        ~size.is_high,
        ~size.is_high & ~size.is_byte,
        size.is_high | is_word,
        is_word | (size.is_high & size.is_half))
