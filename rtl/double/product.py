"""Multiplies two significands, a limb of one in each cycle."""

from amaranth.hdl import Assert, Cat, Const, Module, Signal, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["PRODUCT_BITS", "PRODUCT_CYCLES", "SIGNIFICAND_BITS", "SignificandProduct"]

SIGNIFICAND_BITS = 53
PRODUCT_BITS = 2 * SIGNIFICAND_BITS
_LIMB = 18
"""Width of a multiplier's operands, and of a limb of a significand."""
_LIMBS = 3
_WIDE = _LIMB * _LIMBS
_FIRST_ROW = 2
"""Cycles from the operands' registers to that of the first row: a times a limb of b."""
PRODUCT_CYCLES = _LIMBS + 3
"""Cycles from ``start`` to the product."""


class SignificandProduct(wiring.Component):
    """Multiplies with three multipliers: in each cycle a by a limb of b, the lowest one first.

    ::

        cycle      0      1        2       3        4        5        6
                   start  a and b  parts   row      total    total    product
                                   of b0   of b0    of b0    of b0, b1

    Members
    -------
    start : In(1)
        At least PRODUCT_CYCLES after the one before.
    a, b : In(53), In(53)
        The significands, in the cycle of ``start``.
    product : Out(106)
        PRODUCT_CYCLES after ``start``; stable until three cycles after the next ``start``.
    """

    start: In(1)
    a: In(SIGNIFICAND_BITS)
    b: In(SIGNIFICAND_BITS)
    product: Out(PRODUCT_BITS)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        step = Signal(PRODUCT_CYCLES)
        a = Signal(_WIDE)
        b = Signal(_WIDE)
        parts = [Signal(2 * _LIMB, name=f"part_{limb}") for limb in range(_LIMBS)]
        row = Signal(_WIDE + _LIMB)
        total = Signal(_WIDE + _LIMB)
        low = Signal(_LIMB * (_LIMBS - 1))
        m.d.sync += step.eq(Cat(self.start, step))
        m.d.sync += Assert(
            ~(self.start & step[:-1].any()), "a product begins before the last one is there")

        # A row: the lowest limb of b times a, from three parts. Then b is shifted to its next limb.
        with m.If(self.start):
            m.d.sync += a.eq(self.a)
            m.d.sync += b.eq(self.b)
        with m.Else():
            m.d.sync += b.eq(b >> _LIMB)
        for limb, part in enumerate(parts):
            m.d.sync += part.eq(a.word_select(limb, _LIMB) * b[:_LIMB])
        even_parts = Cat(parts[0], parts[2])
        odd_part = Cat(Const(0, _LIMB), parts[1])
        m.d.sync += row.eq(even_parts + odd_part)

        # The total is shifted right by a limb before each further row; its lowest limb, to which no
        # further row adds, moves to ``low``.
        with m.If(step[_FIRST_ROW]):
            m.d.sync += total.eq(row)
        with m.If(step[_FIRST_ROW + 1:_FIRST_ROW + _LIMBS].any()):
            m.d.sync += total.eq(row + (total >> _LIMB))
            m.d.sync += low.eq(Cat(low[_LIMB:], total[:_LIMB]))
        m.d.comb += self.product.eq(Cat(low, total))
        return m


assert unsigned(PRODUCT_BITS).width <= _LIMB * (_LIMBS - 1) + _WIDE + _LIMB
