"""Where signals and memories are in a compiled model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["MemoryLocation", "Piece", "SignalLocation"]

Piece = tuple[int, int, int, int]
"""Bits of a kept word: its place, how far they are shifted in it, how many they are, where they belong."""


@dataclass(frozen=True)
class SignalLocation:
    """The bits of a signal: pieces of kept words, the rest is ``constant``. ``combinational``: computed from others."""

    pieces: tuple[Piece, ...]
    constant: int
    combinational: bool

    def record(self) -> list[Any]:
        """As numbers and lists."""
        return [[list(piece) for piece in self.pieces], self.constant, self.combinational]

    @classmethod
    def restore(cls, record: Sequence[Any]) -> "SignalLocation":
        """From its record."""
        pieces, constant, combinational = record
        return cls(
            tuple((place, shift, width, at) for place, shift, width, at in pieces),
            constant,
            combinational,
        )


@dataclass(frozen=True)
class MemoryLocation:
    """A memory: its number, where its rows begin among all memories' words, and how many words each has."""

    number: int
    base: int
    words: int

    def record(self) -> list[int]:
        """As a list."""
        return [self.number, self.base, self.words]
