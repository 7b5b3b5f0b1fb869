"""MUFU's functions: :mod:`rtl.isa.functions` in stages with a register each.

::

    shift (2 stages) -> reduce -> table -> table's register, square -> products -> value -> shifter
"""

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

from .formats import SINGLE, UPPER
from .instruction import DOUBLE_BITS, WORD_BITS
from .source import Shiftable

__all__ = ["FUNCTION_STAGES", "Function"]

FUNCTION_STAGES = 7
_SPARE = 7
"""Bits of an integer above those of a value: a logarithm's."""
_QUARTER_BITS = 2
_FIXED_BITS = _SPARE + FRACTION_BITS
"""Width of the operand of EX2 as a fixed-point number, and of that of SIN, of which less counts."""
_LEFT = 26
"""By how much a significand is shifted up before it is shifted down to become a fixed-point number."""


class _Passed(data.Struct):
    """What goes along with a value."""

    exponent: signed(UPPER.exponent + 2)
    negative: unsigned(1)
    empty: unsigned(1)
    """The result is a zero."""
    full: unsigned(1)
    """It is an infinity."""
    none: unsigned(1)
    """It is not a number."""


class Function(wiring.Component):
    """Stages with a register each, which a number passes in FUNCTION_STAGES cycles. Without ``floats``
    there is RCP only, without ``doubles`` no function of theirs.

    A subnormal number is a zero.

    Members
    -------
    function : In(MultiFunction)
        Stable while numbers pass.
    number : In(32)
        Its sign counts for nothing.
    negative : In(1)
        The sign instead.
    value : Out(Shiftable)
        Of the result, for the shifter and what is behind it.
    """

    function: In(MultiFunction)
    number: In(WORD_BITS)
    negative: In(1)
    value: Out(Shiftable)

    def __init__(self, floats: bool, doubles: bool) -> None:
        self._floats, self._doubles = floats, doubles
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        number, negative = _delayed(m, self.number, 2), _delayed(m, self.negative, 2)
        passed, fraction, row, logarithm = self._reduced(
            m, number, negative, self._fixed(m) if self._floats else Const(0, _FIXED_BITS))

        # Fourth: the table.
        depth = ROWS if self._floats else 1 << INTERVAL_BITS[MultiFunction.RCP]
        m.submodules.table = table = memory.Memory(
            shape=unsigned(sum(COEFFICIENT_BITS)), depth=depth, init=[pack_row(entry) for entry in rows()[:depth]])
        port, found, d = table.read_port(), Signal(sum(COEFFICIENT_BITS)), Signal(signed(DISTANCE_BITS))
        m.d.comb += port.addr.eq(row)
        m.d.sync += d.eq(Cat(fraction[:DISTANCE_BITS - 1], ~fraction[DISTANCE_BITS - 1]))

        # Fifth: its register, and the square. Sixth: the products. Seventh: the value.
        square, same = Signal(DISTANCE_BITS - 1), _delayed(m, d, 1)
        m.d.sync += [found.eq(port.data), square.eq(d * d >> DISTANCE_BITS)]
        c0, c1, c2 = _coefficients(found)
        linear, bent = Signal(signed(COEFFICIENT_BITS[1] + DISTANCE_BITS)), Signal(
            signed(COEFFICIENT_BITS[2] + DISTANCE_BITS))
        m.d.sync += [linear.eq(c1 * same), bent.eq(c2 * square)]
        value, last, whole = Signal(UNIT + 1), _delayed(m, passed, 4), _delayed(m, logarithm, 4)
        m.d.sync += value.eq(_delayed(m, c0, 1) + (linear + (bent << 1) >> DISTANCE_BITS - 1))

        # A logarithm has its exponent above the value; a negative one all of its bits inverted.
        result = self.value
        is_logarithm = self._is(MultiFunction.LG2)
        inverted = (is_logarithm & last.negative).replicate(UNIT)
        integer = Cat(value[:UNIT] ^ inverted, Mux(is_logarithm, whole, value[UNIT:]))
        m.d.comb += [
            result.bits.eq(Cat(Const(0, len(result.bits) - UNIT - _SPARE), integer[:UNIT + _SPARE])),
            result.exponent.eq(last.exponent), result.negative.eq(last.negative), result.excess.eq(last.full),
            result.none.eq(last.none)]
        with m.If(last.empty):
            m.d.comb += result.bits.eq(0)
        return m

    def _upper(self) -> Value:
        """Whether numbers are upper words of doubles."""
        return Cat(self.function == function for function in OF_DOUBLES).any() if self._doubles else Const(0, 1)

    def _is(self, *functions: MultiFunction) -> Value:
        """Whether the function is one of these."""
        if not self._floats:
            return Const(int(MultiFunction.RCP in functions), 1)
        meant = [*functions, *(upper for upper, same in OF_DOUBLES.items() if same in functions)]
        return Cat(self.function == function for function in meant).any()

    def _fixed(self, m: Module) -> Value:
        """The first two stages: the number as a fixed-point number, in quarters of a turn if it is in turns."""
        exponent = SINGLE.exponent_of(self.number)
        coarse, fine, fixed = Signal(_FIXED_BITS + 15), Signal(4), Signal(_FIXED_BITS)
        down, far = Signal(signed(SINGLE.exponent + 2)), Signal()
        largest = SINGLE.bias + SINGLE.fraction - FRACTION_BITS + _LEFT
        shifted = Cat(Const(0, _LEFT), SINGLE.fraction_of(self.number), Const(1, 1))
        m.d.comb += [
            down.eq(Mux(self._is(MultiFunction.EX2), Const(largest), Const(largest - _QUARTER_BITS)) - exponent),
            far.eq((down < 0) | (down >= 64))]
        m.d.sync += [coarse.eq((shifted >> (down[4:6] << 4))[:len(coarse)] & (~far).replicate(len(coarse))),
                     fine.eq(down[:4])]
        m.d.sync += fixed.eq(coarse >> fine)
        return fixed

    def _reduced(self, m: Module, number: Value, negative: Value,
                 fixed: Value) -> tuple[Any, Signal, Signal, Signal]:
        """The third stage: what goes along, a fraction with its interval cut off, the row, a logarithm's exponent."""
        passed: Any = Signal(_Passed)
        low, row = Signal(DISTANCE_BITS), Signal(range(ROWS))
        upper = self._upper()
        whole, given, exponent, bias = (
            Signal(_SPARE), Signal(FRACTION_BITS), Signal(UPPER.exponent), Mux(upper, UPPER.bias, SINGLE.bias))
        # With as many bits as are reduced.
        m.d.comb += [given.eq(SINGLE.fraction_of(number) << FRACTION_BITS - SINGLE.fraction),
                     exponent.eq(SINGLE.exponent_of(number))]
        with m.If(upper):
            m.d.comb += [given.eq(UPPER.fraction_of(number) << FRACTION_BITS - UPPER.fraction),
                         exponent.eq(UPPER.exponent_of(number))]
        special = Signal()
        turns, exponential = self._is(MultiFunction.SIN, MultiFunction.COS), self._is(MultiFunction.EX2)
        zero, infinite, nan, power = Signal(), Signal(), Signal(), Signal(signed(UPPER.exponent + 1))
        m.d.comb += [
            special.eq(exponent[:SINGLE.exponent].all() & (~upper | exponent[SINGLE.exponent:].all())),
            zero.eq(exponent == 0), infinite.eq(special & ~given.any()), nan.eq(special & given.any()),
            power.eq(exponent - bias)]

        # A fixed-point number is negated for EX2, and turned to the first quarter for SIN and COS.
        backwards, quarter, split = Signal(), Signal(_QUARTER_BITS), Signal(signed(_FIXED_BITS + 1))
        beyond = exponent >= SINGLE.bias + _SPARE
        m.d.comb += [
            quarter.eq(fixed[FRACTION_BITS:] + self._is(MultiFunction.COS)),
            backwards.eq(Mux(turns, quarter[0], negative)),
            split.eq((Cat(fixed, Const(0, 1)) ^ backwards.replicate(_FIXED_BITS + 1)).as_signed()
                     + (backwards & exponential))]
        fraction = Signal(FRACTION_BITS)
        m.d.comb += fraction.eq(Mux(
            turns | exponential, split[:FRACTION_BITS], given))

        # Interval and what is below it: RCP has twice as many intervals.
        halves = INTERVAL_BITS[MultiFunction.RCP]
        usual = fraction[FRACTION_BITS - halves + 1:]
        m.d.sync += [row.eq(fraction[FRACTION_BITS - halves:]), low.eq(fraction[:DISTANCE_BITS - 1] << 1),
                     whole.eq(power ^ (power < 0).replicate(len(power)))]
        for function, extra in ((MultiFunction.RSQ, power[0]), (MultiFunction.LG2, Const(0, 1)),
                                (MultiFunction.EX2, Const(0, 1)), (MultiFunction.SIN, Const(0, 1))):
            both = (function, MultiFunction.COS) if function is MultiFunction.SIN else (function,)
            with m.If(self._is(*both)):
                m.d.sync += [row.eq(Cat(usual, extra) + FIRST_ROWS[function]), low.eq(fraction[:DISTANCE_BITS])]

        wrong = (negative & ~zero) | nan
        # Stored exponent of a result whose value has its highest bit on top.
        top = Mux(upper, UPPER.bias + _SPARE - 1, SINGLE.bias + _SPARE - 1)
        # Function, its exponent, sign, and when it is a zero, an infinity, no number.
        for functions, scale, sign, empty, full, none in (
                ((MultiFunction.RCP,), -power, negative, infinite, zero, nan),
                ((MultiFunction.RSQ,), -(power >> 1), negative, infinite, zero, wrong),
                ((MultiFunction.LG2,), Const(0), zero | (power < 0), Const(0, 1), zero | infinite, wrong),
                ((MultiFunction.EX2,), (split >> FRACTION_BITS) + 1, Const(0, 1), beyond & negative,
                 beyond & ~negative, nan),
                ((MultiFunction.SIN, MultiFunction.COS), Const(0),
                 negative & self._is(MultiFunction.SIN) ^ quarter[1], Const(0, 1), Const(0, 1), nan | infinite)):
            with m.If(self._is(*functions)):
                m.d.sync += [
                    passed.exponent.eq(scale + top), passed.negative.eq(sign), passed.empty.eq(empty),
                    passed.full.eq(full), passed.none.eq(none)]
        return passed, low, row, whole


def _coefficients(row: Value) -> tuple[Any, ...]:
    """C0, C1 and C2 of a row."""
    found, place = [], 0
    for number, width in enumerate(COEFFICIENT_BITS):
        bits = row[place:place + width]
        found.append(bits.as_signed() if number else bits)
        place += width
    return tuple(found)


def _delayed(m: Module, value: Any, cycles: int) -> Any:
    """A value some cycles later."""
    for _ in range(cycles):
        later = Signal.like(value, name="later")
        m.d.sync += later.eq(value)
        value = later
    return value


assert DOUBLE_BITS >= UNIT + _SPARE
