"""Modifiers of instructions: the words that may stand in one place, and what each of them means."""

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
    """What a modifier sets: an attribute of :class:`~sim.toolchain.ptx.module.PtxInstruction`, by its name."""

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
    """No attribute: the word changes nothing on this machine."""


@dataclass(frozen=True)
class Modifier:
    """A place for one of some words.

    Attributes:
        field: What the word sets.
        values: The words without their dots, and the value that each gives to the field.
        optional: Whether the place may be left empty.
        after_opcode: Whether the word follows the opcode, before all words of other places.
    """

    field: ModifierField
    values: Mapping[str, Any]
    optional: bool = False
    after_opcode: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """The words that may stand here."""
        return tuple(self.values)


def flag(field: ModifierField, word: str) -> Modifier:
    """One word, which sets an attribute that is true or false."""
    return Modifier(field, {word: True})


def words(field: ModifierField, *choice: str) -> Modifier:
    """One of some words, which is the attribute's value as it stands."""
    return Modifier(field, {word: word for word in choice})


def named(field: ModifierField, *choice: Enum) -> Modifier:
    """One of some values of an enumeration, whose own values are the words."""
    return Modifier(field, {value.value: value for value in choice})


def ignored(*choice: str) -> Modifier:
    """One of some words, all without a meaning on this machine."""
    return words(ModifierField.IGNORED, *choice)


def types(*choice: Type) -> Modifier:
    """One of some types: the next type of the instruction."""
    return named(ModifierField.TYPES, *choice)


def spaces(*choice: PtxSpace) -> Modifier:
    """One of some state spaces."""
    return named(ModifierField.SPACE, *choice)
