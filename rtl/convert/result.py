"""The last stages: a shifted magnitude rounded and brought into the result's format."""

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
"""Lowest bit of the widest fraction, of a magnitude of 64 bits with its highest bit on top and one
more bit below it."""
_POINT_BITS = DOUBLE.fraction + 2
"""Bits of the mask of what is below the point."""
_PLACE_BITS = 5
"""Bits of the result of FLO, a place in a word."""


class _PackedResult(data.Struct):
    """Pack to add: a result before rounding."""

    number: UnboundedInteger
    """The result's magnitude; only one that is to be an integer is anything but ``bits``."""
    adds_one: unsigned(1)
    """It is rounded up."""


class ConversionResult(wiring.Component):
    """Four stages with a register each.

    =====  =====  ==================================================================
    stage  name   what is known at its end
    =====  =====  ==================================================================
    1      pack   the result before rounding, and whether one is added
    2      add    the result, rounded and negated
    3, 4   bound  an integer is within its type; everything else passes as it is
    =====  =====  ==================================================================

    Rounding adds one, or nothing, to the lowest bit of the result. A carry out of the fraction goes
    on into the exponent, which makes it right.

    Without ``floats`` there is no F2F, and no half precision, without ``doubles`` no function of
    upper words.

    Members
    -------
    instruction : In(ConversionInstruction)
        Stable while results of it pass.
    ahead : In(signed)
        The exponent of what is in ``shifted`` a cycle later.
    shifted : In(Shiftable)
    result : Out(64)
        One of 32 bits is extended.
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
        """Which of the formats the result has."""
        self._bias = Signal(DOUBLE.exponent, name="bias")
        """The exponent of one in that format."""
        self._special = Signal(DOUBLE.exponent, name="special")
        """The exponent of its infinities."""
        self._integer = Signal(DOUBLE_BITS + 1, name="integer")
        """The magnitude of an integer, with one bit below the point."""
        self._magnitude = Signal(DOUBLE_BITS + 1, name="magnitude")
        """The magnitude of a floating-point number, with its highest bit on top if it is normal."""
        self._exceeds_format = Signal(name="exceeds_format")
        """If it is finite, it is beyond the largest number of its format."""
        self._is_underflow = Signal(name="is_underflow")
        """It is a result of MUFU below the normal range: a zero."""
        self._is_at_least_one = Signal(name="is_at_least_one")
        self._rounds_from_largest = Signal(name="rounds_from_largest")
        """It is finite and beyond the largest number: that, or an infinity."""
        self._below_point = Signal(_POINT_BITS, name="below_point")
        """If F2F rounds to an integer: the bits below the point, from the lowest one of a fraction
        on. The last one: all of it is below one half."""
        self._rounds_up = Signal(name="rounds_up")
        """One is added to what is kept, if it is rounded."""
        self._float = Signal(DOUBLE_BITS, name="float")
        """A floating-point result before rounding."""
        self._float_is_rounded = Signal(name="float_is_rounded")
        """It is not a special one."""
        self._packed: Any = Signal(_PackedResult, name="packed")
        """Pack to add."""
        self._added: Any = Signal(UnboundedInteger, name="added")
        """Add to bound; only F2I makes an integer, and anything but bits."""

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

    def _refits(self) -> Value:
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
        """The shifted bits are in opposite order if they were shifted down."""
        bits = self.shifted.bits
        m.d.comb += self._integer.eq(bits[::-1])
        m.d.comb += self._magnitude.eq(bits)
        if self._floats:
            with m.If(~goes_up(self.instruction)):
                m.d.comb += self._magnitude.eq(self._integer)

    def _find_point(self, m: Module) -> None:
        """Of F2F that rounds to an integer, the mask of what is below the point. The exponent says
        that a cycle before."""
        if not self._floats:
            return
        above = Signal(signed(EXPONENT_BITS))
        """Bits of the mask that are above the point."""
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
        """The magnitude against the range of its format, beside the difference that is its
        exponent, not behind it."""
        shifted = self.shifted
        is_normal = self._magnitude[-1]
        with m.Switch(self._format_code):
            for code, form in self._formats.items():
                with m.Case(code):
                    with m.If(self._refits()):
                        m.d.comb += self._exceeds_format.eq(shifted.exponent >= form.special)
                    with m.Elif(form is HALF):
                        m.d.comb += self._exceeds_format.eq(self._integer_exceeds_half())
        m.d.comb += self._is_underflow.eq(
            self._is(ConversionOperation.FUNCTION)
            & (~is_normal | (shifted.exponent <= shifted.count)))
        m.d.comb += self._is_at_least_one.eq(shifted.exponent >= shifted.count + self._bias)

    def _integer_exceeds_half(self) -> Value:
        """Whether an integer is 2**16 or more, which no number in half precision is. It went up by
        less than 48 bits."""
        lengths = DOUBLE_BITS - 1 - HALF.bias
        assert lengths == 0b110000
        return self._magnitude[-1] & (self.shifted.count < lengths)

    def _decide_rounding(self, m: Module) -> None:
        """Whether one is added."""
        shifted = self.shifted
        magnitude = self._magnitude
        lowest_kept = Signal()
        half_lost = Signal()
        """The highest bit that is lost."""
        rest_lost = Signal()
        """Any of the others is 1."""
        with m.If(self._is(ConversionOperation.FLOAT_TO_INTEGER)):
            m.d.comb += lowest_kept.eq(self._integer[1])
            m.d.comb += half_lost.eq(self._integer[0])
            m.d.comb += rest_lost.eq(shifted.sticky)
        with m.Elif(self._rounds_from_largest):
            m.d.comb += half_lost.eq(1)
            m.d.comb += rest_lost.eq(1)
        with m.Elif(self.instruction.whole & self._floats):
            # The mask is ones up to the point: its highest one is that of the half.
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
        """A floating-point result before rounding: special ones, and those whose fraction is that
        of the magnitude. Bits of the fraction in ``hidden`` are ``fill`` instead: below the point,
        ones if it rounds up, to which one is added."""
        instruction = self.instruction
        shifted = self.shifted
        saturates = instruction.saturate
        is_below_half = self._below_point[-2] & self._floats
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
            # The largest number, as if there were ones behind it.
            m.d.comb += self._rounds_from_largest.eq(1)
            m.d.comb += self._float_is_rounded.eq(1)
            m.d.comb += exponent.eq(self._special - 1)
            m.d.comb += fill.eq(1)
        with m.Else():
            m.d.comb += self._float_is_rounded.eq(1)
            m.d.comb += hidden.eq(self._below_point[:DOUBLE.fraction])
            m.d.comb += fill.eq(self._rounds_up)
            with m.If(is_below_half & self._rounds_up):
                m.d.comb += exponent.eq(self._bias - 1)
            with m.Elif(is_below_half):
                m.d.comb += exponent.eq(0)
            with m.Elif(self._magnitude[-1]):
                m.d.comb += exponent.eq(shifted.exponent - shifted.count)

        # A NaN in double precision has but the highest bit of its fraction.
        is_double_nan = shifted.is_nan & (instruction.to_size == size_code(DOUBLE_BITS))
        fills = Cat((fill & ~is_double_nan).replicate(DOUBLE.fraction - 1), fill)
        kept = self._magnitude[_FRACTION:-1]
        fraction = (kept & ~hidden) | (fills & hidden)
        # An integer 0 has no sign.
        has_sign = ~self._is(ConversionOperation.INTEGER_TO_FLOAT) | self._magnitude[-1]
        negative = shifted.negative & ~shifted.is_nan & ~saturates & has_sign
        with m.Switch(self._format_code):
            for code, form in self._formats.items():
                # Without F2F a double is made of an integer, and is never a special one.
                is_plain = form is DOUBLE and not self._floats
                bits = kept if is_plain else fraction
                with m.Case(code):
                    m.d.comb += self._float.eq(Cat(
                        bits[DOUBLE.fraction - form.fraction:],
                        exponent[:form.exponent],
                        negative))

    def _pack(self, m: Module) -> None:
        """Pack: the result before rounding."""
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
        """The result of FLO: how far the highest bit went up, or its place counted from below; all
        ones if no bit is 1."""
        from_below = ~self.instruction.from_top
        place = self.shifted.count[:_PLACE_BITS] ^ from_below.replicate(_PLACE_BITS)
        return Mux(self._magnitude[-1], place, Const(~0, WORD_BITS))

    def _add(self, m: Module) -> None:
        """Add: rounded and negated. -(n + 1) is ~n, -n is ~n + 1."""
        number = self._packed.number
        bits = number.bits ^ number.negative.replicate(DOUBLE_BITS)
        m.d.sync += self._added.eq(number)
        m.d.sync += self._added.bits.eq(bits + (number.negative ^ self._packed.adds_one))

    def _bound(self, m: Module) -> None:
        """Bound: an integer within its type. What is no integer passes as it is, but for a
        subnormal number that is flushed: of that the sign is left."""
        m.submodules.bound = bound = IntegerBound()
        instruction = self.instruction
        added = self._added
        to_integer = self._is(ConversionOperation.FLOAT_TO_INTEGER)
        is_single = instruction.to_size == size_code(WORD_BITS)
        is_flushed = (
            self._refits() & instruction.flush & is_single
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
