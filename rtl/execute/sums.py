"""Sums and shifts in the form that costs an FPGA the least."""

from amaranth.hdl import Cat, Const, Mux, Value, ValueLike

__all__ = ["moved_down", "sum_with_carry"]


def sum_with_carry(a: ValueLike, b: ValueLike, carry: ValueLike) -> Value:
    """``a + b + carry``, one bit wider than the wider term; all unsigned. A third term would be a second chain."""
    return (Cat(Const(1, 1), a) + Cat(carry, b))[1:]


def moved_down(word: Value, amount: Value, width: int) -> Value:
    """The low ``width`` bits of ``word >> amount``, in steps that keep no more bits than the later ones need.

    The operator ``>>`` takes three times as many tables.
    """
    for bit in reversed(range(len(amount))):
        step, kept = 1 << bit, width + (1 << bit) - 1
        word = Mux(amount[bit], word[step:step + kept], word[:kept])
    return word
