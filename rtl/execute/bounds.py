"""The stage of a full lane between the second and the third one: clamps a result to the bounds of
its type, and moves it to its place in the word."""

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
    """Clamps the first term to the bounds of the result's type, if ``bound`` is set, and moves it
    to its place; the other bytes become 0. Combinational.

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
        """The term exceeds the bounds of its type: a bound replaces it."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._check(m)
        self._place(m)
        return m

    def _check(self, m: Module) -> None:
        """Whether the term exceeds its bounds: a bit above those of its type differs from its sign,
        or the highest bit of a signed type does; or it is negative, and the type is unsigned."""
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
        """Each byte of the word has bits of the term, bits of a bound, or zeros.

        All bits of the highest bound are 1, all of the lowest are 0; the highest bit of a signed
        type is the opposite."""
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
        """Whether a bit of a truth value, which is all ones, is cleared: for ``as_bit`` all but the
        lowest bit of the result, for ``as_one`` the zeros of the floating-point number 1."""
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
    """A mask of the bits of c that are added: all but those bytes that the first term replaces."""
    size = size_of(control)
    is_part = size.is_half | size.is_byte
    return Cat(
        (control.add_c & ~(is_part & taken)).replicate(_BYTE_BITS)
        for taken in taken_bytes(control))


class ResultSize(NamedTuple):
    """The size of a result, and its place in the word."""

    is_high: Value
    """It is in the high half."""
    is_half: Value
    is_byte: Value


def size_of(control: Any) -> ResultSize:
    """The ResultSize of a LaneControl."""
    return ResultSize(
        control.result_high,
        control.result_bits == ResultBits.HALF,
        control.result_bits == ResultBits.BYTE)


def taken_bytes(control: Any) -> tuple[Value, ...]:
    """The bytes of the word that the first term occupies."""
    size = size_of(control)
    is_word = ~(size.is_half | size.is_byte)
    return (
        ~size.is_high,
        ~size.is_high & ~size.is_byte,
        size.is_high | is_word,
        is_word | (size.is_high & size.is_half))
