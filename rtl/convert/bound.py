"""An integer brought into a type."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .instruction import DOUBLE_BITS, SIZES

__all__ = ["IntegerBound"]


class IntegerBound(wiring.Component):
    """Cuts an integer to a type's size, or keeps it at the type's nearest bound; combinational.

    Members
    -------
    number : In(64)
        Modulo 2**64; if ``negative``, from 0 down to -2**64 + 1, else from 0 up.
    negative : In(1)
    excess : In(1)
        It is larger than that, in either direction.
    none : In(1)
        There is no number.
    size, signed : In(2), In(1)
        The type.
    saturate : In(1)
        Keep it at the nearest bound.
    double : In(1)
        It was made from 64 bits: then no number gives the type's top bit alone, otherwise 0. With 64 bits in the type
        it gives the top bit, too.
    bounded : Out(64)
        Extended by the type.
    """

    number: In(DOUBLE_BITS)
    negative: In(1)
    excess: In(1)
    none: In(1)
    size: In(2)
    signed: In(1)
    saturate: In(1)
    double: In(1)
    bounded: Out(DOUBLE_BITS)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        number, signed, negative = self.number, self.signed, self.negative
        cut, bound, nothing = Signal(DOUBLE_BITS), Signal(DOUBLE_BITS), Signal(DOUBLE_BITS)
        fits, lowest = Signal(), Signal()
        m.d.comb += lowest.eq(negative & signed)
        with m.Switch(self.size):
            for code, size in enumerate(SIZES):
                with m.Case(code):
                    spare, top, from_top = DOUBLE_BITS - size, number[size - 1], number[size - 1:]
                    clear = ~number[size:].any() if spare else Const(1, 1)
                    marked = self.double if spare else Const(1, 1)
                    inside = Mux(negative, from_top.all() | (number == 0), ~from_top.any())
                    m.d.comb += [
                        cut.eq(Cat(number[:size], (signed & top).replicate(spare))),
                        fits.eq(Mux(signed, inside, clear & ~negative)),
                        # The highest number is all ones but for a sign, the lowest signed one just the sign.
                        bound.eq(Cat((~negative).replicate(size - 1), Mux(signed, negative, ~negative),
                                     lowest.replicate(spare))),
                        nothing.eq(Cat(Const(0, size - 1), marked, (signed & marked).replicate(spare)))]
        m.d.comb += self.bounded.eq(
            Mux(self.none, nothing, Mux(self.excess | self.saturate & ~fits, bound, cut)))
        return m
