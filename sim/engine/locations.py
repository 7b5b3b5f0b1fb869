"""Locations of signals and memories in a compiled model.

A *stored word* is an element of the model's array of words, and a *place* is its index.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

__all__ = ["MemoryLocation", "SignalLocation", "WordBits"]


class WordBits(NamedTuple):
    """Bits of a signal in a stored word.

    Attributes:
        word: The place of the word.
        shift: First bit in the word.
        width: Number of bits.
        position: First bit in the signal.
    """

    word: int
    shift: int
    width: int
    position: int


@dataclass(frozen=True)
class SignalLocation:
    """The location of a signal's bits.

    Attributes:
        pieces: The bits in stored words.
        constant: The value of the other bits, at their positions in the signal.
        combinational: Whether the signal is computed from other signals.
    """

    pieces: tuple[WordBits, ...]
    constant: int
    combinational: bool

    def record(self) -> list[Any]:
        """Returns the location as JSON values."""
        return [[list(piece) for piece in self.pieces], self.constant, self.combinational]

    @classmethod
    def restore(cls, record: Sequence[Any]) -> "SignalLocation":
        """Returns the location from its record."""
        pieces, constant, combinational = record
        return cls(tuple(WordBits(*piece) for piece in pieces), constant, combinational)


@dataclass(frozen=True)
class MemoryLocation:
    """The location of a memory: its number, the index of its first row in the array of all
    memories, and the words of a row.
    """

    number: int
    base: int
    words: int

    def record(self) -> list[int]:
        """Returns the location as a list."""
        return [self.number, self.base, self.words]
