"""The last stages: a shifted magnitude rounded and brought into the result's format."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.functions import OF_DOUBLES

from .bound import IntegerBound
from .formats import DOUBLE, SINGLE, UPPER, Format
from .instruction import DOUBLE_BITS, SIZES, WORD_BITS, ConversionInstruction, ConversionOperation, Rounding
from .source import Shiftable

__all__ = ["RESULT_STAGES", "ConversionResult"]

RESULT_STAGES = 4


class ConversionResult(wiring.Component):
    """Four stages with a register each. Without ``floats`` there is no F2F, without ``doubles`` no
    function of upper words.

    Members
    -------
    instruction : In(ConversionInstruction)
        Stable while results of it pass.
    shifted : In(Shiftable)
    result : Out(64)
        One of 32 bits is extended.
    """

    instruction: In(ConversionInstruction)
    shifted: In(Shiftable)
    result: Out(DOUBLE_BITS)

    def __init__(self, floats: bool, doubles: bool) -> None:
        self._floats, self._doubles = floats, doubles
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.bound = bound = IntegerBound()
        instruction, shifted, count = self.instruction, self.shifted, self.shifted.count
        to_integer = instruction.operation == ConversionOperation.FLOAT_TO_INTEGER
        wide = instruction.to_size == SIZES.index(DOUBLE_BITS)

        # What it is without rounding, and what rounding adds.
        kept, odd, half, rest = Signal(DOUBLE_BITS), Signal(), Signal(), Signal()
        rounded, none, up = Signal(), Signal(), Signal()
        integer = shifted.bits[::-1]
        m.d.comb += none.eq(~shifted.bits[-1])
        with m.Switch(instruction.operation):
            with m.Case(ConversionOperation.FIND):
                m.d.comb += kept.eq(Mux(none, Const(~0, WORD_BITS),
                                        count[:5] ^ (~instruction.from_top).replicate(5)))
            with m.Case(ConversionOperation.INTEGER_TO_FLOAT):
                for matches, form in ((wide, DOUBLE), (~wide, SINGLE)):
                    with m.If(matches & ~none):
                        cut = len(shifted.bits) - 1 - form.fraction
                        m.d.comb += [
                            kept.eq(_packed(form, shifted)), odd.eq(shifted.bits[cut]),
                            half.eq(shifted.bits[cut - 1]), rest.eq(shifted.bits[:cut - 1].any()), rounded.eq(1)]
            with m.Case(ConversionOperation.FUNCTION):
                upper = Cat(instruction.function == function for function in OF_DOUBLES).any()
                with m.If(upper if self._doubles else Const(0, 1)):
                    self._function(m, UPPER, kept, odd, half, rest, rounded)
                with m.Else():
                    self._function(m, SINGLE, kept, odd, half, rest, rounded)
            with m.Case(ConversionOperation.FLOAT_TO_FLOAT):
                if self._floats:
                    self._whole(m, integer[1:WORD_BITS], kept, odd, half, rest, rounded, up)
            with m.Default():
                m.d.comb += [kept.eq(integer[1:]), odd.eq(integer[1]), half.eq(integer[0]), rest.eq(shifted.sticky),
                             rounded.eq(1)]
        with m.Switch(instruction.round):
            with m.Case(Rounding.NEAREST):
                m.d.comb += up.eq(half & (rest | odd))
            with m.Case(Rounding.DOWN):
                m.d.comb += up.eq((half | rest) & shifted.negative)
            with m.Case(Rounding.UP):
                m.d.comb += up.eq((half | rest) & ~shifted.negative)
        whole, whole_up, whole_flip = Signal(DOUBLE_BITS), Signal(), Signal()
        excess, no_number = Signal(), Signal()
        m.d.sync += [
            whole.eq(kept), whole_up.eq(up & rounded), whole_flip.eq(shifted.negative & to_integer),
            excess.eq(shifted.excess & to_integer), no_number.eq(shifted.none & to_integer)]

        # Rounded, and negated: -(n + 1) is ~n, -n is ~n + 1.
        total, total_negative, total_excess, total_none = Signal(DOUBLE_BITS), Signal(), Signal(), Signal()
        m.d.sync += [
            total.eq((whole ^ whole_flip.replicate(DOUBLE_BITS)) + (whole_flip ^ whole_up)),
            total_negative.eq(whole_flip), total_excess.eq(excess), total_none.eq(no_number)]

        # Kept within the integer type; what is no integer passes as it is.
        m.d.comb += [
            bound.number.eq(total), bound.negative.eq(total_negative), bound.excess.eq(total_excess),
            bound.none.eq(total_none), bound.size.eq(Mux(to_integer, instruction.to_size, SIZES.index(DOUBLE_BITS))),
            bound.signed.eq(instruction.to_signed), bound.saturate.eq(to_integer),
            bound.double.eq(instruction.size == SIZES.index(DOUBLE_BITS))]
        m.d.sync += self.result.eq(bound.bounded)
        return m

    def _function(self, m: Module, form: Format, kept: Value, odd: Value, half: Value, rest: Value,
                  rounded: Value) -> None:
        """A result of MUFU in a format of a word: a normal number, or what it is without rounding."""
        shifted, saturate = self.shifted, self.instruction.saturate
        tiny, least_one = Signal(), Signal()
        cut = len(shifted.bits) - 1 - form.fraction
        infinity = Const((1 << form.exponent) - 1 << form.fraction, WORD_BITS - 1)
        # Beside the difference that is the exponent, not behind it.
        m.d.comb += [tiny.eq(~shifted.bits[-1] | (shifted.exponent <= shifted.count)),
                     least_one.eq(shifted.exponent >= shifted.count + form.bias)]
        with m.If(saturate & (shifted.negative | shifted.none)):
            m.d.comb += kept.eq(0)
        with m.Elif(shifted.none):
            m.d.comb += kept.eq(~Const(0, WORD_BITS - 1))
        with m.Elif(saturate & (shifted.excess | ~tiny & least_one)):
            m.d.comb += kept.eq(form.bias << form.fraction)
        with m.Elif(shifted.excess):
            m.d.comb += kept.eq(Cat(infinity, shifted.negative))
        with m.Elif(tiny):
            m.d.comb += kept.eq(shifted.negative << WORD_BITS - 1)
        with m.Else():
            m.d.comb += [kept.eq(_packed(form, shifted)), odd.eq(shifted.bits[cut]), half.eq(shifted.bits[cut - 1]),
                         rest.eq(shifted.bits[:cut - 1].any()), rounded.eq(1)]

    def _whole(self, m: Module, number: Value, kept: Value, odd: Value, half: Value, rest: Value, rounded: Value,
               up: Value) -> None:
        """A number without its sign as it is, or rounded to an integer. What is below the point becomes zeros; where it
        rounds up, ones, of which adding one makes zeros and the next integer.
        """
        instruction, negative = self.instruction, self.shifted.negative
        exponent, fraction = SINGLE.exponent_of(number), SINGLE.fraction_of(number)
        one, units = SINGLE.bias << SINGLE.fraction, SINGLE.bias + SINGLE.fraction
        small, integral, nan, none = Signal(), Signal(), Signal(), Signal()
        below, next_below, given = Signal(SINGLE.fraction), Signal(SINGLE.fraction), Signal(WORD_BITS - 1)
        m.d.comb += [
            small.eq(exponent < SINGLE.bias), integral.eq(exponent >= units),
            nan.eq(exponent.all() & fraction.any()), none.eq((exponent == 0) & (instruction.flush | ~fraction.any())),
            given.eq(Mux(none, 0, number)), next_below.eq(below >> 1),
            # From exponent bias on there is one bit less below the point for each more.
            below.eq(Mux(small | integral, 0, Const((1 << SINGLE.fraction) - 1) >> (exponent - SINGLE.bias)[:5]))]
        with m.If(instruction.saturate & (negative | nan)):
            m.d.comb += kept.eq(0)
        with m.Elif(nan):
            m.d.comb += kept.eq(~Const(0, WORD_BITS - 1))
        with m.Elif(instruction.saturate & ~small):
            m.d.comb += kept.eq(one)
        with m.Elif(~instruction.whole):
            m.d.comb += kept.eq(Cat(given, negative))
        with m.Elif(small):
            m.d.comb += [half.eq(exponent == SINGLE.bias - 1), rounded.eq(1),
                         rest.eq(Mux(half, fraction.any(), ~none)),
                         kept.eq(Cat(Mux(up, Const(one - 1, WORD_BITS - 1), 0), negative))]
        with m.Else():
            lowest = Cat(fraction, Const(1, 1)) & Cat(Const(1, 1), below) & ~Cat(below, Const(0, 1))
            m.d.comb += [odd.eq(lowest.any()), half.eq((fraction & below & ~next_below).any()),
                         rest.eq((fraction & next_below).any()), rounded.eq(1),
                         kept.eq(Cat(Mux(up, given | below, given & ~Cat(below, Const(0, SINGLE.exponent))), negative))]


def _packed(form: Format, shifted: Shiftable) -> Value:
    """A normalised magnitude as a floating-point number, without what is cut off."""
    fraction = shifted.bits[-1 - form.fraction:-1]
    exponent = shifted.exponent - shifted.count
    return Cat(fraction, exponent[:form.exponent], shifted.negative)
