"""A sum with a carry in, as one chain of carries."""

from amaranth.hdl import Cat, Const, Value, ValueLike

__all__ = ["sum_with_carry"]


def sum_with_carry(a: ValueLike, b: ValueLike, carry: ValueLike) -> Value:
    """``a + b + carry``, one bit wider than the wider term; all unsigned. A third term would be a second chain."""
    return (Cat(Const(1, 1), a) + Cat(carry, b))[1:]
