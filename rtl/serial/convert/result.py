"""An integer's bytes as those of the result."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from rtl.convert.formats import DOUBLE, SINGLE
from rtl.convert.instruction import SIZES, Rounding
from rtl.sums import sum_with_carry

from .instruction import BYTE, BytePair, ConversionState, Phase

__all__ = ["SerialResult"]

_SIGN_AND_EXPONENT_BITS = 16
"""Width of the highest two bytes of a floating-point number: its sign, its exponent, and of its
fraction what is beside that."""
_POSITION_BITS = 5
"""Bits of the number of a bit of a word."""


class SerialResult(wiring.Component):
    """Shifts by less than a byte, rounds, adds the exponent, and saturates. ::

        pair --> shift --> complement, round, add exponent --> limit to the type --> byte

    Whether an integer is out of its type's range is known after its last byte. Then ``needs_fill``
    is set, and all bytes are output again, in the phase FILL: the type's lowest or highest value,
    or a constant.

    Members
    -------
    state : In(ConversionState)
        The step is the number of the result's byte.
    pair : In(BytePair)
        Bytes of the integer.
    shifted : Out(8)
        Eight bits of ``pair``; in the scan from the second one on.
    byte : Out(8)
    needs_fill : Out(1)
        After the last byte.
    """

    state: In(ConversionState())
    pair: In(BytePair)
    shifted: Out(BYTE)
    byte: Out(BYTE)
    needs_fill: Out(1)

    def __init__(self) -> None:
        super().__init__()
        self._is_output = Signal()
        self._is_below = Signal()
        """The step is for a byte that is shifted out."""
        self._rounds_up = Signal()
        self._total = Signal(BYTE + 1)
        """The byte rounded and with the exponent, before it is limited to the type."""
        self._is_inside = Signal()
        self._is_last = Signal()
        """The step is for a byte of the type; for its highest one."""
        self._is_out_of_range = Signal()
        self._top = Signal()
        """The highest bit of the result in its type."""
        self._highest_bit = Signal()
        """The highest bit of all bytes of the result, those above the type with them."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self._is_output.eq(self.state.phase == Phase.OUTPUT)
        m.d.comb += self._is_below.eq(self.state.step[-1])
        self._shift(m)
        self._round(m)
        self._add(m)
        self._locate(m)
        self._check_range(m)
        self._decide_fill(m)
        self._select_byte(m)
        return m

    def _shift(self, m: Module) -> None:
        """The lowest eight bits of the two bytes, shifted down."""
        places = self.state.scaling.shift[:exact_log2(BYTE)]
        is_scan = self.state.phase == Phase.SCAN
        bits = Cat(self.pair.lower, self.pair.upper[:-1])
        m.d.comb += self.shifted.eq(bits >> Cat(places[0] | is_scan, places[1:]))

    def _round(self, m: Module) -> None:
        """Bits that are shifted out: the highest one, and whether any below it is 1 (sticky)."""
        half = Signal()
        sticky = Signal()
        with m.If(~self._is_output):
            m.d.sync += half.eq(0)
            m.d.sync += sticky.eq(0)
        with m.Elif(self._is_below):
            m.d.sync += half.eq(self.shifted[-1])
            m.d.sync += sticky.eq(sticky | half | self.shifted[:-1].any())

        is_odd = self.shifted[0]
        is_inexact = half | sticky
        with m.Switch(self.state.instruction.round):
            with m.Case(Rounding.NEAREST):
                m.d.comb += self._rounds_up.eq(half & (sticky | is_odd))
            with m.Case(Rounding.DOWN):
                m.d.comb += self._rounds_up.eq(is_inexact & self.state.source.sign)
            with m.Case(Rounding.UP):
                m.d.comb += self._rounds_up.eq(is_inexact & ~self.state.source.sign)

    def _add(self, m: Module) -> None:
        """Rounded and negated, plus what is added: -(n + 1) is ~n, -n is ~n + 1."""
        is_negated = self.state.instruction.is_f2i & self.state.source.sign
        carry = Signal()
        carry_in = Mux(self.state.step == 0, self._rounds_up ^ is_negated, carry)
        bits = self.shifted ^ is_negated.replicate(BYTE)
        m.d.comb += self._total.eq(sum_with_carry(bits, self._addend(m), carry_in))
        m.d.sync += carry.eq(self._total[-1])

    def _addend(self, m: Module) -> Value:
        """What is added to a byte: a part of the exponent, the sign, the whole result of POPC and
        FLO."""
        instruction = self.state.instruction
        step = self.state.step
        is_double = instruction.is_i2f & instruction.to_size[0]
        stored = self._sign_and_exponent(m, is_double)
        byte_of_word = step[:2]
        is_in_upper_word = step[2] == is_double
        finds_from_bottom = instruction.is_flo & ~instruction.from_top
        position = self.state.source.position
        number = position[:_POSITION_BITS] ^ finds_from_bottom.replicate(_POSITION_BITS)
        # All 32 bits may be 1; the number of a bit is less.
        is_32 = position[_POSITION_BITS] & instruction.is_popc

        addend = Signal(BYTE)
        with m.If((byte_of_word == 3) & is_in_upper_word):
            m.d.comb += addend.eq(stored[BYTE:])
        with m.Elif((byte_of_word == 2) & is_in_upper_word):
            m.d.comb += addend.eq(stored[:BYTE])
        with m.Elif((step == 0) & (instruction.is_flo | instruction.is_popc)):
            m.d.comb += addend.eq(Cat(number, is_32))
        return addend

    def _sign_and_exponent(self, m: Module, is_double: Value) -> Value:
        """The highest two bytes of a floating-point result, without its fraction."""
        instruction = self.state.instruction
        is_rcp = instruction.is_rcp
        source = self.state.source
        scaling = self.state.scaling
        # Of an infinity's exponent the lowest two bits may be missing.
        completed = Mux(scaling.gives_infinity & is_rcp, 0b11, 0)
        exponent = scaling.exponent | completed
        is_nonzero = source.has_leading_bit | source.is_negative
        is_nonzero_float = instruction.is_i2f & is_nonzero
        is_nonzero_reciprocal = is_rcp & ~scaling.gives_zero
        has_exponent = Signal()
        m.d.comb += has_exponent.eq(is_nonzero_float | is_nonzero_reciprocal)

        # An exponent of -1, which rounding makes 0, has a bit in the place of the sign.
        has_sign = is_nonzero_float | (is_rcp & ~instruction.saturate)
        overlap = has_exponent & is_rcp & scaling.exponent[SINGLE.exponent]
        sign = Signal()
        m.d.comb += sign.eq((source.sign & has_sign) ^ overlap)

        double = exponent[:DOUBLE.exponent] << DOUBLE.fraction % BYTE
        single = exponent[:SINGLE.exponent] << SINGLE.fraction % BYTE
        shifted = Mux(is_double, double, single)
        stored = Signal(_SIGN_AND_EXPONENT_BITS)
        m.d.comb += stored.eq(
            (shifted & has_exponent.replicate(_SIGN_AND_EXPONENT_BITS))
            | sign << _SIGN_AND_EXPONENT_BITS - 1)
        return stored

    def _locate(self, m: Module) -> None:
        """Whether the step's byte is one of the result's type."""
        number = self.state.step[:-1]
        with m.Switch(self.state.instruction.to_size):
            for code, size in enumerate(SIZES):
                type_bytes = size // BYTE
                with m.Case(code):
                    m.d.comb += self._is_inside.eq(number[exact_log2(type_bytes):] == 0)
                    m.d.comb += self._is_last.eq(self.state.step == type_bytes - 1)

    def _check_range(self, m: Module) -> None:
        """Bits above the type have to be like its highest one, or 0."""
        byte = self._total[:BYTE]
        differs = (byte ^ self._extension.replicate(BYTE)).any()
        with m.If(self._is_output & ~self._is_below):
            m.d.sync += self._highest_bit.eq(byte[-1])
            with m.If(self._is_inside):
                m.d.sync += self._top.eq(byte[-1])
                m.d.sync += self._is_out_of_range.eq(0)
            with m.Else():
                m.d.sync += self._is_out_of_range.eq(self._is_out_of_range | differs)

    @property
    def _extension(self) -> Value:
        """Bits above the type."""
        return self.state.instruction.to_signed & self._top

    def _decide_fill(self, m: Module) -> None:
        """What saturates, and results that are constants."""
        instruction = self.state.instruction
        scaling = self.state.scaling
        out_of_range = self._is_out_of_range
        i2i_saturates = instruction.is_i2i & instruction.saturate & out_of_range
        f2i_is_invalid = out_of_range | scaling.is_too_large | scaling.is_nan
        f2i_saturates = instruction.is_f2i & f2i_is_invalid
        rcp_is_nan = instruction.is_rcp & scaling.is_nan & ~instruction.saturate
        flo_is_all_ones = instruction.is_flo & ~self.state.source.has_leading_bit
        m.d.comb += self.needs_fill.eq(
            i2i_saturates | f2i_saturates | rcp_is_nan | flo_is_all_ones)

    def _select_byte(self, m: Module) -> None:
        """A byte of the sum, or of what is above the type; in the phase FILL one of a constant:
        bits of the type, its highest bit, and bits above it."""
        instruction = self.state.instruction
        scaling = self.state.scaling
        is_fill = self.state.phase == Phase.FILL
        is_too_large = instruction.is_f2i & scaling.is_too_large
        result_is_negative = Signal()
        f2i_of_nan = Signal()
        involves_double = Signal()
        m.d.comb += result_is_negative.eq(
            Mux(is_too_large, self.state.source.sign, self._highest_bit))
        m.d.comb += f2i_of_nan.eq(instruction.is_f2i & scaling.is_nan)
        m.d.comb += involves_double.eq(
            instruction.source_is_double | instruction.result_is_double)

        # FLO returns all ones, MUFU.RCP a NaN with all bits 1 but the sign. F2I of a NaN has 0, or
        # if a side has 64 bits the highest bit alone.
        body = Signal()
        top = Signal()
        above = Signal()
        saturated_top = Mux(
            f2i_of_nan, involves_double, result_is_negative ^ ~instruction.to_signed)
        saturated_above = Mux(f2i_of_nan, involves_double, result_is_negative)
        m.d.comb += body.eq(
            instruction.is_flo | instruction.is_rcp | (~f2i_of_nan & ~result_is_negative))
        m.d.comb += top.eq(instruction.is_flo | (~instruction.is_rcp & saturated_top))
        m.d.comb += above.eq(instruction.to_signed & saturated_above)

        bit = Signal()
        with m.If(~is_fill):
            m.d.comb += bit.eq(self._extension)
        with m.Elif(self._is_inside):
            m.d.comb += bit.eq(body)
        with m.Else():
            m.d.comb += bit.eq(above)
        with m.If(self._is_inside & ~is_fill):
            m.d.comb += self.byte.eq(self._total[:BYTE])
        with m.Else():
            m.d.comb += self.byte.eq(bit.replicate(BYTE))
            with m.If(is_fill & self._is_last):
                m.d.comb += self.byte[-1].eq(top)
