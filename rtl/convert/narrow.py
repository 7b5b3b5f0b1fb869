"""POPC and integers of 32 bits or less, for one lane."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.pick import pick
from rtl.population import counted

from .instruction import SEGMENTS, SIZES, WORD_BITS, ConversionInstruction, ConversionOperation

__all__ = ["NarrowBound", "NarrowConversion", "bound_of", "is_narrow"]

_WORD = SIZES.index(WORD_BITS)
_SEGMENTS = SEGMENTS[:_WORD + 1]


def is_narrow(instruction: ConversionInstruction) -> Value:
    """Whether an instruction is one of those that several lanes compute at once."""
    operation = instruction.operation
    return (operation == ConversionOperation.COUNT) | (
        operation == ConversionOperation.INTEGER_TO_INTEGER)    # pyright: ignore[reportReturnType]


class NarrowBound(data.Struct):
    """What a result is kept within: fields of its ConversionInstruction, and whether it is one of either."""

    to_size: unsigned(2)
    to_signed: unsigned(1)
    saturate: unsigned(1)
    converts: unsigned(1)
    counts: unsigned(1)


def bound_of(instruction: ConversionInstruction) -> data.View:
    """The NarrowBound of an instruction."""
    return data.View(NarrowBound, Cat(
        instruction.to_size, instruction.to_signed, instruction.saturate,
        instruction.operation == ConversionOperation.INTEGER_TO_INTEGER,
        instruction.operation == ConversionOperation.COUNT))


class NarrowConversion(wiring.Component):
    """COUNT and INTEGER_TO_INTEGER, with a register behind the sums.

    Members
    -------
    instruction : In(ConversionInstruction)
        Of ``source``; NarrowBound has what else is looked at a cycle later.
    source : In(32)
    bound : In(NarrowBound)
    result : Out(32)
        A cycle after the source. Extended by its type; 0 of other instructions.
    """

    instruction: In(ConversionInstruction)
    source: In(WORD_BITS)
    bound: In(NarrowBound)
    result: Out(WORD_BITS)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        instruction, size, source = self.instruction, self.instruction.size, self.source

        # The part of the register that is the source. Negated: its complement, and one.
        given, negative, flips = Signal(WORD_BITS), Signal(), Signal()
        flipped, total, ones = Signal(WORD_BITS + 1), Signal(WORD_BITS + 2), Signal(WORD_BITS.bit_length())
        m.d.comb += [
            given.eq(Cat(pick([source[8 * part:8 * part + 8] for part in range(4)], instruction.part),
                         Mux(instruction.part[1], source[24:], source[8:16]), source[16:])),
            negative.eq(instruction.signed & pick([given[bits - 1] for bits in (*SIZES[:_WORD + 1], WORD_BITS)], size)),
            flips.eq(((negative & ~instruction.absolute) ^ instruction.negate) ^ negative)]
        for code, (start, stop) in enumerate(_SEGMENTS):
            bits = Mux(size >= code, given[start:stop], negative.replicate(stop - start))
            m.d.comb += flipped[start:stop].eq(bits ^ flips.replicate(stop - start))
        m.d.comb += flipped[-1].eq(negative ^ flips)
        m.d.sync += [total.eq(Cat(flipped, flipped[-1]) + flips),
                     ones.eq(counted(m, source ^ instruction.invert.replicate(WORD_BITS)))]

        # Whether its type has it: then all bits above the type are like its highest one, or 0.
        top, fits, below, kept = Signal(), Signal(), Signal(), Signal()
        signed, to_size, converts, counts = (
            self.bound.to_signed, self.bound.to_size, self.bound.converts, self.bound.counts)
        some, full = [total[WORD_BITS:].any()], [total[WORD_BITS:].all()]
        for start, stop in reversed(_SEGMENTS[1:]):
            some.insert(0, total[start:stop].any() | some[0])
            full.insert(0, total[start:stop].all() & full[0])
        m.d.comb += [
            top.eq(signed & pick([total[bits - 1] for bits in (*SIZES[:_WORD + 1], WORD_BITS)], to_size)),
            fits.eq(Mux(top, pick([*full, full[-1]], to_size), ~pick([*some, some[-1]], to_size))),
            below.eq(total[-1]), kept.eq(fits | ~self.bound.saturate)]

        # It is kept, or at its nearest bound, whose bits but the top one are all the same.
        for code, (start, stop) in enumerate(_SEGMENTS):
            passes, fill, last = (Signal(name=f"{name}{code}") for name in ("passes", "fill", "last"))
            above = Mux(kept, top, signed & below)
            m.d.comb += [
                passes.eq(converts & kept & (to_size >= code)),
                fill.eq(converts & Mux(to_size >= code, ~kept & ~below, above)),
                last.eq(Mux(to_size == code, converts & ~kept & (below ^ ~signed), fill))]
            fills = Cat(fill.replicate(stop - start - 1), last)
            if code == 0:
                fills |= ones & counts.replicate(len(ones))
            m.d.comb += self.result[start:stop].eq(total[start:stop] & passes.replicate(stop - start) | fills)
        return m
