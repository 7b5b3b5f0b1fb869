"""The last stages: a shifted magnitude rounded and brought into the result's format."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.functions import OF_DOUBLES

from .bound import IntegerBound
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
_FIRST = DOUBLE_BITS - DOUBLE.fraction
"""Of a magnitude with its highest bit on top, and one more below its 64: the lowest bit of a fraction in any format."""


class ConversionResult(wiring.Component):
    """Four stages with a register each. Without ``floats`` there is no F2F, and no half precision, without ``doubles``
    no function of upper words.

    Rounding adds one, or nothing, to the lowest bit of the result: from the fraction it goes on into the exponent.

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
        self._floats, self._doubles = floats, doubles
        self._formats = result_formats(floats, doubles)
        super().__init__()
        self._form = Signal(3)
        """Which of the formats the result has."""
        self._top = Signal(DOUBLE_BITS + 1)
        """The magnitude of a floating-point number, with its highest bit on top if it is normal."""
        self._up = Signal()
        """One is added to what is kept, if it is rounded."""
        self._rounds = Signal()
        """It is."""
        self._over = Signal()
        """A finite number is beyond the largest one of its format."""
        self._below = Signal(DOUBLE.fraction + 2)
        """Of F2F that rounds to an integer: the bits below the point, from that at _FIRST on; the last, if all of it is
        below one half."""
        self._float = Signal(DOUBLE_BITS)
        """A floating-point result before rounding."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.bound = bound = IntegerBound()
        instruction, shifted, top = self.instruction, self.shifted, self._top
        to_integer = instruction.operation == ConversionOperation.FLOAT_TO_INTEGER
        finds = instruction.operation == ConversionOperation.FIND
        refits = (instruction.operation == ConversionOperation.FLOAT_TO_FLOAT) & self._floats

        upper = Cat(instruction.function == function for function in OF_DOUBLES).any()
        calculates = instruction.operation == ConversionOperation.FUNCTION
        m.d.comb += self._form.eq(Cat(instruction.to_size, calculates & upper & self._doubles))
        # What it is without rounding, and what rounding adds.
        integer = shifted.bits[::-1]
        m.d.comb += top.eq(Mux(goes_up(instruction), shifted.bits, integer) if self._floats else shifted.bits)
        self._round(m, to_integer, integer)
        rounds = self._pack(m, refits)
        kept = Signal(DOUBLE_BITS)
        with m.If(to_integer):
            m.d.comb += [kept.eq(integer[1:]), self._rounds.eq(1)]
        with m.Elif(finds):
            m.d.comb += kept.eq(Mux(top[-1], shifted.count[:5] ^ (~instruction.from_top).replicate(5),
                                    Const(~0, WORD_BITS)))
        with m.Else():
            m.d.comb += [kept.eq(self._float), self._rounds.eq(rounds)]
        whole, whole_up, whole_flip = Signal(DOUBLE_BITS), Signal(), Signal()
        excess, no_number = Signal(), Signal()
        m.d.sync += [
            whole.eq(kept), whole_up.eq(self._up & self._rounds), whole_flip.eq(shifted.negative & to_integer),
            excess.eq(shifted.excess & to_integer), no_number.eq(shifted.none & to_integer)]

        # Rounded, and negated: -(n + 1) is ~n, -n is ~n + 1.
        total, total_negative, total_excess, total_none = Signal(DOUBLE_BITS), Signal(), Signal(), Signal()
        m.d.sync += [
            total.eq((whole ^ whole_flip.replicate(DOUBLE_BITS)) + (whole_flip ^ whole_up)),
            total_negative.eq(whole_flip), total_excess.eq(excess), total_none.eq(no_number)]

        # Kept within the integer type; what is no integer passes as it is, but for what is flushed.
        flushed = (refits & instruction.flush & (instruction.to_size == size_code(WORD_BITS))
                   & ~SINGLE.exponent_of(total).any())
        m.d.comb += [
            bound.number.eq(Cat(total[:WORD_BITS - 1] & (~flushed).replicate(WORD_BITS - 1), total[WORD_BITS - 1:])),
            bound.negative.eq(total_negative), bound.excess.eq(total_excess),
            bound.none.eq(total_none), bound.size.eq(Mux(to_integer, instruction.to_size, size_code(DOUBLE_BITS))),
            bound.signed.eq(instruction.to_signed), bound.saturate.eq(to_integer),
            bound.double.eq(instruction.size == size_code(DOUBLE_BITS))]
        m.d.sync += self.result.eq(bound.bounded)
        return m

    def _round(self, m: Module, to_integer: Value, integer: Value) -> None:
        """Whether one is added: from the lowest bit that is kept, that below, and whether any of the rest is 1."""
        instruction, shifted, top = self.instruction, self.shifted, self._top
        odd, half, rest = Signal(), Signal(), Signal()
        # Where each format ends.
        cuts = {code: DOUBLE_BITS - form.fraction for code, form in self._formats.items()}
        with m.If(to_integer):
            m.d.comb += [odd.eq(integer[1]), half.eq(integer[0]), rest.eq(shifted.sticky)]
        with m.Elif(self._over):
            m.d.comb += [half.eq(1), rest.eq(1)]
        with m.Elif(instruction.whole & self._floats):
            below, bits = self._below, top[_FIRST:]
            next_below, lowest = below[1:], Cat(Const(1, 1), below[:-2]) & ~below[:-1]
            m.d.comb += [odd.eq((bits & lowest).any()), half.eq((bits & below[:-1] & ~next_below).any()),
                         rest.eq((bits & next_below).any())]
        with m.Else(), m.Switch(self._form):
            for code, cut in cuts.items():
                with m.Case(code):
                    m.d.comb += [odd.eq(top[cut]), half.eq(top[cut - 1]),
                                 rest.eq(top[:cut - 1].any() | shifted.sticky)]
        with m.Switch(instruction.round):
            with m.Case(Rounding.NEAREST):
                m.d.comb += self._up.eq(half & (rest | odd))
            with m.Case(Rounding.DOWN):
                m.d.comb += self._up.eq((half | rest) & shifted.negative)
            with m.Case(Rounding.UP):
                m.d.comb += self._up.eq((half | rest) & ~shifted.negative)

    def _pack(self, m: Module, refits: Value) -> Signal:
        """A floating-point result before rounding, and whether it is rounded."""
        instruction, shifted, top, over = self.instruction, self.shifted, self._top, self._over
        calculates = instruction.operation == ConversionOperation.FUNCTION
        to_float = instruction.operation == ConversionOperation.INTEGER_TO_FLOAT
        # Of the format: the exponents of infinities and of one, and whether a number is beyond it.
        special, bias, beyond = Signal(DOUBLE.exponent), Signal(DOUBLE.exponent), Signal()
        with m.Switch(self._form):
            for code, form in self._formats.items():
                with m.Case(code):
                    m.d.comb += [special.eq(form.special), bias.eq(form.bias), beyond.eq(Mux(
                        refits, shifted.exponent >= form.special, self._long(form is HALF)))]
        # Beside the difference that is the exponent, not behind it.
        empty, least_one = Signal(), Signal()
        m.d.comb += [empty.eq(calculates & (~top[-1] | (shifted.exponent <= shifted.count))),
                     least_one.eq(shifted.exponent >= shifted.count + bias)]

        # Bits that are not those of the magnitude, and what they are instead: below the point, ones where it rounds up,
        # to which one is added.
        hidden, fill, exponent, rounds = Signal(DOUBLE.fraction), Signal(), Signal(DOUBLE.exponent), Signal()
        small = self._below[-2] & self._floats
        m.d.comb += hidden.eq(~0)
        with m.If(instruction.saturate & (shifted.negative | shifted.none)):
            m.d.comb += exponent.eq(0)
        with m.Elif(shifted.none):
            m.d.comb += [exponent.eq(special), fill.eq(1)]
        with m.Elif(instruction.saturate & (shifted.excess | ~empty & least_one)):
            m.d.comb += exponent.eq(bias)
        with m.Elif(shifted.excess):
            m.d.comb += exponent.eq(special)
        with m.Elif(empty):
            m.d.comb += exponent.eq(0)
        with m.Elif(beyond):
            m.d.comb += [over.eq(1), exponent.eq(special - 1), fill.eq(1), rounds.eq(1)]
        with m.Else():
            m.d.comb += [hidden.eq(self._below[:DOUBLE.fraction]), fill.eq(self._up), rounds.eq(1)]
            with m.If(small):
                m.d.comb += exponent.eq(Mux(self._up, bias - 1, 0))
            with m.Elif(top[-1]):
                m.d.comb += exponent.eq(shifted.exponent - shifted.count)
        negative = shifted.negative & ~shifted.none & ~instruction.saturate & (~to_float | top[-1])
        # In double precision what is no number has but the highest bit of a fraction.
        low_fill = fill & ~(shifted.none & (instruction.to_size == size_code(DOUBLE_BITS)))
        fraction = top[_FIRST:-1] & ~hidden | hidden & Cat(low_fill.replicate(DOUBLE.fraction - 1), fill)
        with m.Switch(self._form):
            for code, form in self._formats.items():
                with m.Case(code):
                    # Without F2F a double is made of an integer, as it is.
                    plain = form is DOUBLE and not self._floats
                    m.d.comb += self._float.eq(Cat(
                        (top[_FIRST:-1] if plain else fraction)[DOUBLE.fraction - form.fraction:],
                        exponent[:form.exponent], negative))
        if self._floats:
            # The exponent says a cycle before how much of it is below the point.
            width = len(self._below)
            above, limited = Signal(signed(EXPONENT_BITS)), Signal(range(width + 1))
            m.d.comb += [above.eq(self.ahead - bias + width - DOUBLE.fraction),
                         limited.eq(Mux(above < 0, 0, Mux(above > width, width, above)))]
            m.d.sync += self._below.eq(Mux(instruction.whole, Const((1 << width) - 1) >> limited, 0))
        return rounds

    def _long(self, bounded: bool) -> Value:
        """Whether an integer is 2**16 or more, and so beyond a format that is ``bounded`` by that."""
        lengths = DOUBLE_BITS - 1 - HALF.bias
        assert lengths == 0b110000
        return self._top[-1] & (self.shifted.count < lengths) if bounded else Const(0, 1)
