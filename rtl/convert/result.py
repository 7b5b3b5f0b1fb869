"""The last stages of the datapath: round a shifted magnitude and pack the result."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.functions import OF_DOUBLES
from rtl.structs import struct_value

from .bound import BoundType, IntegerBound, UnboundedInteger
from .formats import DOUBLE, HALF, SINGLE, result_formats
from .instruction import (
    DOUBLE_BITS,
    EXPONENT_BITS,
    WORD_BITS,
    ConversionInstruction,
    ConversionOperation,
    Rounding,
    goes_up,
    size_code,
)
from .source import Shiftable

__all__ = ["RESULT_STAGES", "ConversionResult"]

RESULT_STAGES = 4
_FRACTION = DOUBLE_BITS - DOUBLE.fraction
"""Lowest bit of a double's fraction in ``_magnitude``, which has 64 bits and one below them."""
_POINT_BITS = DOUBLE.fraction + 2
"""Width of the mask ``_below_point``: a double's fraction and the two bits above it."""
_PLACE_BITS = 5
"""Width of the result of FLO, the number of a bit in a word."""


class _PackedResult(data.Struct):
    """Pack to add: a result before rounding."""

    number: UnboundedInteger
    """The result in ``bits``: the magnitude of an integer, or the pattern of a float, which has the
    other fields 0."""
    adds_one: unsigned(1)
    """One is added to ``bits`` to round."""


