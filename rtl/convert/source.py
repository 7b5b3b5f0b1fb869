"""The first stages: the source as a magnitude, a sign, and how far the magnitude is to be shifted."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

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
from .unpack import FloatUnpack

__all__ = ["SOURCE_STAGES", "ConversionSource", "Shiftable"]

SOURCE_STAGES = 2
_PART_BITS = 16
"""Bits of the widest source that is a part of a register."""


class Shiftable(data.Struct):
    """A magnitude on its way through the shifter.

    ``bits`` hold the magnitude with one more bit below it, of weight one half. They are in the opposite order, lowest
    bit on top, where the magnitude is to be shifted down; what falls out on top makes ``sticky``.
    """

    bits: unsigned(DOUBLE_BITS + 1)
    count: unsigned(SHIFT_BITS)
    """By how much it is shifted."""
    exponent: signed(EXPONENT_BITS)
    """The stored exponent of a floating-point number of the result's format whose highest bit is the magnitude's."""
    sticky: unsigned(1)
    """Bits that are 1 were cut off."""
    negative: unsigned(1)
    excess: unsigned(1)
    """Larger than any integer."""
    none: unsigned(1)
    """Not a number."""


class ConversionSource(wiring.Component):
    """Two stages with a register each, which a source passes in as many cycles, and what is behind them. Without
    ``floats`` there is no F2F, and no half precision.

    Members
    -------
    instruction : In(ConversionInstruction)
        Stable while sources of it pass.
    source : In(64)
    selected : Out(32)
        Low word of the source a cycle later, for MUFU's functions.
    selected_negative : Out(1)
        Its sign, after ``absolute`` and ``negate``.
    shiftable : Out(Shiftable)
    """

    instruction: In(ConversionInstruction)
    source: In(DOUBLE_BITS)
    selected: Out(WORD_BITS)
    selected_negative: Out(1)
    shiftable: Out(Shiftable)

    def __init__(self, floats: bool) -> None:
        self._floats = floats
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.unpack = unpack = FloatUnpack(self._floats)
        instruction, operation = self.instruction, self.instruction.operation
        refits = (operation == ConversionOperation.FLOAT_TO_FLOAT) & self._floats
        from_float = (operation == ConversionOperation.FLOAT_TO_INTEGER) | refits
        has_sign = instruction.signed | from_float | (operation == ConversionOperation.FUNCTION)
        finding = operation == ConversionOperation.FIND

        # The part of the register that is the source, extended to 64 bits. Negative numbers are inverted.
        given, top, extension, flip = Signal(DOUBLE_BITS), Signal(), Signal(), Signal()
        number, plus_one = Signal(DOUBLE_BITS), Signal()
        m.d.comb += [
            given.eq(Cat((self.source[:WORD_BITS] >> (instruction.part << 3))[:_PART_BITS], self.source[_PART_BITS:])),
            top.eq(Array(given[size - 1] for size in SIZES)[instruction.size]),
            extension.eq(top & instruction.signed & ~finding),
            flip.eq(Mux(finding, instruction.invert ^ (instruction.signed & (top ^ instruction.invert)), extension))]
        for code, (start, stop) in enumerate(SEGMENTS):
            bits = Mux(instruction.size >= code, given[start:stop], extension.replicate(stop - start))
            flipped = flip if stop <= WORD_BITS else flip & ~finding
            m.d.sync += number[start:stop].eq(bits ^ flipped.replicate(stop - start))
        m.d.sync += [
            plus_one.eq(flip & ~finding),
            self.selected_negative.eq((top & has_sign & ~instruction.absolute) ^ instruction.negate)]
        m.d.comb += self.selected.eq(number[:WORD_BITS])

        # Its magnitude, or significand.
        m.d.comb += [unpack.pattern.eq(number), unpack.instruction.eq(instruction)]
        magnitude, magnitude_negative, exponent = Signal(DOUBLE_BITS), Signal(), Signal.like(unpack.exponent)
        shift, half, sticky, excess, none = Signal(SHIFT_BITS), Signal(), Signal(), Signal(), Signal()
        m.d.sync += [
            magnitude.eq(Mux(from_float, unpack.significand, number + plus_one)),
            magnitude_negative.eq(self.selected_negative), shift.eq(unpack.shift), half.eq(unpack.round & from_float),
            exponent.eq(unpack.exponent),
            sticky.eq(unpack.sticky & from_float), excess.eq(unpack.excess & from_float),
            none.eq(unpack.none & from_float)]

        # What is to be shifted, up or down.
        shiftable = self.shiftable
        m.d.comb += shiftable.exponent.eq(exponent)
        with m.If(~refits), m.Switch(instruction.to_size):
            for code, form in formats(self._floats).items():
                with m.Case(code):
                    m.d.comb += shiftable.exponent.eq(form.bias + DOUBLE_BITS - 1)
        m.d.comb += [
            shiftable.bits.eq(Mux(goes_up(instruction), Cat(0, magnitude), Cat(half, magnitude)[::-1])),
            shiftable.count.eq(Mux(from_float, shift, 0)), shiftable.sticky.eq(sticky),
            shiftable.negative.eq(magnitude_negative), shiftable.excess.eq(excess), shiftable.none.eq(none)]
        return m
