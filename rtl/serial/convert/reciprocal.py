"""MUFU.RCP by bytes: :mod:`rtl.isa.functions` of one number at a time, with one multiplier.

The parabola's constant is a source like others (:mod:`.sources`); this is what is added to it. In units of 2**-16 of
the table's, and with C1 in two parts, the sum is made from its lowest digit on::

    low part of C1 * 4 d,  then + C2 * square,  then 8 bits higher + high part of C1 * 4 d

Both are given with RAISED zeros below, so that a byte ends where the result's fraction does.
"""

from amaranth.hdl import Cat, Module, Mux, Signal, signed, unsigned
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from rtl.convert.formats import SINGLE
from rtl.isa.functions import DISTANCE_BITS, FRACTION_BITS, INTERVAL_BITS, UNIT, rows
from rtl.isa.kinds import MultiFunction
from rtl.wires import IN_BLOCKS

from .instruction import BYTE, STEP

__all__ = ["INTERVALS", "ReciprocalSum", "raised_constants"]

INTERVALS = 1 << INTERVAL_BITS[MultiFunction.RCP]
_RAISED = 3
"""How far the value is shifted up: then its bits below a fraction's are a byte, of numbers less than one."""
_GIVEN = SINGLE.fraction - INTERVAL_BITS[MultiFunction.RCP]
"""Bits of a fraction below those of the interval."""
_ZEROS = DISTANCE_BITS - _GIVEN
"""Bits of a distance below these."""
_FACTOR_BITS = 18
_SUM_BITS = 33
assert FRACTION_BITS - INTERVAL_BITS[MultiFunction.RCP] + 1 == DISTANCE_BITS
assert UNIT - 1 - SINGLE.fraction == BYTE - _RAISED


def raised_constants() -> list[int]:
    """C0 of each interval, shifted up, as four bytes of which the lowest comes last: it is the byte of index -1."""
    words = [c0 << _RAISED for c0, _, _ in rows()[:INTERVALS]]
    return [word >> BYTE * number & 0xFF for word in words for number in (1, 2, 3, 0)]


def _factors() -> list[int]:
    """Four factors of each interval, in their order; the last one is 0."""
    return [factor for _, c1, c2 in rows()[:INTERVALS]
            for factor in (c1 % (1 << BYTE) << BYTE, c2, c1 >> BYTE, 0)]


class ReciprocalSum(wiring.Component):
    """The term without C0, a byte a cycle.

    Members
    -------
    calculates : In(1)
        It is wanted; otherwise the bytes are zeros.
    fraction : In(23)
        Stable.
    step : In(STEP)
        Of the result: the lowest byte is there in step -3.
    byte : Out(8)
    """

    calculates: In(1)
    fraction: In(SINGLE.fraction)
    step: In(STEP)
    byte: Out(BYTE)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        step = self.step
        m.submodules.factors = factors = memory.Memory(
            shape=signed(_FACTOR_BITS), depth=4 * INTERVALS, init=_factors(), attrs=IN_BLOCKS)
        factor = factors.read_port()
        distance, square = Signal(signed(_GIVEN)), Signal(unsigned(2 * _GIVEN + 2 * _ZEROS - DISTANCE_BITS - 1))
        other, product, total = Signal(signed(_FACTOR_BITS)), Signal(signed(_SUM_BITS)), Signal(signed(_SUM_BITS))
        # From step -8 on the three factors are read; at all other times it is the fourth one.
        idle = step[2] | ~step[-1] | ~self.calculates
        m.d.comb += [
            factor.addr.eq(Cat(step[:2] | idle.replicate(2), self.fraction[_GIVEN:])),
            distance.eq(Cat(self.fraction[:_GIVEN - 1], ~self.fraction[_GIVEN - 1])),
            other.eq(Mux(step[0], distance << 2, square))]
        rest, places = Signal(signed(_SUM_BITS + 1)), slice(BYTE - _RAISED, 2 * BYTE - _RAISED)
        m.d.comb += rest.eq((total >> BYTE) + product)
        m.d.sync += [square.eq(distance * distance >> DISTANCE_BITS - 2 * _ZEROS), product.eq(factor.data * other),
                     total.eq(rest)]
        with m.If(~self.calculates):
            m.d.sync += total.eq(0)
        # Nothing comes before the lowest byte, whose lowest bits are below the value's.
        begins, comes = Signal(), Signal()
        m.d.comb += [comes.eq(self.calculates & (~step[-1] | step[2:].all())), begins.eq(comes & (step == -4))]
        with m.If(comes):
            m.d.sync += self.byte.eq(rest[places])
        with m.Else():
            m.d.sync += self.byte.eq(0)
        with m.If(begins):
            m.d.sync += self.byte[:_RAISED].eq(0)
        return m
