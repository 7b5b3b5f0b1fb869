"""Unpacks a floating-point number: significand, shift count, exponent in the result's format."""

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
    """An unpacked floating-point number.

    A shift right by 64 or more does not take place in the shifter: then ``significand`` is 0, and
    ``round`` and ``sticky`` are what would have been shifted out. Else these two are 0.
    """

    significand: unsigned(DOUBLE_BITS)
    """Bit 63 is the bit before the point: 1 in a normal number, 0 in a subnormal one. 0 if the
    shift is by 64 or more."""
    shift: unsigned(SHIFT_BITS)
    """How far the shifter has to shift it right."""
    exponent: signed(EXPONENT_BITS)
    """The stored exponent in the result's format of a number whose leading 1 is bit 63 of the
    significand; it may be out of that format's range."""
    round: unsigned(1)
    """The shift is by exactly 64: the bit of weight one half below the lowest bit."""
    sticky: unsigned(1)
    """The shift is by 64 or more: any bit below that one is 1."""
    overflows: unsigned(1)
    """The number is infinite or a NaN, or for FLOAT_TO_INTEGER 2**64 or more in magnitude."""
    is_nan: unsigned(1)


class FloatUnpack(wiring.Component):
    """Unpacks a floating-point number; combinational.

    For FLOAT_TO_INTEGER ``shift`` is what brings the bit of weight 1 to bit 0. For FLOAT_TO_FLOAT
    to a narrower format a number below that format's normal range is shifted right until its bits
    are those of a subnormal number; other numbers are not shifted. Without ``floats`` there is no
    half precision.

    Members
    -------
    instruction : In(ConversionInstruction)
        FLOAT_TO_INTEGER or FLOAT_TO_FLOAT; for others ``unpacked`` is not used.
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
        """Aligned to the top bit."""
        self._is_special = Signal(name="is_special")
        """The number is infinite or a NaN: its exponent is all ones."""
        self._is_subnormal = Signal(name="is_subnormal")
        """The number is subnormal or zero: its exponent is 0."""
        self._is_zero = Signal(name="is_zero")
        """The number is zero, or subnormal and flushed to zero."""
        self._least_unshifted = Signal(signed(EXPONENT_BITS), name="least_unshifted")
        """The lowest stored exponent with which a number is not shifted right."""
        self._exponent_change = Signal(signed(EXPONENT_BITS), name="exponent_change")
        """The difference of the two formats' biases, result less source; 0 for integers."""

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
        """Constants of the two formats: of source and result."""
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
        """The shift right, and the significand, round and sticky bits."""
        unpacked: Any = self.unpacked
        down = Signal(signed(EXPONENT_BITS))
        is_shifted = Signal()
        is_all_shifted_out = Signal()
        """The shift is by 64 or more."""
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

        # If the shift is by exactly 64 the leading 1 is the round bit, and the fraction is sticky.
        m.d.comb += unpacked.round.eq(is_shifted & (down == DOUBLE_BITS))
        m.d.comb += unpacked.sticky.eq(is_all_shifted_out & Mux(
            unpacked.round, self._fraction != 0, ~self._is_zero))
        is_too_large = self._to_integer() & (down < 0)
        m.d.comb += unpacked.overflows.eq(self._is_special | is_too_large)
        m.d.comb += unpacked.is_nan.eq(self._is_special & (self._fraction != 0))
