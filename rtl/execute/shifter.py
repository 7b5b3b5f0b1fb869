"""The shifter of a lane."""

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from rtl.component import Component

__all__ = ["Shifter", "moved_down"]

_AMOUNT_BITS = 5
_FINE_BITS = 3


class Shifter(Component):
    """Moves a word down by up to 31 and keeps its low bits; combinational.

    In steps that keep no more bits than the later ones need: the operator ``>>`` takes about twice
    as many tables.

    Parameters
    ----------
    width : int
        Bits that are kept. Those of the word are 31 more.

    Members
    -------
    word : In(width + 31)
    amount : In(5)
    moved : Out(width)
    """

    def __init__(self, width: int) -> None:
        self._width = width
        super().__init__({
            "word": In(width + (1 << _AMOUNT_BITS) - 1),
            "amount": In(_AMOUNT_BITS),
            "moved": Out(width),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        fine = range(_FINE_BITS)
        coarse = range(_FINE_BITS, _AMOUNT_BITS)
        width = self._width + (1 << _FINE_BITS) - 1
        halfway = Signal(width)
        m.d.comb += halfway.eq(moved_down(self.word, self.amount, coarse, width))
        m.d.comb += self.moved.eq(moved_down(halfway, self.amount, fine, self._width))
        return m


def moved_down(word: Value, amount: Value, bits: range, width: int) -> Value:
    """``width`` bits of the word, moved down by what these bits of the amount say."""
    for bit in reversed(bits):
        kept = width + (1 << bit) - (1 << bits[0])
        word = Mux(amount[bit], word[1 << bit:(1 << bit) + kept], word[:kept])
    return word
