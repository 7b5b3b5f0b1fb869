"""The product of two significands, in three steps."""

from amaranth.hdl import Cat, Const, Module, Signal, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["PRODUCT_BITS", "PRODUCT_CYCLES", "SIGNIFICAND_BITS", "SignificandProduct"]

SIGNIFICAND_BITS = 53
PRODUCT_BITS = 2 * SIGNIFICAND_BITS
_LIMB, _LIMBS = 18, 3
"""The operands of a multiplier."""
_WIDE = _LIMB * _LIMBS
PRODUCT_CYCLES = _LIMBS + 3
"""From ``start`` to the product."""


class SignificandProduct(wiring.Component):
    """Three multipliers: the one factor with a limb of the other in each cycle.

    Members
    -------
    start : In(1)
        Not again before the product is there.
    a, b : In(53), In(53)
        In the cycle of ``start``.
    product : Out(106)
        PRODUCT_CYCLES later, until the next one begins to come a cycle later than ``start``.
    """

    start: In(1)
    a: In(SIGNIFICAND_BITS)
    b: In(SIGNIFICAND_BITS)
    product: Out(PRODUCT_BITS)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        a, b = Signal(_WIDE), Signal(_WIDE)
        parts = [Signal(2 * _LIMB, name=f"part_{limb}") for limb in range(_LIMBS)]
        row, total, low = Signal(_WIDE + _LIMB), Signal(_WIDE + _LIMB), Signal(_LIMB * (_LIMBS - 1))
        step = Signal(PRODUCT_CYCLES)
        m.d.sync += [
            step.eq(Cat(self.start, step)), b.eq(b >> _LIMB),
            [part.eq(a.word_select(limb, _LIMB) * b[:_LIMB]) for limb, part in enumerate(parts)],
            row.eq(Cat(parts[0], parts[2]) + Cat(Const(0, _LIMB), parts[1]))]
        with m.If(self.start):
            m.d.sync += [a.eq(self.a), b.eq(self.b)]
        with m.If(step[2]):
            m.d.sync += total.eq(row)
        with m.If(step[3] | step[4]):
            m.d.sync += [total.eq(row + (total >> _LIMB)), low.eq(Cat(low[_LIMB:], total[:_LIMB]))]
        m.d.comb += self.product.eq(Cat(low, total))
        return m


assert unsigned(PRODUCT_BITS).width <= _LIMB * (_LIMBS - 1) + _WIDE + _LIMB
