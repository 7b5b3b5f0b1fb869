"""A floating-point number as a significand, how far it is to be shifted, and its exponent in the
result's format."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from .formats import DOUBLE, formats
from .instruction import (
    DOUBLE_BITS,
    EXPONENT_BITS,
    SHIFT_BITS,
    WORD_BITS,
    ConversionInstruction,
    ConversionOperation,
    goes_down,
    size_code,
)

__all__ = ["FloatUnpack", "UnpackedFloat"]


class UnpackedFloat(data.Struct):
    """A floating-point number taken apart."""

    significand: unsigned(DOUBLE_BITS)
    """With the highest bit on top; that of a subnormal number is below it. 0 if it is shifted down
    by its whole width, or more."""
    shift: unsigned(SHIFT_BITS)
    """By how much it goes down."""
    exponent: signed(EXPONENT_BITS)
    """The stored exponent that its highest bit has in the result's format, with no bounds."""
    round: unsigned(1)
    """Where it is shifted down by its whole width or more: it is at least a half of the lowest
    bit."""
    sticky: unsigned(1)
    """There: there is more."""
    overflows: unsigned(1)
    """It is no finite number; or it is at least 2**64, if it is to become an integer."""
    is_nan: unsigned(1)


class FloatUnpack(wiring.Component):
    """Takes a floating-point number apart; combinational.

    To become an integer it goes down until its lowest bit stands for 1; to become a number of a
    narrower format, until the highest bit stands where the least normal number has its own, if it
    is below that. Without ``floats`` there is no half precision.

    Members
    -------
    instruction : In(ConversionInstruction)
        FLOAT_TO_INTEGER or FLOAT_TO_FLOAT.
    pattern : In(64)
        The number, in the low bits.
    unpacked : Out(UnpackedFloat)
    """

    instruction: In(ConversionInstruction)
    pattern: In(DOUBLE_BITS)
    unpacked: Out(UnpackedFloat)

    def __init__(self, floats: bool) -> None:
        self._formats = formats(floats)
        super().__init__()
        self._exponent = Signal(DOUBLE.exponent, name="stored_exponent")
        self._fraction = Signal(DOUBLE.fraction, name="fraction")
        """At the top."""
        self._is_special = Signal(name="is_special")
        """Infinite, or not a number: the exponent is all ones."""
        self._is_subnormal = Signal(name="is_subnormal")
        """Or zero."""
        self._is_zero = Signal(name="is_zero")
        """Or made so."""
        self._least_unshifted = Signal(signed(EXPONENT_BITS), name="least_unshifted")
        """The exponent from which on a number does not go down."""
        self._exponent_change = Signal(signed(EXPONENT_BITS), name="exponent_change")
        """From the source's format to the result's."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._take_apart(m)
        self._compare_formats(m)
        self._shift(m)
        return m

    def _to_integer(self) -> Any:
        return self.instruction.operation == ConversionOperation.FLOAT_TO_INTEGER

    def _take_apart(self, m: Module) -> None:
        """The fields of the number, by its format."""
        instruction = self.instruction
        with m.Switch(instruction.size):
            for code, form in self._formats.items():
                fraction = form.fraction_of(self.pattern)
                with m.Case(code):
                    m.d.comb += self._exponent.eq(form.exponent_of(self.pattern))
                    m.d.comb += self._fraction.eq(fraction << DOUBLE.fraction - form.fraction)
                    m.d.comb += self._is_special.eq(self._exponent == form.special)
        is_flushed = instruction.flush & (instruction.size == size_code(WORD_BITS))
        m.d.comb += self._is_subnormal.eq(self._exponent == 0)
        m.d.comb += self._is_zero.eq(self._is_subnormal & (is_flushed | (self._fraction == 0)))

    def _compare_formats(self, m: Module) -> None:
        """What only the formats of source and result decide."""
        instruction = self.instruction
        with m.Switch(instruction.size):
            for code, form in self._formats.items():
                with m.Case(code):
                    m.d.comb += self._least_unshifted.eq(form.bias + DOUBLE_BITS - 1)
                    with m.If(~self._to_integer()), m.Switch(instruction.to_size):
                        for to_code, to_form in self._formats.items():
                            change = to_form.bias - form.bias
                            with m.Case(to_code):
                                m.d.comb += self._least_unshifted.eq(1 - change)
                                m.d.comb += self._exponent_change.eq(change)

    def _shift(self, m: Module) -> None:
        """How far the significand goes down, and what is left of it."""
        unpacked: Any = self.unpacked
        down = Signal(signed(EXPONENT_BITS))
        is_shifted = Signal()
        is_all_shifted_out = Signal()
        """By its whole width, or more."""
        m.d.comb += down.eq(self._least_unshifted - self._exponent)
        m.d.comb += is_shifted.eq(goes_down(self.instruction) & (down >= 0))
        m.d.comb += is_all_shifted_out.eq(is_shifted & down[SHIFT_BITS:-1].any())

        unused_bits = Const(0, DOUBLE_BITS - 1 - DOUBLE.fraction)
        with m.If(~is_all_shifted_out & ~self._is_zero):
            m.d.comb += unpacked.significand.eq(
                Cat(unused_bits, self._fraction, ~self._is_subnormal))
        with m.If(is_shifted):
            m.d.comb += unpacked.shift.eq(down)
        m.d.comb += unpacked.exponent.eq(
            (self._exponent | self._is_subnormal) + self._exponent_change)

        # By exactly its width: the highest bit is the half, the fraction is what is more.
        m.d.comb += unpacked.round.eq(is_shifted & (down == DOUBLE_BITS))
        m.d.comb += unpacked.sticky.eq(is_all_shifted_out & Mux(
            unpacked.round, self._fraction != 0, ~self._is_zero))
        is_too_large = self._to_integer() & (down < 0)
        m.d.comb += unpacked.overflows.eq(self._is_special | is_too_large)
        m.d.comb += unpacked.is_nan.eq(self._is_special & (self._fraction != 0))
