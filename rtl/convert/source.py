"""The first stages of the datapath: magnitude, sign and shift count of the source."""

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
"""Width of the widest source that is narrower than a register."""


class Shiftable(data.Struct):
    """A magnitude in the shifter, which shifts left only."""

    bits: unsigned(DOUBLE_BITS + 1)
    """The magnitude in the upper 64 bits, and below it a bit of weight one half. For instructions
    that do not normalize, see :func:`~.instruction.goes_up`, all bits are in reverse order: then a
    shift left is a shift right of the magnitude."""
    count: unsigned(SHIFT_BITS)
    """How far it is shifted; an output of the shifter if that normalizes."""
    exponent: signed(EXPONENT_BITS)
    """The stored exponent in the result's format of a number whose leading 1 is the top bit of the
    magnitude before the shift. Where the shifter normalizes, that of the result is less by
    ``count``."""
    sticky: unsigned(1)
    """Any bit that was shifted out, here or in the unpacking, is 1."""
    negative: unsigned(1)
    overflows: unsigned(1)
    """The number is infinite, or exceeds every integer type. Ignored if ``is_nan``."""
    is_nan: unsigned(1)


class SelectedNumber(data.Struct):
    """The operand of a MUFU function."""

    pattern: unsigned(WORD_BITS)
    """The low word of the source; its sign bit is not used."""
    negative: unsigned(1)
    """The sign, after ``absolute`` and ``negate``."""


class ConversionSource(wiring.Component):
    """Two stages, each with a register: SOURCE_STAGES cycles from ``source`` to ``shiftable``.

    =====  =========  =====================================================================
    stage  name       what is known at its end
    =====  =========  =====================================================================
    1      select     the source, extended to 64 bits; its sign. A negative integer is
                      inverted
    2      magnitude  the magnitude of an integer, or the significand of a floating-point
                      number, and the shift count
    =====  =========  =====================================================================

    Without ``floats`` there is no F2F, and no half precision.

    Members
    -------
    instruction : In(ConversionInstruction)
        Stable while its sources are in the stages.
    source : In(64)
    selected : Out(SelectedNumber)
        For MUFU; a cycle after ``source``.
    shiftable : Out(Shiftable)
        For the shifter; SOURCE_STAGES cycles after ``source``.
    """

    instruction: In(ConversionInstruction)
    source: In(DOUBLE_BITS)
    selected: Out(SelectedNumber)
    shiftable: Out(Shiftable)

    def __init__(self, floats: bool) -> None:
        self._floats = floats
        super().__init__()
        self._is_from_float = Signal(name="is_from_float")
        """The operation is FLOAT_TO_INTEGER or FLOAT_TO_FLOAT: the source has to be unpacked."""
        self._pattern = Signal(DOUBLE_BITS, name="pattern")
        """Select: the source, extended; a negative integer is inverted."""
        self._pattern_negative = Signal(name="pattern_negative")
        """Select: its sign, after ``absolute`` and ``negate``."""
        self._adds_one = Signal(name="adds_one")
        """Select: the pattern is an inverted integer, whose magnitude is the pattern plus one."""
        self._magnitude = Signal(DOUBLE_BITS, name="magnitude")
        """Magnitude: an integer's magnitude, or a significand."""
        self._negative = Signal(name="negative")
        """Magnitude: the sign."""
        self._unpacked: Any = Signal(UnpackedFloat, name="unpacked")
        """Magnitude: the other fields of an unpacked floating-point number."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        operation = self.instruction.operation
        m.d.comb += self._is_from_float.eq(
            (operation == ConversionOperation.FLOAT_TO_INTEGER) | self._is_float_to_float())
        self._select(m)
        self._find_magnitude(m)
        self._offer(m)
        return m

    def _is_float_to_float(self) -> Value:
        """Whether the instruction is F2F."""
        is_float_to_float = self.instruction.operation == ConversionOperation.FLOAT_TO_FLOAT
        return is_float_to_float & self._floats

    def _select(self, m: Module) -> None:
        """Select: extracts the source from its register and extends it to 64 bits. FLO of a signed
        number finds the highest bit that differs from the sign: a negative number is inverted, so
        that this is the highest 1. ``invert`` makes no difference there: it inverts the sign, too.
        """
        instruction = self.instruction
        is_find = instruction.operation == ConversionOperation.FIND
        is_function = instruction.operation == ConversionOperation.FUNCTION
        part = Signal(DOUBLE_BITS)
        """The source in the low bits; the bits above it are arbitrary."""
        sign = Signal()
        """The highest bit of the source."""
        extension = Signal()
        is_inverted = Signal()
        low_part = (self.source[:WORD_BITS] >> (instruction.part << 3))[:_PART_BITS]
        m.d.comb += part.eq(Cat(low_part, self.source[_PART_BITS:]))
        m.d.comb += sign.eq(Array(part[size - 1] for size in SIZES)[instruction.size])
        with m.If(is_find):
            m.d.comb += is_inverted.eq(
                Mux(instruction.signed, sign, instruction.invert))
        with m.Else():
            m.d.comb += extension.eq(sign & instruction.signed)
            m.d.comb += is_inverted.eq(extension)
        m.d.sync += self._adds_one.eq(is_inverted & ~is_find)

        # The source of FLO is a word: the upper 32 bits stay 0.
        for code, (start, stop) in enumerate(SEGMENTS):
            width = stop - start
            is_in_word = stop <= WORD_BITS
            bits = Mux(instruction.size >= code, part[start:stop], extension.replicate(width))
            flips = is_inverted if is_in_word else is_inverted & ~is_find
            m.d.sync += self._pattern[start:stop].eq(bits ^ flips.replicate(width))

        has_sign = instruction.signed | self._is_from_float | is_function
        m.d.sync += self._pattern_negative.eq(
            (sign & has_sign & ~instruction.absolute) ^ instruction.negate)
        m.d.comb += self.selected.eq(struct_value(
            SelectedNumber, pattern=self._pattern, negative=self._pattern_negative))

    def _find_magnitude(self, m: Module) -> None:
        """Magnitude: the significand of a floating-point number, or the magnitude of an integer,
        which is never infinite nor a NaN."""
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
        """The input of the shifter."""
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
        # The top bit of an integer's magnitude has weight 2**63.
        with m.If(~self._is_float_to_float()), m.Switch(self.instruction.to_size):
            for code, form in formats(self._floats).items():
                with m.Case(code):
                    m.d.comb += shiftable.exponent.eq(form.bias + DOUBLE_BITS - 1)
