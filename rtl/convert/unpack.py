"""A floating-point number as a significand, how far it is to be shifted, and its exponent in the result's format."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import wiring
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

__all__ = ["FloatUnpack"]


class FloatUnpack(wiring.Component):
    """The magnitude of a number, as 64 bits with its highest bit on top; combinational.

    To become an integer it goes down until its lowest bit stands for 1; to become a number of a narrower format, until
    the highest one stands where the least normal number has its own, if it is below that.

    Members
    -------
    instruction : In(ConversionInstruction)
        FLOAT_TO_INTEGER or FLOAT_TO_FLOAT.
    pattern : In(64)
        The number, in the low bits.
    significand : Out(64)
        The highest bit of a subnormal number is below the top. 0 where all of it goes further down than that.
    shift : Out(6)
        By how much it has to go down.
    exponent : Out(signed)
        The stored exponent that its highest bit has in the result's format, with no bounds.
    round, sticky : Out(1)
        Where all of it goes further down: whether it is at least a half of the lowest bit, and whether there is more.
    excess : Out(1)
        It is no finite number; or it is at least 2**64, if it is to become an integer.
    none : Out(1)
        It is not a number.
    """

    instruction: In(ConversionInstruction)
    pattern: In(DOUBLE_BITS)
    significand: Out(DOUBLE_BITS)
    shift: Out(SHIFT_BITS)
    exponent: Out(signed(EXPONENT_BITS))
    round: Out(1)
    sticky: Out(1)
    excess: Out(1)
    none: Out(1)

    def __init__(self, floats: bool) -> None:
        self._formats = formats(floats)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        instruction, pattern = self.instruction, self.pattern
        to_integer = instruction.operation == ConversionOperation.FLOAT_TO_INTEGER
        exponent, fraction, special = Signal(DOUBLE.exponent), Signal(DOUBLE.fraction), Signal()
        # The exponent from which on it does not go down, and what the exponent changes by.
        limit, change = Signal(signed(EXPONENT_BITS)), Signal(signed(EXPONENT_BITS))
        with m.Switch(instruction.size):
            for code, form in self._formats.items():
                with m.Case(code):
                    m.d.comb += [
                        exponent.eq(form.exponent_of(pattern)), special.eq(form.exponent_of(pattern).all()),
                        fraction.eq(form.fraction_of(pattern) << DOUBLE.fraction - form.fraction),
                        limit.eq(form.bias + DOUBLE_BITS - 1)]
                    with m.If(~to_integer), m.Switch(instruction.to_size):
                        for to_code, to_form in self._formats.items():
                            with m.Case(to_code):
                                m.d.comb += [limit.eq(form.bias + 1 - to_form.bias),
                                             change.eq(to_form.bias - form.bias)]
        subnormal, more, nothing = Signal(), Signal(), Signal()
        down, moves, below, half = Signal(signed(EXPONENT_BITS)), Signal(), Signal(), Signal()
        flushes = instruction.flush & (instruction.size == size_code(WORD_BITS))
        m.d.comb += [
            subnormal.eq(exponent == 0), more.eq(fraction.any()), nothing.eq(subnormal & (flushes | ~more)),
            down.eq(limit - exponent), moves.eq(goes_down(instruction) & (down >= 0)),
            below.eq(moves & down[SHIFT_BITS:-1].any()), half.eq(moves & (down == DOUBLE_BITS)),
            self.significand.eq(Mux(below | nothing, 0, Cat(
                Const(0, DOUBLE_BITS - 1 - DOUBLE.fraction), fraction, ~subnormal))),
            self.shift.eq(Mux(moves, down, 0)), self.exponent.eq((exponent | subnormal) + change), self.round.eq(half),
            self.sticky.eq(below & Mux(half, more, ~nothing)),
            self.excess.eq(special | to_integer & (down < 0)), self.none.eq(special & more)]
        return m
