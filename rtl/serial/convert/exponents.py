"""How far an integer is shifted, and what exponent a result has."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.convert.formats import DOUBLE, SINGLE, Format
from rtl.convert.instruction import DOUBLE_BITS, SHIFT_BITS, WORD_BITS, size_code

from .instruction import BYTE, EXPONENT, HEAD_BYTES, UNSHIFTED, SerialConversion

__all__ = ["SerialExponents"]

_SHIFT = signed(8)
_WORD, _DOUBLE = size_code(WORD_BITS), size_code(DOUBLE_BITS)


class SerialExponents(wiring.Component):
    """One sum, used twice.

    Members
    -------
    instruction : In(SerialConversion)
    head : In(32)
        The highest bytes of the source.
    sign, found, position : In
        See SourceInteger.
    first, second, gives : In(1)
        How far it is shifted is found out; what exponent it has; there are results. Otherwise nothing is shifted.
    shift : Out
        By how much the integer goes down, and UNSHIFTED.
    exponent : Out(12)
        One less than the stored exponent of the result; with ``below``.
    hidden : Out(1)
        The source is a normal number.
    flushed : Out(1)
        It is a subnormal one, and taken for 0.
    none, excess : Out(1)
        It is not a number; it is not less than 2**64.
    infinite, empty, one : Out(1)
        MUFU.RCP: its result is an infinity, a zero, or 1 since it would be more than that.
    """

    instruction: In(SerialConversion)
    head: In(BYTE * HEAD_BYTES)
    sign: In(1)
    found: In(1)
    position: In(SHIFT_BITS)
    first: In(1)
    second: In(1)
    gives: In(1)
    shift: Out(_SHIFT)
    exponent: Out(EXPONENT)
    hidden: Out(1)
    flushed: Out(1)
    none: Out(1)
    excess: Out(1)
    infinite: Out(1)
    empty: Out(1)
    one: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        instruction, exponent = self.instruction, self.exponent
        to_float, to_integer, calculates = instruction.to_float, instruction.to_integer, instruction.calculates
        double = instruction.size == _DOUBLE
        single_exponent, double_exponent = (self._stored(form) for form in (SINGLE, DOUBLE))
        stored, given, constant, total = Signal(DOUBLE.exponent), Signal(EXPONENT), Signal(EXPONENT), Signal(EXPONENT)
        m.d.comb += [
            stored.eq(Mux(double, double_exponent, single_exponent)),
            given.eq(~Mux(to_float, Cat(self.position, self.found.replicate(len(given) - SHIFT_BITS)), stored)),
            total.eq(given + constant)]
        # A stored exponent is subtracted: as its complement, and one.
        with m.If(calculates):
            # That of the reciprocal of 1 + f is one less than that of 1, which rounding gives back.
            m.d.comb += constant.eq(2 * SINGLE.bias - 1)
        with m.Elif(to_float):
            for form, size in ((SINGLE, _WORD), (DOUBLE, _DOUBLE)):
                with m.If(instruction.to_size[0] == (size == _DOUBLE)):
                    m.d.comb += constant.eq(Mux(self.first, UNSHIFTED - form.fraction, form.bias - 1))
        with m.Else():
            for form in (SINGLE, DOUBLE):
                with m.If(double == (form is DOUBLE)):
                    m.d.comb += constant.eq(Mux(
                        self.first, form.bias + form.fraction + UNSHIFTED + 1, form.bias + DOUBLE_BITS))
        # What is shifted further than all its bits, and one, goes down by so much; bits that do not matter stay.
        far = ~total[-1] & (total[7:].any() | total[5] & total[6])
        with m.If(~(self.first | self.second | self.gives)):
            m.d.sync += self.shift.eq(UNSHIFTED)
        with m.Elif(self.first & (to_float | to_integer)):
            m.d.sync += self.shift.eq(Cat(
                total[:4], total[4] | far, total[5] & ~far, total[6] | far, total[-1]))
        with m.If(self.second):
            m.d.sync += exponent.eq(total)
        with m.Elif(self.one):
            m.d.sync += exponent.eq(SINGLE.bias)

        special = Signal()
        m.d.comb += [
            special.eq(Mux(double, double_exponent.all(), single_exponent.all())),
            self.hidden.eq(stored.any()), self.flushed.eq(instruction.flush & ~double & ~self.hidden),
            self.none.eq(special & self.found), self.excess.eq(exponent[-1]),
            self.infinite.eq(~self.hidden),
            # Below the normal range, but for what rounds into it: the reciprocal of a power of two.
            self.empty.eq(exponent[-1] & ~(exponent[0] & exponent[1] & ~self.found)
                          | instruction.saturate & (self.sign | self.none)),
            self.one.eq(calculates & instruction.saturate & ~self.empty & ~exponent[-1] & (
                exponent[7] | exponent[1:7].all()) )]
        return m

    def _stored(self, form: Format) -> Value:
        """The exponent that a number of a format has."""
        last = len(self.head) - 1
        return self.head[last - form.exponent:last]
