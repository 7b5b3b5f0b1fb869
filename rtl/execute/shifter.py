"""The shifter of a lane."""

from amaranth.hdl import Module, Mux, Signal, Value

__all__ = ["moved_down", "shifted_down"]

_AMOUNT_BITS = 5
_FINE_BITS = 3


def shifted_down(m: Module, word: Value, amount: Value, width: int) -> Value:
    """The low ``width`` bits of ``word >> amount``. The word has ``width + 31`` bits, and the
    amount 5.

    Each step keeps only the bits that later steps need: the operator ``>>`` takes about twice as
    many LUTs.
    """
    fine = range(_FINE_BITS)
    coarse = range(_FINE_BITS, _AMOUNT_BITS)
    whole = Signal(width + (1 << _AMOUNT_BITS) - 1)
    halfway = Signal(width + (1 << _FINE_BITS) - 1)
    m.d.comb += whole.eq(word)
    m.d.comb += halfway.eq(moved_down(whole, amount, coarse, len(halfway)))
    return moved_down(halfway, amount, fine, width)


def moved_down(word: Value, amount: Value, bits: range, width: int) -> Value:
    """The low ``width`` bits of the word, shifted to the right by these bits of the amount."""
    for bit in reversed(bits):
        kept = width + (1 << bit) - (1 << bits[0])
        word = Mux(amount[bit], word[1 << bit:(1 << bit) + kept], word[:kept])
    return word
