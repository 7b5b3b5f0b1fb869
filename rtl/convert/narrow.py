"""POPC and I2I, for one thread of a group."""

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
    """Whether an instruction is computed by groups of threads in the narrow parts."""
    operation = instruction.operation
    is_count = operation == ConversionOperation.COUNT
    is_conversion = operation == ConversionOperation.INTEGER_TO_INTEGER
    return is_count | is_conversion  # pyright: ignore[reportReturnType]


class NarrowBound(data.Struct):
    """The type of a result: fields of its ConversionInstruction, and which of the two operations it
    is, if any."""

    to_size: unsigned(2)
    to_signed: unsigned(1)
    saturate: unsigned(1)
    converts: unsigned(1)
    """The operation is INTEGER_TO_INTEGER."""
    counts: unsigned(1)
    """The operation is COUNT."""


def bound_of(instruction: ConversionInstruction) -> data.View:
    """The NarrowBound of an instruction."""
    return data.View(NarrowBound, Cat(
        instruction.to_size,
        instruction.to_signed,
        instruction.saturate,
        instruction.operation == ConversionOperation.INTEGER_TO_INTEGER,
        instruction.operation == ConversionOperation.COUNT))


def _top_bit(number: Any, size: Any) -> Any:
    """The top bit of an integer of ``size`` in a word; for 64 bits that of the word."""
    return pick([number[bits - 1] for bits in (*SIZES[:_WORD + 1], WORD_BITS)], size)


class NarrowConversion(wiring.Component):
    """Computes COUNT and INTEGER_TO_INTEGER, with a register after the sums. ::

        source --> part of the word --> sign, negation --> register --> fits? --> result
               \\-> bits that are 1 ------ count --------> register ------------/

    Members
    -------
    instruction : In(ConversionInstruction)
        That of ``source``, in the same cycle.
    source : In(32)
    bound : In(NarrowBound)
        That of ``result``, in the same cycle.
    result : Out(32)
        A cycle after ``source``. Extended by its type; 0 for other operations.
    """

    instruction: In(ConversionInstruction)
    source: In(WORD_BITS)
    bound: In(NarrowBound)
    result: Out(WORD_BITS)

    def __init__(self) -> None:
        super().__init__()
        self._number = Signal(WORD_BITS + 1, name="number")
        """The source extended to 33 bits; inverted if it is to be negated."""
        self._adds_one = Signal(name="adds_one")
        """``number`` is inverted: the negated source is ``number`` plus one."""
        self._total = Signal(WORD_BITS + 2, name="total")
        """The integer before it is bounded, with its sign on top."""
        self._count = Signal(WORD_BITS.bit_length(), name="count")
        """How many bits are 1."""
        self._fits = Signal(name="fits")
        """The integer is in the range of the type."""
        self._top = Signal(name="top")
        """The integer's bit at the place of a signed type's top bit; 0 for an unsigned type."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._select(m)
        self._compare(m)
        self._select_result(m)
        return m

    def _select(self, m: Module) -> None:
        """Extracts the source from its register, extends it, and applies ``absolute`` and
        ``negate``: the negated source is its complement plus one. Beside it, the count of bits."""
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
        """Whether the integer is in the range of the type: all bits above the type are equal to the
        type's top bit, or 0 if the type is unsigned."""
        bound: Any = self.bound
        total = self._total
        # By the code of a size: whether any or all of the bits above it are 1. For 64 bits as for
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
        """The integer's low bits, or the nearest bound of the type's range, whose bits below the
        top one are all equal; or the count. The result of any other operation is 0."""
        bound: Any = self.bound
        total = self._total
        to_size = bound.to_size
        negative = total[-1]
        is_kept = Signal()
        above = Signal()
        """The bits above the type: all equal."""
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
