"""How many zeros are above the highest one of a word."""

from amaranth.hdl import Cat, Const, Mux, Value

__all__ = ["leading_zeros"]


def leading_zeros(word: Value) -> Value:
    """How many zeros are above the highest one; the word's length where there is none, or more."""
    size = 1 << (len(word) - 1).bit_length()
    return _count(Cat(Const(1, 1).replicate(size - len(word)), word))


def _count(word: Value) -> Value:
    """The same of a word of 2**n bits; n bits."""
    half = len(word) // 2
    if not half:
        return Const(0, 0)
    high, low = word[half:], word[:half]
    empty = ~high.any()
    return Cat(Mux(empty, _count(low), _count(high)), empty) if half > 1 else empty
