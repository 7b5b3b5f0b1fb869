"""Modifiers of instructions: the words that may be in one place, and the meaning of each."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from .module import PtxSpace, Type

__all__ = [
    "Modifier",
    "ModifierField",
    "flag",
    "ignored",
    "named",
    "spaces",
    "types",
    "words",
]


class ModifierField(Enum):
    """The attribute of :class:`~sim.toolchain.ptx.module.PtxInstruction` that a modifier sets, by
    name.
    """

    TYPES = "types"
    HALF = "half"
    SATURATE = "saturate"
    ROUNDING = "rounding"
    FLUSH = "flush"
    APPROXIMATION = "approximation"
    CARRY_OUT = "carry_out"
    COMPARE = "compare"
    COMBINE = "combine"
    SPACE = "space"
    VECTOR = "vector"
    UNIFORM = "uniform"
    TO = "to"
    VOLATILE = "volatile"
    CACHE = "cache"
    OPERATION = "operation"
    REDUCTION = "reduction"
    CLAMP = "clamp"
    SCALE = "scale"
    PLUS_ONE = "plus_one"
    SYNC = "sync"
    SCOPE = "scope"
    IGNORED = ""
    """No attribute: the word has no effect on this machine."""


@dataclass(frozen=True)
class Modifier:
    """A place for one of several words.

    Attributes:
        field: The attribute that the word sets.
        values: The words without their dots, and the value of the attribute for each.
        optional: Whether the place may be empty.
        after_opcode: Whether the word follows the opcode, before the words of all other places.
    """

    field: ModifierField
    values: Mapping[str, Any]
    optional: bool = False
    after_opcode: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """The words that may be in this place."""
        return tuple(self.values)


def flag(field: ModifierField, word: str) -> Modifier:
    """Returns a place for one word, which sets a boolean attribute."""
    return Modifier(field, {word: True})


def words(field: ModifierField, *choice: str) -> Modifier:
    """Returns a place for one of several words, which is the attribute's value."""
    return Modifier(field, {word: word for word in choice})


def named(field: ModifierField, *choice: Enum) -> Modifier:
    """Returns a place for one of several members of an enumeration, whose values are the words."""
    return Modifier(field, {value.value: value for value in choice})


def ignored(*choice: str) -> Modifier:
    """Returns a place for one of several words without an effect on this machine."""
    return words(ModifierField.IGNORED, *choice)


def types(*choice: Type) -> Modifier:
    """Returns a place for a type: the next type of the instruction."""
    return named(ModifierField.TYPES, *choice)


def spaces(*choice: PtxSpace) -> Modifier:
    """Returns a place for a state space."""
    return named(ModifierField.SPACE, *choice)
