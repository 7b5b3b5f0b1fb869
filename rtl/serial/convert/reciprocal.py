"""MUFU.RCP by bytes: :mod:`rtl.isa.functions` of one number at a time, with one multiplier.

The parabola's constant C0 is a source like others (:mod:`.sources`); the other two terms are added
to it here. In units of 2**-16 of the table's, and with C1 in two parts, the sum is made from its
lowest digit on, a term a cycle::

    low part of C1 * 4 d,  then + C2 * square,  then 8 bits higher + high part of C1 * 4 d

The sum and C0 are shifted up by _RAISED, so that a byte ends where the result's fraction does.
"""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from rtl.convert.formats import SINGLE
from rtl.isa.functions import DISTANCE_BITS, FRACTION_BITS, INTERVAL_BITS, UNIT, rows
from rtl.isa.kinds import MultiFunction
from rtl.wires import IN_BLOCKS

from .instruction import BYTE, ConversionState, computes_parabola

__all__ = ["INTERVALS", "ReciprocalSum", "raised_constants"]

INTERVALS = 1 << INTERVAL_BITS[MultiFunction.RCP]
_RAISED = 3
"""How far the value is shifted up: then its bits below a fraction's are a byte, of numbers less
than one."""
_OFFSET_BITS = SINGLE.fraction - INTERVAL_BITS[MultiFunction.RCP]
"""Bits of a fraction below those of the interval."""
_ZEROS = DISTANCE_BITS - _OFFSET_BITS
"""Bits of a distance below these."""
_SQUARE_BITS = 2 * _OFFSET_BITS + 2 * _ZEROS - DISTANCE_BITS - 1
_FACTOR_BITS = 18
_FACTORS = 4
"""Places of an interval in the table of factors: three are used, the last one is 0."""
_SUM_BITS = 33
_LOWEST_STEP = -4
"""In this step the lowest byte is made, of which only bits from _RAISED on belong to the value."""
assert FRACTION_BITS - INTERVAL_BITS[MultiFunction.RCP] + 1 == DISTANCE_BITS
assert UNIT - 1 - SINGLE.fraction == BYTE - _RAISED


def raised_constants() -> list[int]:
    """C0 of each interval, shifted up, as four bytes, the lowest of which comes last: it is the
    byte of index -1."""
    words = [c0 << _RAISED for c0, _, _ in rows()[:INTERVALS]]
    return [word >> BYTE * number & 0xFF for word in words for number in (1, 2, 3, 0)]


def _factors() -> list[int]:
    """The factors of each interval, in the order in which they are multiplied."""
    return [
        factor
        for _, c1, c2 in rows()[:INTERVALS]
        for factor in (c1 % (1 << BYTE) << BYTE, c2, c1 >> BYTE, 0)]


class ReciprocalSum(wiring.Component):
    """The sum of the two terms that depend on the distance, a byte a cycle. ::

        step -8, -7, -6    the factor is read
        step -7, -6, -5    it is multiplied by the distance, or by its square
        step -6, -5, -4    the product is added
        step -3 on         a byte of the sum

    Members
    -------
    state : In(ConversionState)
        The lowest byte is there in step -3.
    byte : Out(8)
        0 if no sum is needed.
    """

    state: In(ConversionState())
    byte: Out(BYTE)

    def __init__(self) -> None:
        super().__init__()
        self._is_needed = Signal()
        """The sum is."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        is_calculated = ~self.state.scaling.reciprocal_is_special
        m.d.comb += self._is_needed.eq(computes_parabola(self.state) & is_calculated)
        product = self._multiply(m)
        self._add(m, product)
        return m

    def _multiply(self, m: Module) -> Value:
        """A factor times the distance or its square; of the fourth factor it is 0."""
        step = self.state.step
        fraction = SINGLE.fraction_of(self.state.source.head)
        m.submodules.factors = factors = memory.Memory(
            shape=signed(_FACTOR_BITS), depth=_FACTORS * INTERVALS, init=_factors(),
            attrs=IN_BLOCKS)
        factor = factors.read_port()
        # In steps -8 to -5 the factors are read in their order, in all others the fourth one.
        is_idle = step[2] | ~step[-1] | ~self._is_needed
        number = step[:2] | is_idle.replicate(2)
        m.d.comb += factor.addr.eq(Cat(number, fraction[_OFFSET_BITS:]))

        # The distance from the middle of the interval.
        offset = fraction[:_OFFSET_BITS]
        distance = Signal(signed(_OFFSET_BITS))
        square = Signal(unsigned(_SQUARE_BITS))
        multiplicand = Signal(signed(_FACTOR_BITS))
        product = Signal(signed(_SUM_BITS))
        m.d.comb += distance.eq(Cat(offset[:-1], ~offset[-1]))
        m.d.sync += square.eq(distance * distance >> DISTANCE_BITS - 2 * _ZEROS)
        m.d.comb += multiplicand.eq(Mux(step[0], distance << 2, square))
        m.d.sync += product.eq(factor.data * multiplicand)
        return product

    def _add(self, m: Module, product: Value) -> None:
        """Products are added to the sum, which is shifted right by a byte a cycle."""
        step = self.state.step
        total = Signal(signed(_SUM_BITS))
        next_total = Signal(signed(_SUM_BITS + 1))
        m.d.comb += next_total.eq((total >> BYTE) + product)
        with m.If(self._is_needed):
            m.d.sync += total.eq(next_total)
        with m.Else():
            m.d.sync += total.eq(0)

        is_from_lowest_step_on = ~step[-1] | step[2:].all()
        with m.If(self._is_needed & is_from_lowest_step_on):
            m.d.sync += self.byte.eq(next_total[BYTE - _RAISED:2 * BYTE - _RAISED])
            with m.If(step == _LOWEST_STEP):
                m.d.sync += self.byte[:_RAISED].eq(0)
        with m.Else():
            m.d.sync += self.byte.eq(0)
