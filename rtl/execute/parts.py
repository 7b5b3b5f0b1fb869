"""Parts of an operand: a byte, a half or a word, extended to a word."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Const, Value, unsigned
from amaranth.lib import data

from rtl.structs import struct_value

from .control import Part
from .stages import WORD_BYTES

__all__ = ["SelectedPart", "selected_part"]


class SelectedPart(data.Struct):
    """The selected part of an operand."""

    word: unsigned(32)
    """The part, extended by its sign, or by zeros."""
    is_negative: unsigned(1)
    """It is signed and below zero."""

    @property
    def extended(self) -> Value:
        """The part, extended by its sign or by zeros to PREPARED_SUM_BITS bits."""
        return Cat(self.word, self.is_negative.replicate(2))


def selected_part(word: Value, part: Any, is_signed: Value) -> Any:
    """The SelectedPart of a word. ``part`` is a Part; REVERSED selects the word, not reversed."""
    code = Value.cast(part)
    is_byte = code[2]
    is_low = part == Part.LOW
    is_high = part == Part.HIGH
    is_word = ~is_byte & (code[0] == code[1])
    begins_word = ~is_byte & ~is_high
    byte = [is_byte & (code[:2] == place) for place in range(WORD_BYTES)]

    # One-hot, or 0: the byte of the word that is the lowest byte of the part, its second one, and
    # the one with its sign.
    lowest = (byte[0] | begins_word, byte[1], byte[2] | is_high, byte[3])
    second = (Const(0), begins_word, Const(0), is_high)
    top = (byte[0], byte[1] | is_low, byte[2], byte[3] | is_high | is_word)
    signs = Cat(word[8 * place + 7] & is_top for place, is_top in enumerate(top))
    is_negative = signs.any() & is_signed

    byte_extension = (is_negative & is_byte).replicate(8)
    half_extension = (is_negative & ~is_word).replicate(16)
    upper_half = word[16:] & is_word.replicate(16)
    return struct_value(
        SelectedPart,
        word=Cat(
            _byte(word, lowest),
            _byte(word, second) | byte_extension,
            upper_half | half_extension),
        is_negative=is_negative)


def _byte(word: Value, chosen: tuple[Value, ...]) -> Value:
    """The chosen byte of the word; 0 if none is chosen."""
    return reduce(or_, (
        word.word_select(place, 8) & is_chosen.replicate(8)
        for place, is_chosen in enumerate(chosen)))
