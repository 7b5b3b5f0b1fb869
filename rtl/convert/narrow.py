"""POPC and integers of 32 bits or less, for one lane."""

from typing import Any

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
    is_count = operation == ConversionOperation.COUNT
    is_conversion = operation == ConversionOperation.INTEGER_TO_INTEGER
    return is_count | is_conversion  # pyright: ignore[reportReturnType]


class NarrowBound(data.Struct):
    """What a result is kept within: fields of its ConversionInstruction, and whether it is one of
    either."""

    to_size: unsigned(2)
    to_signed: unsigned(1)
    saturate: unsigned(1)
    converts: unsigned(1)
    """It is INTEGER_TO_INTEGER."""
    counts: unsigned(1)
    """It is COUNT."""


def bound_of(instruction: ConversionInstruction) -> data.View:
    """The NarrowBound of an instruction."""
    return data.View(NarrowBound, Cat(
        instruction.to_size,
        instruction.to_signed,
        instruction.saturate,
        instruction.operation == ConversionOperation.INTEGER_TO_INTEGER,
        instruction.operation == ConversionOperation.COUNT))


def _top_bit(number: Any, size: Any) -> Any:
    """The highest bit of that size of a number of a word. Of 64 bits, too, it is the word's."""
    return pick([number[bits - 1] for bits in (*SIZES[:_WORD + 1], WORD_BITS)], size)


class NarrowConversion(wiring.Component):
    """COUNT and INTEGER_TO_INTEGER, with a register behind the sums. ::

        source --> part of the word --> sign, negation --> register --> fits? --> result
               \\-> bits that are 1 ------ count --------> register ------------/

    Members
    -------
    instruction : In(ConversionInstruction)
        Of ``source``; what of it is needed a cycle later is in ``bound``.
    source : In(32)
    bound : In(NarrowBound)
    result : Out(32)
        A cycle after the source. Extended by its type; 0 of other instructions.
    """

    instruction: In(ConversionInstruction)
    source: In(WORD_BITS)
    bound: In(NarrowBound)
    result: Out(WORD_BITS)

    def __init__(self) -> None:
        super().__init__()
        self._number = Signal(WORD_BITS + 1, name="number")
        """The source, extended by its sign, or its complement."""
        self._adds_one = Signal(name="adds_one")
        """It is the complement: one makes the negated source of it."""
        self._total = Signal(WORD_BITS + 2, name="total")
        """The integer to bring into the type, with its sign on top."""
        self._count = Signal(WORD_BITS.bit_length(), name="count")
        """How many bits are 1."""
        self._fits = Signal(name="fits")
        """The type has the integer."""
        self._top = Signal(name="top")
        """The integer's bit on top of a signed type; 0 of an unsigned one."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._select(m)
        self._compare(m)
        self._select_result(m)
        return m

    def _select(self, m: Module) -> None:
        """The part of the register that is the source, extended and negated, if it has to be: its
        complement, and one."""
        instruction: Any = self.instruction
        source = self.source
        part = Signal(WORD_BITS)
        negative = Signal()
        low_byte = pick([source[8 * byte:8 * byte + 8] for byte in range(4)], instruction.part)
        high_byte = Mux(instruction.part[1], source[24:], source[8:16])
        m.d.comb += part.eq(Cat(low_byte, high_byte, source[16:]))
        m.d.comb += negative.eq(instruction.signed & _top_bit(part, instruction.size))
        result_is_negative = (negative & ~instruction.absolute) ^ instruction.negate
        m.d.comb += self._adds_one.eq(result_is_negative ^ negative)
        for code, (start, stop) in enumerate(_SEGMENTS):
            width = stop - start
            bits = Mux(instruction.size >= code, part[start:stop], negative.replicate(width))
            m.d.comb += self._number[start:stop].eq(bits ^ self._adds_one.replicate(width))
        m.d.comb += self._number[-1].eq(negative ^ self._adds_one)
        m.d.sync += self._total.eq(Cat(self._number, self._number[-1]) + self._adds_one)
        m.d.sync += self._count.eq(
            counted(m, source ^ instruction.invert.replicate(WORD_BITS)))

    def _compare(self, m: Module) -> None:
        """Whether the type has the integer: then all bits above the type are like its highest one,
        or 0 if the type is unsigned."""
        bound: Any = self.bound
        total = self._total
        # Of each size, whether any of the bits above it is 1, and whether all are. Of 64 bits as of
        # a word.
        any_above = [total[WORD_BITS:].any()]
        all_above = [total[WORD_BITS:].all()]
        for start, stop in reversed(_SEGMENTS[1:]):
            any_above.insert(0, total[start:stop].any() | any_above[0])
            all_above.insert(0, total[start:stop].all() & all_above[0])
        any_above.append(any_above[-1])
        all_above.append(all_above[-1])
        m.d.comb += self._top.eq(bound.to_signed & _top_bit(total, bound.to_size))
        with m.If(self._top):
            m.d.comb += self._fits.eq(pick(all_above, bound.to_size))
        with m.Else():
            m.d.comb += self._fits.eq(~pick(any_above, bound.to_size))

    def _select_result(self, m: Module) -> None:
        """The integer's low bits, or the nearest bound of the type, whose bits but the top one are
        all the same. The result of another instruction is 0."""
        bound: Any = self.bound
        total = self._total
        to_size = bound.to_size
        negative = total[-1]
        is_kept = Signal()
        above = Signal()
        """Bits above the type."""
        m.d.comb += is_kept.eq(self._fits | ~bound.saturate)
        m.d.comb += above.eq(Mux(is_kept, self._top, bound.to_signed & negative))
        bound_top = negative ^ ~bound.to_signed
        for code, (start, stop) in enumerate(_SEGMENTS):
            width = stop - start
            is_in_type = to_size >= code
            has_top = to_size == code
            segment = self.result[start:stop]
            with m.If(bound.converts & is_in_type & is_kept):
                m.d.comb += segment.eq(total[start:stop])
            with m.Elif(bound.converts & is_in_type):
                m.d.comb += segment.eq((~negative).replicate(width))
                with m.If(has_top):
                    m.d.comb += segment[-1].eq(bound_top)
            with m.Elif(bound.converts):
                m.d.comb += segment.eq(above.replicate(width))
            if code == 0:
                with m.If(bound.counts & ~bound.converts):
                    m.d.comb += segment.eq(self._count)
