"""The first stages: the source as a magnitude, a sign, and how far that is to be shifted."""

from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.structs import common_fields, struct_value

from .formats import formats
from .instruction import (
    DOUBLE_BITS,
    EXPONENT_BITS,
    SEGMENTS,
    SHIFT_BITS,
    SIZES,
    WORD_BITS,
    ConversionInstruction,
    ConversionOperation,
    goes_up,
)
from .unpack import FloatUnpack, UnpackedFloat

__all__ = ["SOURCE_STAGES", "ConversionSource", "SelectedNumber", "Shiftable"]

SOURCE_STAGES = 2
_PART_BITS = 16
"""Bits of the widest source that is a part of a register."""


class Shiftable(data.Struct):
    """A magnitude on its way through the shifter."""

    bits: unsigned(DOUBLE_BITS + 1)
    """The magnitude, and below it one more bit, of weight one half. In the opposite order, lowest
    bit on top, if it is shifted down."""
    count: unsigned(SHIFT_BITS)
    """By how much it is shifted."""
    exponent: signed(EXPONENT_BITS)
    """The stored exponent of a floating-point number of the result's format whose highest bit is
    the magnitude's."""
    sticky: unsigned(1)
    """Bits that are 1 were shifted out, or cut off before."""
    negative: unsigned(1)
    overflows: unsigned(1)
    """Larger than any integer, or infinite."""
    is_nan: unsigned(1)


class SelectedNumber(data.Struct):
    """The source of one of MUFU's functions."""

    pattern: unsigned(WORD_BITS)
    """Its sign bit is not used."""
    negative: unsigned(1)
    """Its sign instead, after ``absolute`` and ``negate``."""


