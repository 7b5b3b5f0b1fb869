"""Where signals and memories are in a compiled model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

__all__ = ["MemoryLocation", "SignalLocation", "WordBits"]


class WordBits(NamedTuple):
    """``width`` bits of a kept word, from its bit ``shift`` on, which are those of a signal from ``position`` on."""

    word: int
    shift: int
    width: int
    position: int


@dataclass(frozen=True)
class SignalLocation:
    """The bits of a signal.

    Attributes:
        pieces: Those that are in kept words.
        constant: The others, at their places in the signal.
        combinational: Whether they are computed from other signals.
    """

    pieces: tuple[WordBits, ...]
    constant: int
    combinational: bool

    def record(self) -> list[Any]:
        """As numbers and lists."""
        return [[list(piece) for piece in self.pieces], self.constant, self.combinational]

    @classmethod
    def restore(cls, record: Sequence[Any]) -> "SignalLocation":
        """From its record."""
        pieces, constant, combinational = record
        return cls(tuple(WordBits(*piece) for piece in pieces), constant, combinational)


@dataclass(frozen=True)
class MemoryLocation:
    """A memory: its number, where its rows begin among all memories' words, and how many words each has."""

    number: int
    base: int
    words: int

    def record(self) -> list[int]:
        """As a list."""
        return [self.number, self.base, self.words]
