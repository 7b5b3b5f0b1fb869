"""Multiplies two significands, a pair in each cycle."""

from typing import Any

from amaranth.hdl import Cat, Module, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["PRODUCT_BITS", "PRODUCT_CYCLES", "SIGNIFICAND_BITS", "SignificandProduct"]

SIGNIFICAND_BITS = 53
PRODUCT_BITS = 2 * SIGNIFICAND_BITS
_LIMB = 18
"""Width of a multiplier's operands, and of a limb of a significand."""
_LIMBS = 3
PRODUCT_CYCLES = 2
"""Cycles from the significands to their product."""
assert SIGNIFICAND_BITS <= _LIMBS * _LIMB

_Parts = data.ArrayLayout(data.ArrayLayout(2 * _LIMB, _LIMBS), _LIMBS)
"""Parts to sums: element [i][j] is limb i of a times limb j of b."""


class _Sums(data.Struct):
    """Sums to the product: sums of parts by how far the numbers of their limbs differ."""

    equal: data.ArrayLayout(2 * _LIMB, _LIMBS)
    """Limb i of a times limb i of b, which do not overlap; its lowest bit has weight 1."""
    by_one: unsigned(4 * _LIMB + 1)
    """Its lowest bit has the weight of limb 1."""
    by_two: unsigned(2 * _LIMB + 1)
    """Its lowest bit has the weight of limb 2."""


class SignificandProduct(wiring.Component):
    """Multiplies with nine multipliers, each for one limb of a and one limb of b.

    ::

        cycle   0            1           2
                a and b  ->  parts   ->  sums; product

    Members
    -------
    a, b : In(53), In(53)
        Significands; others can follow in the next cycle.
    product : Out(106)
        PRODUCT_CYCLES later, at the end of a long sum.
    """

    a: In(SIGNIFICAND_BITS)
    b: In(SIGNIFICAND_BITS)
    product: Out(PRODUCT_BITS)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        parts: Any = Signal(_Parts, name="parts")
        for i in range(_LIMBS):
            for j in range(_LIMBS):
                limb_of_a = self.a[i * _LIMB:(i + 1) * _LIMB]
                limb_of_b = self.b[j * _LIMB:(j + 1) * _LIMB]
                m.d.sync += parts[i][j].eq(limb_of_a * limb_of_b)

        sums: Any = Signal(_Sums, name="sums")
        m.d.sync += sums.equal.eq(Cat(parts[0][0], parts[1][1], parts[2][2]))
        m.d.sync += sums.by_one.eq(
            Cat(parts[0][1], parts[1][2]) + Cat(parts[1][0], parts[2][1]))
        m.d.sync += sums.by_two.eq(parts[0][2] + parts[2][0])

        m.d.comb += self.product.eq(
            sums.equal.as_value() + (sums.by_one << _LIMB) + (sums.by_two << 2 * _LIMB))
        return m
