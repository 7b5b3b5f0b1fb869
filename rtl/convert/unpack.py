"""A floating-point number as a significand and how far it is to be shifted to be an integer."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .formats import DOUBLE, SINGLE
from .instruction import DOUBLE_BITS, SHIFT_BITS

__all__ = ["FloatUnpack"]


class FloatUnpack(wiring.Component):
    """The magnitude of a number, as 64 bits whose highest stands for 2**63 and what was cut off below; combinational.

    Members
    -------
    pattern : In(64)
        The number; a single one in the low half.
    double : In(1)
        Its format.
    flush : In(1)
        A subnormal number is zero.
    significand : Out(64)
        With its highest bit on top; 0 for a number below 1.
    shift : Out(6)
        By how much it has to go down.
    round, sticky : Out(1)
        Of a number below 1: whether it is at least a half, and whether there is more.
    excess : Out(1)
        It is at least 2**64, or not finite.
    none : Out(1)
        It is not a number.
    """

    pattern: In(DOUBLE_BITS)
    double: In(1)
    flush: In(1)
    significand: Out(DOUBLE_BITS)
    shift: Out(SHIFT_BITS)
    round: Out(1)
    sticky: Out(1)
    excess: Out(1)
    none: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        pattern, double = self.pattern, self.double
        exponent, fraction = Signal(DOUBLE.exponent), Signal(DOUBLE.fraction)
        power, below, half = Signal(range(-DOUBLE.bias, DOUBLE.bias + 2)), Signal(), Signal()
        special, tiny, more = Signal(), Signal(), Signal()
        m.d.comb += [
            exponent.eq(Mux(double, DOUBLE.exponent_of(pattern), SINGLE.exponent_of(pattern))),
            fraction.eq(Mux(double, DOUBLE.fraction_of(pattern),
                            SINGLE.fraction_of(pattern) << DOUBLE.fraction - SINGLE.fraction)),
            special.eq(Mux(double, exponent.all(), exponent[:SINGLE.exponent].all())),
            power.eq(exponent - Mux(double, Const(DOUBLE.bias), Const(SINGLE.bias))),
            below.eq(power < 0), half.eq(power == -1), tiny.eq(exponent == 0), more.eq(fraction.any()),
            self.significand.eq(Mux(below, 0, Cat(Const(0, DOUBLE_BITS - 1 - DOUBLE.fraction), fraction, Const(1, 1)))),
            self.shift.eq(~power[:len(self.shift)]), self.round.eq(half),
            self.sticky.eq(below & Mux(half, more, Mux(tiny, more & ~self.flush, 1))),
            self.excess.eq(~below & power[len(self.shift):].any()), self.none.eq(special & more)]
        return m