class ConversionSource(wiring.Component):
    """Two stages with a register each, which a source passes in as many cycles.

    =====  =========  =====================================================================
    stage  name       what is known at its end
    =====  =========  =====================================================================
    1      select     the part of the register that is the source, extended; its sign. A
                      negative integer is inverted
    2      magnitude  the magnitude of an integer, or the significand of a floating-point
                      number, and how far it is to be shifted
    =====  =========  =====================================================================

    Without ``floats`` there is no F2F, and no half precision.

    Members
    -------
    instruction : In(ConversionInstruction)
        Stable while sources of it pass.
    source : In(64)
    selected : Out(SelectedNumber)
        Low word of the source a cycle later, for MUFU's functions.
    shiftable : Out(Shiftable)
    """

    instruction: In(ConversionInstruction)
    source: In(DOUBLE_BITS)
    selected: Out(SelectedNumber)
    shiftable: Out(Shiftable)

    def __init__(self, floats: bool) -> None:
        self._floats = floats
        super().__init__()
        self._is_from_float = Signal(name="is_from_float")
        """The source is a floating-point number, and is not one of MUFU."""
        self._pattern = Signal(DOUBLE_BITS, name="pattern")
        """Select: the source, extended; a negative integer is inverted."""
        self._pattern_negative = Signal(name="pattern_negative")
        """Select: its sign, after ``absolute`` and ``negate``."""
        self._adds_one = Signal(name="adds_one")
        """Select: it is inverted, and one makes a magnitude of it."""
        self._magnitude = Signal(DOUBLE_BITS, name="magnitude")
        """Magnitude: an integer's magnitude, or a significand."""
        self._negative = Signal(name="negative")
        """Magnitude: the sign."""
        self._unpacked: Any = Signal(UnpackedFloat, name="unpacked")
        """Magnitude: what is known of a floating-point number besides."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        operation = self.instruction.operation
        m.d.comb += self._is_from_float.eq(
            (operation == ConversionOperation.FLOAT_TO_INTEGER) | self._refits())
        self._select(m)
        self._find_magnitude(m)
        self._offer(m)
        return m

    def _refits(self) -> Value:
        """Whether the instruction is F2F."""
        is_float_to_float = self.instruction.operation == ConversionOperation.FLOAT_TO_FLOAT
        return is_float_to_float & self._floats

    def _select(self, m: Module) -> None:
        """Select: the part of the register that is the source, extended to 64 bits. FLO looks for
        the highest bit that is 1, or of a signed number, that is not like its sign: there is a 1 in
        its place if all bits are inverted, where they have to be."""
        instruction = self.instruction
        finds = instruction.operation == ConversionOperation.FIND
        calculates = instruction.operation == ConversionOperation.FUNCTION
        part = Signal(DOUBLE_BITS)
        """The source in the low bits, and whatever else is in the registers."""
        sign = Signal()
        """Its highest bit."""
        extension = Signal()
        is_inverted = Signal()
        low_part = (self.source[:WORD_BITS] >> (instruction.part << 3))[:_PART_BITS]
        m.d.comb += part.eq(Cat(low_part, self.source[_PART_BITS:]))
        m.d.comb += sign.eq(Array(part[size - 1] for size in SIZES)[instruction.size])
        with m.If(finds):
            m.d.comb += is_inverted.eq(
                Mux(instruction.signed, sign, instruction.invert))
        with m.Else():
            m.d.comb += extension.eq(sign & instruction.signed)
            m.d.comb += is_inverted.eq(extension)
        m.d.sync += self._adds_one.eq(is_inverted & ~finds)

        # FLO is of a word at most: above that there is nothing to find.
        for code, (start, stop) in enumerate(SEGMENTS):
            width = stop - start
            is_in_word = stop <= WORD_BITS
            bits = Mux(instruction.size >= code, part[start:stop], extension.replicate(width))
            flips = is_inverted if is_in_word else is_inverted & ~finds
            m.d.sync += self._pattern[start:stop].eq(bits ^ flips.replicate(width))

        has_sign = instruction.signed | self._is_from_float | calculates
        m.d.sync += self._pattern_negative.eq(
            (sign & has_sign & ~instruction.absolute) ^ instruction.negate)
        m.d.comb += self.selected.eq(struct_value(
            SelectedNumber, pattern=self._pattern, negative=self._pattern_negative))

    def _find_magnitude(self, m: Module) -> None:
        """Magnitude: an integer has no shift of its own, and is neither infinite nor a NaN."""
        m.submodules.unpack = unpack = FloatUnpack(self._floats)
        m.d.comb += unpack.pattern.eq(self._pattern)
        m.d.comb += unpack.instruction.eq(self.instruction)
        unpacked: Any = unpack.unpacked
        m.d.sync += self._negative.eq(self._pattern_negative)
        m.d.sync += self._unpacked.eq(unpacked)
        with m.If(self._is_from_float):
            m.d.sync += self._magnitude.eq(unpacked.significand)
        with m.Else():
            m.d.sync += self._magnitude.eq(self._pattern + self._adds_one)
            m.d.sync += self._unpacked.round.eq(0)
            m.d.sync += self._unpacked.sticky.eq(0)
            m.d.sync += self._unpacked.overflows.eq(0)
            m.d.sync += self._unpacked.is_nan.eq(0)

    def _offer(self, m: Module) -> None:
        """What the shifter gets."""
        shiftable: Any = self.shiftable
        unpacked = self._unpacked
        with m.If(goes_up(self.instruction)):
            m.d.comb += shiftable.bits.eq(Cat(0, self._magnitude))
        with m.Else():
            m.d.comb += shiftable.bits.eq(Cat(unpacked.round, self._magnitude)[::-1])
        with m.If(self._is_from_float):
            m.d.comb += shiftable.count.eq(unpacked.shift)

        m.d.comb += common_fields(shiftable, unpacked)
        m.d.comb += shiftable.negative.eq(self._negative)
        # An integer with its highest bit on top is 2**63 or more.
        with m.If(~self._refits()), m.Switch(self.instruction.to_size):
            for code, form in formats(self._floats).items():
                with m.Case(code):
                    m.d.comb += shiftable.exponent.eq(form.bias + DOUBLE_BITS - 1)
