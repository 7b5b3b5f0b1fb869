"""POPC and integers of 32 bits or less, for one lane."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.pick import pick
from rtl.population import population

from .instruction import SIZES, ConversionInstruction, ConversionOperation

__all__ = ["NarrowConversion", "is_narrow"]

_BITS = 32
_WORD = SIZES.index(_BITS)


def is_narrow(instruction: ConversionInstruction) -> Signal:
    """Whether an instruction is one that every lane computes by itself."""
    operation = instruction.operation
    return (operation == ConversionOperation.COUNT) | (
        (operation == ConversionOperation.INTEGER_TO_INTEGER) & (instruction.size <= _WORD)
        & (instruction.to_size <= _WORD))    # pyright: ignore[reportReturnType]


class NarrowConversion(wiring.Component):
    """COUNT, and INTEGER_TO_INTEGER without 64 bits; combinational.

    Members
    -------
    instruction : In(ConversionInstruction)
    source : In(32)
    result : Out(32)
        Extended by its type.
    """

    instruction: In(ConversionInstruction)
    source: In(_BITS)
    result: Out(_BITS)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        instruction, sizes = self.instruction, SIZES[:_WORD + 1]

        # The source with its sign, and with the sign that it gets.
        part = self.source >> (instruction.part << 3)
        parts = (part[:8], part[:16], self.source, self.source)
        negative, number, total = Signal(), Signal(_BITS + 1), Signal(_BITS + 2)
        m.d.comb += negative.eq(instruction.signed & pick((value[-1] for value in parts), instruction.size))
        m.d.comb += number.eq(pick((Cat(value, negative.replicate(_BITS + 1 - len(value))) for value in parts),
                                   instruction.size))
        wanted = (negative & ~instruction.absolute) ^ instruction.negate
        flips = wanted ^ negative
        m.d.comb += total.eq((Cat(number, negative) ^ flips.replicate(_BITS + 2)) + flips)

        # As far as its type goes, or at its nearest bound.
        kept, fits = Signal(_BITS), Signal()
        with m.Switch(instruction.to_size):
            for code, size in enumerate(sizes):
                with m.Default() if code == _WORD else m.Case(code):
                    top = total[size - 1] & instruction.to_signed
                    low = Mux(instruction.to_signed, Const(1 << size - 1, size), Const(0, size))
                    bound = Mux(total[-1], low, ~low)[:size]
                    m.d.comb += [
                        fits.eq(total[size:] == top.replicate(_BITS + 2 - size)),
                        kept.eq(Mux(fits | ~instruction.saturate, Cat(total[:size], top.replicate(_BITS - size)),
                                    Cat(bound, (bound[-1] & instruction.to_signed).replicate(_BITS - size))))]
        m.d.comb += self.result.eq(Mux(
            instruction.operation == ConversionOperation.COUNT,
            population(self.source ^ instruction.invert.replicate(_BITS)), kept))
        return m
