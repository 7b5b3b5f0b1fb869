"""A source's bytes as an integer."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2, exact_log2

from rtl.convert.formats import DOUBLE, SINGLE
from rtl.convert.instruction import SHIFT_BITS, SIZES
from rtl.population import population
from rtl.structs import struct_value
from rtl.sums import sum_with_carry

from .instruction import (
    BYTE,
    BytePair,
    ConversionState,
    Phase,
    ScannedSource,
    SourceByte,
    computes_parabola,
)

__all__ = ["SourceInteger"]

_PLACE_BITS = ceil_log2(BYTE)
_BYTE_NUMBER_BITS = SHIFT_BITS - _PLACE_BITS


class SourceInteger(wiring.Component):
    """Turns a source's bytes, the lowest first, into an integer's: complemented, if a negative one
    requires it; of a floating-point number the fraction with the leading bit above it. In the scan
    neither is done. ::

        byte --> exponent removed, complemented, addend added --> upper --> lower
                                                                    |         |
                                                       leading bit: those that differ

    Members
    -------
    state : In(ConversionState)
        In the scan the step is the number of the byte ``pair.lower``.
    read : In(SourceByte)
        A byte of the source, or of a parabola's constant.
    addend : In(8)
        MUFU.RCP: is added to the byte.
    pair : Out(BytePair)
        Bytes of the integer, the lower one two cycles after the source's.
    shifted : In(8)
        In the scan: eight bits of ``pair``, from the second one of its lower byte on.
    source : Out(ScannedSource)
    """

    state: In(ConversionState())
    read: In(SourceByte)
    addend: In(BYTE)
    pair: Out(BytePair)
    shifted: In(BYTE)
    source: Out(ScannedSource)

    def __init__(self) -> None:
        super().__init__()
        self._is_parabola = Signal()
        """The byte belongs to a parabola's constant."""
        self._is_scan = Signal()
        self._is_output = Signal()
        self._is_real = Signal()
        """The source is a floating-point number."""
        self._is_double = Signal()
        self._is_inside = Signal()
        """The index selects a byte of the source."""
        self._head = Signal.like(self.source.head)
        self._is_negative = Signal()
        self._sign = Signal()
        self._has_leading_bit = Signal()
        self._position = Signal(SHIFT_BITS)
        """See ScannedSource."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        instruction = self.state.instruction
        m.d.comb += self._is_scan.eq(self.state.phase == Phase.SCAN)
        m.d.comb += self._is_output.eq(self.state.phase == Phase.OUTPUT)
        m.d.comb += self._is_parabola.eq(computes_parabola(self.state))
        m.d.comb += self._is_real.eq(instruction.is_f2i | instruction.is_rcp)
        m.d.comb += self._is_double.eq(instruction.source_is_double)
        self._locate(m)
        self._keep_head(m)
        self._find_sign(m)
        self._convert(m)
        self._find_leading_bit(m)
        m.d.comb += self.source.eq(struct_value(
            ScannedSource,
            head=self._head,
            is_negative=self._is_negative,
            sign=self._sign,
            has_leading_bit=self._has_leading_bit,
            position=self._position))
        return m

    def _locate(self, m: Module) -> None:
        """Whether the byte is one of the source."""
        with m.Switch(self.state.instruction.size):
            for code, size in enumerate(SIZES):
                with m.Case(code):
                    is_outside = self.read.index[exact_log2(size // BYTE):].any()
                    m.d.comb += self._is_inside.eq(~is_outside)

    def _keep_head(self, m: Module) -> None:
        """The last bytes of the source in the scan are the highest ones."""
        with m.If(self._is_scan & self._is_inside):
            m.d.sync += self._head.eq(Cat(self._head[BYTE:], self.read.byte))

    def _find_sign(self, m: Module) -> None:
        """The sign of the source, and that after the modifiers."""
        instruction = self.state.instruction
        top = self._head[-1]
        has_sign = instruction.signed | self._is_real
        m.d.comb += self._is_negative.eq(instruction.signed & top)
        m.d.comb += self._sign.eq(
            (top & has_sign & ~instruction.absolute) ^ instruction.negate)

    def _convert(self, m: Module) -> None:
        """The integer's byte: bits of the source or what replaces them, complemented, plus the
        addend."""
        complements = Signal()
        m.d.comb += complements.eq(self._complements())
        bits = self._select_bits(m) ^ complements.replicate(BYTE)
        carry = Signal()
        total = Signal(BYTE + 1)
        m.d.comb += total.eq(sum_with_carry(bits, self.addend, carry))
        with m.If(self._is_scan | self._is_output):
            m.d.sync += self.pair.upper.eq(total)
            m.d.sync += self.pair.lower.eq(self.pair.upper)
        with m.Else():
            m.d.sync += self.pair.eq(0)
        # The first carry completes the complement: -n is ~n + 1.
        with m.If(self._is_output):
            m.d.sync += carry.eq(total[-1])
        with m.Else():
            m.d.sync += carry.eq(complements & ~self._is_scan)

    def _complements(self) -> Value:
        """Whether all bits are inverted: POPC counts inverted bits in the scan; for the output a
        negative integer is made positive, or a positive one negative."""
        instruction = self.state.instruction
        changes_sign = self._is_negative ^ self._sign
        in_scan = instruction.is_popc & instruction.invert
        in_output = (
            (instruction.is_i2f & self._is_negative)
            | (instruction.is_i2i & changes_sign))
        return Mux(self._is_scan, in_scan, in_output)

    def _select_bits(self, m: Module) -> Value:
        """The source's byte. Bits of an exponent are 0, but its lowest one is the fraction's
        leading bit. Below the source there are zeros, above it is its sign."""
        index = self.read.index
        instruction = self.state.instruction
        scaling = self.state.scaling
        is_real_source = self._is_real & ~self._is_parabola & self._is_inside
        # The highest two bytes of a floating-point number: only exponent and sign; exponent and
        # fraction.
        is_highest_two = Signal()
        is_highest = Signal()
        is_mixed = Signal()
        m.d.comb += is_highest_two.eq(is_real_source & index[1] & (index[2] == self._is_double))
        m.d.comb += is_highest.eq(is_highest_two & index[0])
        m.d.comb += is_mixed.eq(is_highest_two & ~index[0])
        exponent_bits = Signal(BYTE)
        leading_bit = Signal(BYTE)
        for format_ in (SINGLE, DOUBLE):
            with m.If(is_mixed & (self._is_double == (format_ is DOUBLE))):
                lowest = format_.fraction % BYTE
                m.d.comb += exponent_bits[lowest:].eq(-1)
                m.d.comb += leading_bit[lowest].eq(scaling.is_normal & self._is_output)

        is_kept = Signal()
        is_in_constant = (index == -1) | ((index >= 0) & (index < 3))
        is_zero = Mux(
            instruction.is_rcp,
            scaling.reciprocal_is_special,
            instruction.is_f2i & scaling.is_flushed)
        computes_nothing = is_zero | instruction.is_popc | instruction.is_flo
        has_byte = Mux(self._is_parabola, is_in_constant, self._is_inside & ~is_highest)
        m.d.comb += is_kept.eq(has_byte & ~(self._is_output & computes_nothing))

        is_filled = Signal()
        is_above = ~index[-1] & ~self._is_inside
        m.d.comb += is_filled.eq(is_above & self._fill())
        kept_bits = is_kept.replicate(BYTE) & ~exponent_bits
        other_bits = is_filled.replicate(BYTE) | leading_bit
        return (self.read.byte & kept_bits) | (other_bits & ~kept_bits)

    def _fill(self) -> Value:
        """Bits above an integer."""
        instruction = self.state.instruction
        is_sign_extended = instruction.signed & ~instruction.is_popc
        is_inverted = instruction.is_flo & instruction.invert
        return ~self._is_real & Mux(is_sign_extended, self._head[-1], is_inverted)

    def _find_leading_bit(self, m: Module) -> None:
        """In the scan: the highest bit that differs from the one above it; or how many are 1."""
        instruction = self.state.instruction
        step = self.state.step
        changes = self.pair.lower ^ self.shifted
        place = Signal(_PLACE_BITS)
        for bit in range(BYTE):
            with m.If(changes[bit]):
                m.d.comb += place.eq(bit)
        byte_number = step[:_BYTE_NUMBER_BITS]
        is_in_word = ~step[2]
        with m.If(self._is_scan & step[-1]):
            m.d.sync += self._position.eq(0)
            m.d.sync += self._has_leading_bit.eq(0)
        with m.Elif(self._is_scan & instruction.is_popc), m.If(is_in_word):
            m.d.sync += self._position.eq(self._position + population(self.pair.lower))
        with m.Elif(self._is_scan & changes.any()):
            m.d.sync += self._position.eq(~Cat(place, byte_number))
            m.d.sync += self._has_leading_bit.eq(1)
