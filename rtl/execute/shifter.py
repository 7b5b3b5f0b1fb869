"""The shifter of a lane."""

from amaranth.hdl import Module, Mux, Signal, Value

__all__ = ["moved_down", "shifted_down"]

_AMOUNT_BITS = 5
_FINE_BITS = 3


def shifted_down(m: Module, word: Value, amount: Value, width: int) -> Value:
    """The low ``width`` bits of a word that is moved down by up to 31, of which it has 31 more.

    In steps that keep no more bits than the later ones need: the operator ``>>`` takes about twice
    as many tables.
    """
    fine = range(_FINE_BITS)
    coarse = range(_FINE_BITS, _AMOUNT_BITS)
    whole = Signal(width + (1 << _AMOUNT_BITS) - 1)
    halfway = Signal(width + (1 << _FINE_BITS) - 1)
    m.d.comb += whole.eq(word)
    m.d.comb += halfway.eq(moved_down(whole, amount, coarse, len(halfway)))
    return moved_down(halfway, amount, fine, width)


def moved_down(word: Value, amount: Value, bits: range, width: int) -> Value:
    """``width`` bits of the word, moved down by what these bits of the amount say."""
    for bit in reversed(bits):
        kept = width + (1 << bit) - (1 << bits[0])
        word = Mux(amount[bit], word[1 << bit:(1 << bit) + kept], word[:kept])
    return word
