"""A sum with a carry in, as one chain of carries; whether it is zero, without one."""

from amaranth.hdl import Cat, Const, Value, ValueLike

__all__ = ["sum_is_zero", "sum_with_carry"]


def sum_with_carry(a: ValueLike, b: ValueLike, carry: ValueLike) -> Value:
    """``a + b + carry``, one bit wider than the wider term; all unsigned. A third term would be a
    second chain."""
    return (Cat(Const(1, 1), a) + Cat(carry, b))[1:]


def sum_is_zero(a: ValueLike, b: ValueLike, carry: ValueLike) -> Value:
    """Whether the sum of two terms of the same width is zero, its carry excepted.

    Below a bit, everything is zero if a carry comes from there exactly where one of the terms has a
    one; so each bit is a table of four, and none waits for another.
    """
    a, b = Value.cast(a), Value.cast(b)
    return ~(a ^ b ^ Cat(carry, (a | b)[:-1])).any()