class ConversionResult(wiring.Component):
    """Four stages, each with a register: RESULT_STAGES cycles from ``shifted`` to ``result``.

    =====  =====  ==================================================================
    stage  name   what is known at its end
    =====  =====  ==================================================================
    1      pack   the result before rounding, and whether one is added
    2      add    the result, rounded and negated
    3, 4   bound  the result; an integer is bounded by its type
    =====  =====  ==================================================================

    Rounding adds one to the pattern, or nothing. If the fraction overflows, its carry increments
    the exponent, which is the correct result.

    Without ``floats`` there is no F2F and no half precision. Without ``doubles`` there are no MUFU
    functions of upper words.

    Members
    -------
    instruction : In(ConversionInstruction)
        Stable while its results are in the stages.
    ahead : In(signed)
        The exponent that ``shifted`` has in the next cycle.
    shifted : In(Shiftable)
        An output of the shifter.
    result : Out(64)
        A narrower integer is extended by its type, a narrower float with zeros.
    """

    instruction: In(ConversionInstruction)
    ahead: In(signed(EXPONENT_BITS))
    shifted: In(Shiftable)
    result: Out(DOUBLE_BITS)

    def __init__(self, floats: bool, doubles: bool) -> None:
        self._floats = floats
        self._doubles = doubles
        self._formats = result_formats(floats, doubles)
        super().__init__()
        self._format_code = Signal(3, name="format_code")
        """The format of the result: the value that the patterns of ``result_formats`` match."""
        self._bias = Signal(DOUBLE.exponent, name="bias")
        """The stored exponent of 1.0 in that format."""
        self._special = Signal(DOUBLE.exponent, name="special")
        """The stored exponent of infinities and NaNs in that format."""
        self._integer = Signal(DOUBLE_BITS + 1, name="integer")
        """The magnitude of an integer; bit 0 has weight one half."""
        self._magnitude = Signal(DOUBLE_BITS + 1, name="magnitude")
        """The significand of a floating-point result: its top bit is 1 if the result is normal."""
        self._exceeds_format = Signal(name="exceeds_format")
        """The magnitude exceeds the largest number of the format, unless the result is special."""
        self._is_underflow = Signal(name="is_underflow")
        """A result of MUFU is below the normal range, and becomes a zero."""
        self._is_at_least_one = Signal(name="is_at_least_one")
        """The magnitude is 1.0 or more."""
        self._rounds_from_largest = Signal(name="rounds_from_largest")
        """The result is finite and exceeds the format: it is rounded from the largest number, to
        that or to an infinity."""
        self._below_point = Signal(_POINT_BITS, name="below_point")
        """For F2F that rounds to an integral value: a mask of the bits below the point, from the
        lowest bit of a double's fraction up. The last two bits: the magnitude is below one; below
        one half. Else 0."""
        self._rounds_up = Signal(name="rounds_up")
        """Rounding adds one to the lowest bit that is kept."""
        self._float = Signal(DOUBLE_BITS, name="float")
        """A floating-point result before rounding."""
        self._float_is_rounded = Signal(name="float_is_rounded")
        """That result is to be rounded: it is none of the special cases."""
        self._packed: Any = Signal(_PackedResult, name="packed")
        """Pack to add."""
        self._added: Any = Signal(UnboundedInteger, name="added")
        """Add to bound. Only F2I sets fields other than ``bits``."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._select_format(m)
        self._align(m)
        self._find_point(m)
        self._compare(m)
        self._decide_rounding(m)
        self._pack_float(m)
        self._pack(m)
        self._add(m)
        self._bound(m)
        return m

    def _is(self, operation: ConversionOperation) -> Value:
        return self.instruction.operation == operation

    def _is_float_to_float(self) -> Value:
        """Whether the instruction is F2F."""
        return self._is(ConversionOperation.FLOAT_TO_FLOAT) & self._floats

    def _select_format(self, m: Module) -> None:
        """The format of a floating-point result."""
        instruction = self.instruction
        is_of_upper = Cat(instruction.function == upper for upper in OF_DOUBLES).any()
        is_upper = self._is(ConversionOperation.FUNCTION) & is_of_upper & self._doubles
        m.d.comb += self._format_code.eq(Cat(instruction.to_size, is_upper))
        with m.Switch(self._format_code):
            for code, form in self._formats.items():
                with m.Case(code):
                    m.d.comb += self._bias.eq(form.bias)
                    m.d.comb += self._special.eq(form.special)

    def _align(self, m: Module) -> None:
        """Reverses the bits if the shifter shifted right, see Shiftable."""
        bits = self.shifted.bits
        m.d.comb += self._integer.eq(bits[::-1])
        m.d.comb += self._magnitude.eq(bits)
        if self._floats:
            with m.If(~goes_up(self.instruction)):
                m.d.comb += self._magnitude.eq(self._integer)

    def _find_point(self, m: Module) -> None:
        """For F2F that rounds to an integral value, the mask of the bits below the point: from the
        exponent in ``ahead``, so that it is in a register when the bits arrive."""
        if not self._floats:
            return
        above = Signal(signed(EXPONENT_BITS))
        """How many bits of the mask are not below the point."""
        shift = Signal(range(_POINT_BITS + 1))
        m.d.comb += above.eq(self.ahead - self._bias + _POINT_BITS - DOUBLE.fraction)
        with m.If(above < 0):
            m.d.comb += shift.eq(0)
        with m.Elif(above > _POINT_BITS):
            m.d.comb += shift.eq(_POINT_BITS)
        with m.Else():
            m.d.comb += shift.eq(above)
        m.d.sync += self._below_point.eq(0)
        with m.If(self.instruction.whole):
            m.d.sync += self._below_point.eq(Const((1 << _POINT_BITS) - 1) >> shift)

    def _compare(self, m: Module) -> None:
        """Compares the magnitude with the range of its format: exponent and count, not their
        difference, which would be later."""
        shifted = self.shifted
        is_normal = self._magnitude[-1]
        with m.Switch(self._format_code):
            for code, form in self._formats.items():
                with m.Case(code):
                    with m.If(self._is_float_to_float()):
                        m.d.comb += self._exceeds_format.eq(shifted.exponent >= form.special)
                    with m.Elif(form is HALF):
                        m.d.comb += self._exceeds_format.eq(self._integer_exceeds_half())
        m.d.comb += self._is_underflow.eq(
            self._is(ConversionOperation.FUNCTION)
            & (~is_normal | (shifted.exponent <= shifted.count)))
        m.d.comb += self._is_at_least_one.eq(shifted.exponent >= shifted.count + self._bias)

    def _integer_exceeds_half(self) -> Value:
        """Whether an integer is 2**16 or more, which exceeds half precision: normalizing shifted it
        by less than 48."""
        lengths = DOUBLE_BITS - 1 - HALF.bias
        assert lengths == 0b110000
        return self._magnitude[-1] & (self.shifted.count < lengths)

    def _decide_rounding(self, m: Module) -> None:
        """Whether rounding adds one, from the bits below the lowest one that is kept."""
        shifted = self.shifted
        magnitude = self._magnitude
        lowest_kept = Signal()
        half_lost = Signal()
        """The highest bit below the lowest one that is kept."""
        rest_lost = Signal()
        """Any bit below that one is 1."""
        with m.If(self._is(ConversionOperation.FLOAT_TO_INTEGER)):
            m.d.comb += lowest_kept.eq(self._integer[1])
            m.d.comb += half_lost.eq(self._integer[0])
            m.d.comb += rest_lost.eq(shifted.sticky)
        with m.Elif(self._rounds_from_largest):
            m.d.comb += half_lost.eq(1)
            m.d.comb += rest_lost.eq(1)
        with m.Elif(self.instruction.whole & self._floats):
            # ``below & ~below_half`` is the bit of weight one half; 0 if that is above the
            # magnitude.
            bits = magnitude[_FRACTION:]
            below = self._below_point[:-1]
            below_half = self._below_point[1:]
            up_to_lowest_kept = Cat(Const(1, 1), self._below_point[:-2])
            m.d.comb += lowest_kept.eq((bits & up_to_lowest_kept & ~below).any())
            m.d.comb += half_lost.eq((bits & below & ~below_half).any())
            m.d.comb += rest_lost.eq((bits & below_half).any())
        with m.Else(), m.Switch(self._format_code):
            for code, form in self._formats.items():
                lowest = DOUBLE_BITS - form.fraction
                with m.Case(code):
                    m.d.comb += lowest_kept.eq(magnitude[lowest])
                    m.d.comb += half_lost.eq(magnitude[lowest - 1])
                    m.d.comb += rest_lost.eq(magnitude[:lowest - 1].any() | shifted.sticky)

        is_inexact = half_lost | rest_lost
        with m.Switch(self.instruction.round):
            with m.Case(Rounding.NEAREST):
                m.d.comb += self._rounds_up.eq(half_lost & (rest_lost | lowest_kept))
            with m.Case(Rounding.DOWN):
                m.d.comb += self._rounds_up.eq(is_inexact & shifted.negative)
            with m.Case(Rounding.UP):
                m.d.comb += self._rounds_up.eq(is_inexact & ~shifted.negative)

    def _pack_float(self, m: Module) -> None:
        """A floating-point result before rounding. The bits of the fraction in ``hidden`` are
        replaced by ``fill``: all bits in special cases; the bits below the point where F2F rounds
        to an integral value. If that rounds up they are ones, so that the one that is added carries
        to the bits above."""
        instruction = self.instruction
        shifted = self.shifted
        saturates = instruction.saturate
        is_below_one = self._below_point[-2] & self._floats
        is_one_or_more = self._is_at_least_one & ~self._is_underflow
        hidden = Signal(DOUBLE.fraction)
        fill = Signal()
        exponent = Signal(DOUBLE.exponent)
        m.d.comb += hidden.eq(~0)
        with m.If(saturates & (shifted.negative | shifted.is_nan)):
            m.d.comb += exponent.eq(0)
        with m.Elif(shifted.is_nan):
            m.d.comb += exponent.eq(self._special)
            m.d.comb += fill.eq(1)
        with m.Elif(saturates & (shifted.overflows | is_one_or_more)):
            m.d.comb += exponent.eq(self._bias)
        with m.Elif(shifted.overflows):
            m.d.comb += exponent.eq(self._special)
        with m.Elif(self._is_underflow):
            m.d.comb += exponent.eq(0)
        with m.Elif(self._exceeds_format):
            # The largest number, rounded as if ones followed it.
            m.d.comb += self._rounds_from_largest.eq(1)
            m.d.comb += self._float_is_rounded.eq(1)
            m.d.comb += exponent.eq(self._special - 1)
            m.d.comb += fill.eq(1)
        with m.Else():
            m.d.comb += self._float_is_rounded.eq(1)
            m.d.comb += hidden.eq(self._below_point[:DOUBLE.fraction])
            m.d.comb += fill.eq(self._rounds_up)
            with m.If(is_below_one & self._rounds_up):
                m.d.comb += exponent.eq(self._bias - 1)
            with m.Elif(is_below_one):
                m.d.comb += exponent.eq(0)
            with m.Elif(self._magnitude[-1]):
                m.d.comb += exponent.eq(shifted.exponent - shifted.count)

        # In a double-precision NaN only the highest bit of the fraction is 1.
        is_double_nan = shifted.is_nan & (instruction.to_size == size_code(DOUBLE_BITS))
        fills = Cat((fill & ~is_double_nan).replicate(DOUBLE.fraction - 1), fill)
        kept = self._magnitude[_FRACTION:-1]
        fraction = (kept & ~hidden) | (fills & hidden)
        # The float of integer 0 is +0.
        has_sign = ~self._is(ConversionOperation.INTEGER_TO_FLOAT) | self._magnitude[-1]
        negative = shifted.negative & ~shifted.is_nan & ~saturates & has_sign
        with m.Switch(self._format_code):
            for code, form in self._formats.items():
                # Without F2F a double is the result of I2F only, and never a special case.
                is_plain = form is DOUBLE and not self._floats
                bits = kept if is_plain else fraction
                with m.Case(code):
                    m.d.comb += self._float.eq(Cat(
                        bits[DOUBLE.fraction - form.fraction:],
                        exponent[:form.exponent],
                        negative))

    def _pack(self, m: Module) -> None:
        """Pack: selects the result before rounding."""
        shifted = self.shifted
        number = self._packed.number
        adds_one = self._packed.adds_one
        to_integer = self._is(ConversionOperation.FLOAT_TO_INTEGER)
        m.d.sync += number.negative.eq(to_integer & shifted.negative)
        m.d.sync += number.overflows.eq(to_integer & shifted.overflows)
        m.d.sync += number.is_nan.eq(to_integer & shifted.is_nan)
        with m.If(to_integer):
            m.d.sync += number.bits.eq(self._integer[1:])
            m.d.sync += adds_one.eq(self._rounds_up)
        with m.Elif(self._is(ConversionOperation.FIND)):
            m.d.sync += number.bits.eq(self._found_place())
            m.d.sync += adds_one.eq(0)
        with m.Else():
            m.d.sync += number.bits.eq(self._float)
            m.d.sync += adds_one.eq(self._rounds_up & self._float_is_rounded)

    def _found_place(self) -> Value:
        """The result of FLO: the number of the highest 1 counted from the top, which is the shift
        count of the shifter, or from bit 0; all ones if there is no 1."""
        from_below = ~self.instruction.from_top
        place = self.shifted.count[:_PLACE_BITS] ^ from_below.replicate(_PLACE_BITS)
        return Mux(self._magnitude[-1], place, Const(~0, WORD_BITS))

    def _add(self, m: Module) -> None:
        """Add: rounds and negates in one sum. -(n + 1) is ~n, -n is ~n + 1."""
        number = self._packed.number
        bits = number.bits ^ number.negative.replicate(DOUBLE_BITS)
        m.d.sync += self._added.eq(number)
        m.d.sync += self._added.bits.eq(bits + (number.negative ^ self._packed.adds_one))

    def _bound(self, m: Module) -> None:
        """Bound: bounds an integer by its type. A float is not changed here, except that a
        subnormal result is flushed to a zero of its sign."""
        m.submodules.bound = bound = IntegerBound()
        instruction = self.instruction
        added = self._added
        to_integer = self._is(ConversionOperation.FLOAT_TO_INTEGER)
        is_single = instruction.to_size == size_code(WORD_BITS)
        is_flushed = (
            self._is_float_to_float() & instruction.flush & is_single
            & (SINGLE.exponent_of(added.bits) == 0))
        m.d.comb += bound.number.eq(added)
        with m.If(is_flushed):
            m.d.comb += bound.number.bits[:WORD_BITS - 1].eq(0)
        m.d.comb += bound.type.eq(struct_value(
            BoundType,
            size=Mux(to_integer, instruction.to_size, size_code(DOUBLE_BITS)),
            signed=instruction.to_signed,
            saturate=to_integer,
            double=instruction.size == size_code(DOUBLE_BITS)))
        m.d.sync += self.result.eq(bound.bounded)
