"""The reciprocal of a single-precision number, rounded to nearest.

With M the significand as an integer of 24 bits, the quotient 2**47 / M has 24 bits, too. A table gives X, about
2**35 / M, with 12 bits. What it lacks is exactly d = 1 - M * X / 2**35, less than 2**-10; then 1 + d + d**2 times X is
the quotient, with an error of less than an eighth of its last bit. So the integer q below it is the rounded quotient or
one less; which of them, the sign of 2**48 - (2 * q + 1) * M tells exactly. There are no ties.
"""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from .formats import SINGLE

__all__ = ["RECIPROCAL_STAGES", "Reciprocal", "seeds"]

RECIPROCAL_STAGES = 8
_WORD_BITS = 32
_INDEX_BITS = 10
_SEED_BITS = 12
_SIGNIFICAND_BITS = SINGLE.fraction + 1
_UNIT = _SIGNIFICAND_BITS - 1 + _SEED_BITS
"""M * X is about 2**_UNIT."""
_REST_BITS = 26
"""Enough for d in units of 2**-_UNIT, and for the remainder that decides about rounding; both with a sign."""
_SQUARE_DROP = 13
"""Bits that d loses before it is squared."""
_SERIES_UNIT = 30
"""1 + d + d**2 is in units of 2**-_SERIES_UNIT."""


def seeds() -> list[int]:
    """X for the middle of each interval of significands that share their first bits."""
    count = 1 << _INDEX_BITS
    return [round((count << _SEED_BITS) / (count + index + 0.5)) for index in range(count)]


class _Passed(data.Struct):
    """What goes along with a number: all of the result but what is calculated."""

    sign: unsigned(1)
    exponent: unsigned(SINGLE.exponent)
    fixed: unsigned(1)
    """The fraction is all ``fill``, and not calculated."""
    fill: unsigned(1)


class Reciprocal(wiring.Component):
    """Stages with a register each, which a number passes in RECIPROCAL_STAGES cycles.

    A subnormal number is a zero, and so is a subnormal result.

    Members
    -------
    number : In(32)
        Its sign counts for nothing.
    negative : In(1)
        The sign instead.
    saturate : In(1)
        The result is at least +0 and at most 1; +0 for what is not a number.
    result : Out(32)
    up : Out(1)
        One is to be added to the result.
    """

    number: In(_WORD_BITS)
    negative: In(1)
    saturate: In(1)
    result: Out(_WORD_BITS)
    up: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.table = table = memory.Memory(shape=unsigned(_SEED_BITS), depth=1 << _INDEX_BITS, init=seeds())
        fraction = SINGLE.fraction_of(self.number)

        # First stage: the table, and everything that is not calculated. Second: the table's own register.
        table_port, seed, passed = table.read_port(), Signal(_SEED_BITS), Signal(_Passed)
        significand = _delayed(m, Cat(fraction, Const(1, 1)), 2)
        m.d.comb += table_port.addr.eq(fraction[-_INDEX_BITS:])
        m.d.sync += seed.eq(table_port.data)
        self._classify(m, passed)

        # Third: -d, what the table's value has too much. Fourth: its square. Fifth: the series. Sixth: the quotient.
        surplus = Signal(signed(_REST_BITS))
        root = surplus >> _SQUARE_DROP
        square, series, quotient = Signal(2 * len(root) - 1), Signal(_SERIES_UNIT + 1), Signal(_SIGNIFICAND_BITS)
        m.d.sync += [
            surplus.eq(significand * seed), square.eq(root * root),
            series.eq((1 << _SERIES_UNIT) - (_delayed(m, surplus, 1) >> _UNIT - _SERIES_UNIT)
                      + (square >> 2 * (_UNIT - _SQUARE_DROP) - _SERIES_UNIT)),
            quotient.eq(_delayed(m, seed, 3) * series >> _SERIES_UNIT + _SEED_BITS - _SIGNIFICAND_BITS)]

        # Seventh: the remainder. Eighth: it decides about the last bit.
        rest, last, truncated = Signal(_REST_BITS), _delayed(m, passed, 6), _delayed(m, quotient, 1)
        m.d.sync += [
            rest.eq(Cat(Const(1, 1), quotient) * _delayed(m, significand, 4)), self.up.eq(rest[-1] & ~last.fixed),
            self.result.eq(Cat(Mux(last.fixed, last.fill.replicate(SINGLE.fraction), truncated[:SINGLE.fraction]),
                               last.exponent, last.sign))]
        return m

    def _classify(self, m: Module, passed: Any) -> None:
        """Sign and exponent of the result, and the results that are not calculated."""
        given, power_of_two = SINGLE.exponent_of(self.number), Signal()
        exponent = Signal(signed(SINGLE.exponent + 2))
        bias, infinite = SINGLE.bias, (1 << SINGLE.exponent) - 1
        zero, none, vanishes = Signal(), Signal(), Signal()
        m.d.comb += [
            power_of_two.eq(~SINGLE.fraction_of(self.number).any()), zero.eq(given == 0),
            none.eq((given == infinite) & ~power_of_two), exponent.eq(2 * bias - 1 - given + power_of_two),
            vanishes.eq(exponent <= 0)]
        m.d.sync += [
            passed.sign.eq(self.negative & ~self.saturate), passed.exponent.eq(exponent),
            passed.fixed.eq(power_of_two), passed.fill.eq(0)]
        with m.If(self.saturate & (self.negative | none)):
            m.d.sync += [passed.exponent.eq(0), passed.fixed.eq(1)]
        with m.Elif(none):
            m.d.sync += [passed.sign.eq(0), passed.exponent.eq(infinite), passed.fixed.eq(1), passed.fill.eq(1)]
        with m.Elif(zero):
            m.d.sync += [passed.exponent.eq(Mux(self.saturate, bias, infinite)), passed.fixed.eq(1)]
        with m.Elif(vanishes):
            m.d.sync += [passed.exponent.eq(0), passed.fixed.eq(1)]
        with m.Elif(self.saturate & (exponent >= bias)):
            m.d.sync += [passed.exponent.eq(bias), passed.fixed.eq(1)]


def _delayed(m: Module, value: Any, cycles: int) -> Any:
    """A value some cycles later."""
    for _ in range(cycles):
        later = Signal.like(value, name="later")
        m.d.sync += later.eq(value)
        value = later
    return value
