"""MUFU's functions, as :mod:`rtl.isa.functions` defines them, in a pipeline."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.functions import (
    COEFFICIENT_BITS,
    DISTANCE_BITS,
    FIRST_ROWS,
    FRACTION_BITS,
    INTERVAL_BITS,
    OF_DOUBLES,
    ROWS,
    UNIT,
    pack_row,
    rows,
)
from rtl.isa.kinds import MultiFunction
from rtl.structs import common_fields, struct_value

from .formats import SINGLE, UPPER
from .instruction import DOUBLE_BITS
from .source import SelectedNumber, Shiftable

__all__ = ["FUNCTION_STAGES", "Function"]

FUNCTION_STAGES = 7
_INTEGER_BITS = 7
"""Bits of a fixed-point number above the point. The integer part of a logarithm has as many."""
_QUARTER_BITS = 2
"""The low ones of them, which are the quarter of the turn for SIN and COS."""
_FIXED_BITS = _INTEGER_BITS + FRACTION_BITS
_PRESHIFT = 26
"""How far a significand is shifted left first, so that one shift right makes it fixed-point."""
_COARSE = 4
"""The low bits of the count of that shift, which the second stage shifts by; the first stage shifts
by the multiple of 16."""

assert DOUBLE_BITS >= UNIT + _INTEGER_BITS


class _Number(data.Struct):
    """An unpacked number: in single precision, or the upper word of a double."""

    exponent: unsigned(UPPER.exponent)
    """With the bias, as stored."""
    power: signed(UPPER.exponent + 1)
    """The exponent less the bias."""
    fraction: unsigned(FRACTION_BITS)
    is_zero: unsigned(1)
    is_infinite: unsigned(1)
    is_nan: unsigned(1)


class _Outcome(data.Struct):
    """Sign, exponent and special cases of a result; delayed until its value is computed."""

    exponent: signed(UPPER.exponent + 2)
    """The stored exponent of a result if the top bit of its value is 1; see Shiftable."""
    negative: unsigned(1)
    is_zero: unsigned(1)
    is_infinite: unsigned(1)
    is_nan: unsigned(1)


class _Coefficients(data.Struct):
    """A row of the table: the coefficients of a parabola."""

    c0: unsigned(COEFFICIENT_BITS[0])
    c1: signed(COEFFICIENT_BITS[1])
    c2: signed(COEFFICIENT_BITS[2])


class Function(wiring.Component):
    """Computes a function of a number; accepts one each cycle, and outputs its value
    FUNCTION_STAGES cycles later.

    =====  =======  ==============================================================
    stage  name     what is known at its end
    =====  =======  ==============================================================
    1, 2   shift    the number as a fixed-point number, for EX2, SIN and COS
    3      reduce   row and fraction below it; sign, exponent and special cases
    4      look up  the row that the table outputs; the signed distance from the
                    middle of its interval
    5      square   the row's coefficients, the square of the distance
    6      product  C1 * distance, C2 * square
    7      sum      the value
    =====  =======  ==============================================================

    A subnormal number is treated as zero. Without ``floats`` there is only RCP, without ``doubles``
    there are no functions of upper words.

    Members
    -------
    function : In(MultiFunction)
        Stable while numbers are in the stages.
    number : In(SelectedNumber)
    value : Out(Shiftable)
        The result, for the shifter, which normalizes it.
    """

    function: In(MultiFunction)
    number: In(SelectedNumber)
    value: Out(Shiftable)

    def __init__(self, floats: bool, doubles: bool) -> None:
        self._floats = floats
        self._doubles = doubles
        super().__init__()
        self._base: Any = Signal(MultiFunction, name="base")
        """The function; for one of upper words, that of the same name in single precision."""
        self._is_upper = Signal(name="is_upper")
        """Operand and result are upper words of doubles."""
        self._operand: Any = Signal(SelectedNumber, name="operand")
        """The operand, delayed by stages 1 and 2."""
        self._fixed = Signal(_FIXED_BITS, name="fixed")
        """The operand's magnitude as a fixed-point number; for SIN and COS, which take turns, in
        quarters of a turn."""
        self._number: Any = Signal(_Number, name="reduced_number")
        self._split = Signal(signed(_FIXED_BITS + 1), name="split")
        """The fixed-point number to be split into integer and fraction: with its sign for EX2,
        inverted in odd quarters for SIN and COS."""
        self._quarter = Signal(_QUARTER_BITS, name="quarter")
        """The quarter of the turn, as of SIN: for COS one more, as COS is SIN a quarter later."""
        self._row = Signal(range(ROWS), name="row")
        self._low_fraction = Signal(DISTANCE_BITS, name="low_fraction")
        """The bits of the fraction below those that select the row."""
        self._outcome: Any = Signal(_Outcome, name="outcome")
        self._logarithm = Signal(_INTEGER_BITS, name="logarithm")
        """The integer part of a logarithm; its ones' complement if it is negative."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._select_function(m)
        self._shift(m)
        self._unpack(m)
        self._turn(m)
        self._select_row(m)
        self._conclude(m)
        value = self._interpolate(m)
        self._pack(m, value, _delayed(m, self._outcome, 4), _delayed(m, self._logarithm, 4))
        return m

    def _select_function(self, m: Module) -> None:
        """The function in single precision, and the format of operand and result."""
        if not self._floats:
            m.d.comb += self._base.eq(MultiFunction.RCP)
        else:
            m.d.comb += self._base.eq(self.function)
            for upper, base in OF_DOUBLES.items():
                with m.If(self.function == upper):
                    m.d.comb += self._base.eq(base)
        if self._doubles:
            m.d.comb += self._is_upper.eq(
                Cat(self.function == upper for upper in OF_DOUBLES).any())

    def _is_trigonometric(self) -> Value:
        """Whether the function is SIN or COS, whose operand is in turns."""
        return (self._base == MultiFunction.SIN) | (self._base == MultiFunction.COS)

    def _shift(self, m: Module) -> None:
        """Stages 1 and 2: the magnitude as a fixed-point number. Bits above its _INTEGER_BITS are
        lost: for EX2 the result is special then, for SIN and COS they are whole turns."""
        pattern = self.number.pattern
        m.d.comb += self._operand.eq(_delayed(m, self.number, 2))
        if not self._floats:
            return

        # How far the significand is shifted right. A number that needs a shift to the left, and one
        # that is too small for the fraction, is taken for 0.
        down = Signal(signed(SINGLE.exponent + 2))
        largest = SINGLE.bias + SINGLE.fraction - FRACTION_BITS + _PRESHIFT
        exponent = SINGLE.exponent_of(pattern)
        with m.If(self._base == MultiFunction.EX2):
            m.d.comb += down.eq(largest - exponent)
        with m.Else():
            m.d.comb += down.eq(largest - _QUARTER_BITS - exponent)
        is_out_of_range = (down < 0) | (down >= 64)

        coarse = Signal(_FIXED_BITS + (1 << _COARSE) - 1)
        """The significand after the first stage's shift."""
        fine = Signal(_COARSE)
        significand = Cat(Const(0, _PRESHIFT), SINGLE.fraction_of(pattern), Const(1, 1))
        m.d.sync += coarse.eq(significand >> (down[_COARSE:6] << _COARSE))
        with m.If(is_out_of_range):
            m.d.sync += coarse.eq(0)
        m.d.sync += fine.eq(down[:_COARSE])
        m.d.sync += self._fixed.eq(coarse >> fine)

    def _unpack(self, m: Module) -> None:
        """Stage 3: unpacks the operand."""
        number = self._number
        pattern = self._operand.pattern
        bias = Mux(self._is_upper, UPPER.bias, SINGLE.bias)
        is_special = Signal()
        """Its exponent is all ones."""
        with m.If(self._is_upper):
            m.d.comb += number.exponent.eq(UPPER.exponent_of(pattern))
            m.d.comb += number.fraction.eq(
                UPPER.fraction_of(pattern) << FRACTION_BITS - UPPER.fraction)
            m.d.comb += is_special.eq(number.exponent == UPPER.special)
        with m.Else():
            m.d.comb += number.exponent.eq(SINGLE.exponent_of(pattern))
            m.d.comb += number.fraction.eq(
                SINGLE.fraction_of(pattern) << FRACTION_BITS - SINGLE.fraction)
            m.d.comb += is_special.eq(number.exponent == SINGLE.special)
        m.d.comb += number.power.eq(number.exponent - bias)
        m.d.comb += number.is_zero.eq(number.exponent == 0)
        m.d.comb += number.is_infinite.eq(is_special & (number.fraction == 0))
        m.d.comb += number.is_nan.eq(is_special & (number.fraction != 0))

    def _turn(self, m: Module) -> None:
        """Stage 3: the fixed-point number gets its sign for EX2, and is reflected to the first
        quarter for SIN and COS: in odd quarters SIN runs backwards."""
        is_inverted = Signal()
        m.d.comb += self._quarter.eq(
            self._fixed[FRACTION_BITS:] + (self._base == MultiFunction.COS))
        with m.If(self._is_trigonometric()):
            m.d.comb += is_inverted.eq(self._quarter[0])
        with m.Else():
            m.d.comb += is_inverted.eq(self._operand.negative)
        # -n is ~n + 1. In odd quarters ~n is enough: it differs by one lowest bit.
        adds_one = is_inverted & (self._base == MultiFunction.EX2)
        bits = Cat(self._fixed, Const(0, 1)) ^ is_inverted.replicate(_FIXED_BITS + 1)
        m.d.comb += self._split.eq(bits.as_signed() + adds_one)

    def _select_row(self, m: Module) -> None:
        """Stage 3: the row of the table, selected by the upper bits of the fraction, and the bits
        below them. RCP has twice as many intervals as the other functions; RSQ has a set of
        intervals for each parity of the exponent."""
        fraction = Signal(FRACTION_BITS)
        with m.If(self._is_trigonometric() | (self._base == MultiFunction.EX2)):
            m.d.comb += fraction.eq(self._split[:FRACTION_BITS])
        with m.Else():
            m.d.comb += fraction.eq(self._number.fraction)
        interval = fraction[FRACTION_BITS - INTERVAL_BITS[MultiFunction.LG2]:]
        reciprocal_interval = fraction[FRACTION_BITS - INTERVAL_BITS[MultiFunction.RCP]:]
        is_odd_power = self._number.power[0]
        m.d.sync += self._low_fraction.eq(fraction)
        with m.Switch(self._base):
            with m.Case(MultiFunction.RSQ):
                m.d.sync += self._row.eq(
                    Cat(interval, is_odd_power) + FIRST_ROWS[MultiFunction.RSQ])
            with m.Case(MultiFunction.LG2):
                m.d.sync += self._row.eq(interval + FIRST_ROWS[MultiFunction.LG2])
            with m.Case(MultiFunction.EX2):
                m.d.sync += self._row.eq(interval + FIRST_ROWS[MultiFunction.EX2])
            with m.Case(MultiFunction.SIN, MultiFunction.COS):
                m.d.sync += self._row.eq(interval + FIRST_ROWS[MultiFunction.SIN])
            with m.Default():
                m.d.sync += self._row.eq(reciprocal_interval + FIRST_ROWS[MultiFunction.RCP])
                m.d.sync += self._low_fraction.eq(fraction << 1)

    def _conclude(self, m: Module) -> None:
        """Stage 3: exponent, sign and special cases of the result."""
        number = self._number
        negative = self._operand.negative
        outcome = self._outcome
        power_is_negative = number.power < 0
        has_no_root = (negative & ~number.is_zero) | number.is_nan
        is_too_large = number.exponent >= SINGLE.bias + _INTEGER_BITS
        top = Mux(self._is_upper, UPPER.bias, SINGLE.bias) + _INTEGER_BITS - 1
        is_odd = self._base == MultiFunction.SIN
        m.d.sync += self._logarithm.eq(
            number.power ^ power_is_negative.replicate(len(number.power)))
        with m.Switch(self._base):
            with m.Case(MultiFunction.RCP):
                m.d.sync += outcome.eq(struct_value(
                    _Outcome,
                    exponent=top - number.power,
                    negative=negative,
                    is_zero=number.is_infinite,
                    is_infinite=number.is_zero,
                    is_nan=number.is_nan))
            with m.Case(MultiFunction.RSQ):
                m.d.sync += outcome.eq(struct_value(
                    _Outcome,
                    exponent=top - (number.power >> 1),
                    negative=negative,
                    is_zero=number.is_infinite,
                    is_infinite=number.is_zero,
                    is_nan=has_no_root))
            with m.Case(MultiFunction.LG2):
                m.d.sync += outcome.eq(struct_value(
                    _Outcome,
                    exponent=top,
                    negative=number.is_zero | power_is_negative,
                    is_zero=0,
                    is_infinite=number.is_zero | number.is_infinite,
                    is_nan=has_no_root))
            with m.Case(MultiFunction.EX2):
                m.d.sync += outcome.eq(struct_value(
                    _Outcome,
                    exponent=top + (self._split >> FRACTION_BITS) + 1,
                    negative=0,
                    is_zero=is_too_large & negative,
                    is_infinite=is_too_large & ~negative,
                    is_nan=number.is_nan))
            with m.Case(MultiFunction.SIN, MultiFunction.COS):
                m.d.sync += outcome.eq(struct_value(
                    _Outcome,
                    exponent=top,
                    negative=(is_odd & negative) ^ self._quarter[1],
                    is_zero=0,
                    is_infinite=0,
                    is_nan=number.is_nan | number.is_infinite))

    def _interpolate(self, m: Module) -> Signal:
        """Stages 4 to 7: C0 + C1 * distance + C2 * distance**2, see :mod:`rtl.isa.functions`."""
        depth = ROWS if self._floats else 1 << INTERVAL_BITS[MultiFunction.RCP]
        m.submodules.table = table = memory.Memory(
            shape=unsigned(sum(COEFFICIENT_BITS)),
            depth=depth,
            init=[pack_row(row) for row in rows()[:depth]])

        # Look up.
        port = table.read_port()
        distance = Signal(signed(DISTANCE_BITS))
        m.d.comb += port.addr.eq(self._row)
        m.d.sync += distance.eq(Cat(self._low_fraction[:-1], ~self._low_fraction[-1]))

        # Square.
        coefficients: Any = Signal(_Coefficients)
        square = Signal(DISTANCE_BITS - 1)
        m.d.sync += coefficients.eq(port.data)
        m.d.sync += square.eq(distance * distance >> DISTANCE_BITS)

        # Product.
        linear = Signal(signed(COEFFICIENT_BITS[1] + DISTANCE_BITS))
        quadratic = Signal(signed(COEFFICIENT_BITS[2] + DISTANCE_BITS))
        m.d.sync += linear.eq(coefficients.c1 * _delayed(m, distance, 1))
        m.d.sync += quadratic.eq(coefficients.c2 * square)

        # Sum.
        value = Signal(UNIT + 1)
        m.d.sync += value.eq(
            _delayed(m, coefficients.c0, 1) + (linear + (quadratic << 1) >> DISTANCE_BITS - 1))
        return value

    def _pack(self, m: Module, value: Value, outcome: Any, logarithm: Value) -> None:
        """The result for the shifter. A logarithm has its integer part above the point; one that is
        negative is inverted as a whole, which is its magnitude less one lowest bit."""
        result = self.value
        is_logarithm = self._base == MultiFunction.LG2
        is_inverted = is_logarithm & outcome.negative
        fraction = value[:UNIT] ^ is_inverted.replicate(UNIT)
        integer = Signal(_INTEGER_BITS)
        m.d.comb += integer.eq(Mux(is_logarithm, logarithm, value[UNIT:]))
        unused_bits = len(result.bits) - UNIT - _INTEGER_BITS
        m.d.comb += result.bits.eq(Cat(Const(0, unused_bits), fraction, integer))
        with m.If(outcome.is_zero):
            m.d.comb += result.bits.eq(0)
        m.d.comb += common_fields(result, outcome)
        m.d.comb += result.overflows.eq(outcome.is_infinite)


def _delayed(m: Module, value: Any, cycles: int) -> Any:
    """The value some cycles later."""
    for _ in range(cycles):
        later = Signal.like(value, name="later")
        m.d.sync += later.eq(value)
        value = later
    return value
