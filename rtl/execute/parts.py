"""Parts of an operand: a byte, a half or a word, extended to a word."""

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Const, Module, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .control import Part
from .stages import WORD_BYTES

__all__ = ["PartSelector"]


class PartSelector(wiring.Component):
    """Selects a part of a word; combinational. The opposite order counts as the word.

    Members
    -------
    word : In(32)
    part : In(Part)
    is_signed : In(1)
        The part is signed.
    selected : Out(32)
        The part, extended by its sign, or by zeros.
    is_negative : Out(1)
        It is signed and below zero.
    """

    word: In(32)
    part: In(Part)
    is_signed: In(1)
    selected: Out(32)
    is_negative: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        code = self.part.as_value()
        is_byte = code[2]
        is_low = self.part == Part.LOW
        is_high = self.part == Part.HIGH
        is_word = ~is_byte & (code[0] == code[1])
        begins_word = ~is_byte & ~is_high
        byte = [is_byte & (code[:2] == place) for place in range(WORD_BYTES)]

        # Which byte of the word is the part's lowest one, its second one, and the one with its
        # sign: of each one at most.
        lowest = (byte[0] | begins_word, byte[1], byte[2] | is_high, byte[3])
        second = (Const(0), begins_word, Const(0), is_high)
        top = (byte[0], byte[1] | is_low, byte[2], byte[3] | is_high | is_word)
        signs = Cat(self.word[8 * place + 7] & is_top for place, is_top in enumerate(top))
        m.d.comb += self.is_negative.eq(signs.any() & self.is_signed)

        byte_extension = (self.is_negative & is_byte).replicate(8)
        half_extension = (self.is_negative & ~is_word).replicate(16)
        upper_half = self.word[16:] & is_word.replicate(16)
        m.d.comb += self.selected.eq(Cat(
            self._byte(lowest), self._byte(second) | byte_extension, upper_half | half_extension))
        return m

    def _byte(self, chosen: tuple[Value, ...]) -> Value:
        """The byte of the word that is chosen; 0 if none is."""
        return reduce(or_, (
            self.word.word_select(place, 8) & is_chosen.replicate(8)
            for place, is_chosen in enumerate(chosen)))
