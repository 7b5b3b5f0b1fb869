"""What the nodes of a graph are: classes, each with what it is made of."""

from typing import NamedTuple

__all__ = [
    "WORD",
    "Binary",
    "Cat",
    "Const",
    "Mux",
    "Node",
    "Pick",
    "Read",
    "Rep",
    "Slice",
    "StateWord",
    "Unary",
    "class_of",
]

WORD = 64
"""Bits of the largest word."""

# What a node does, its width, and what it is made of: numbers of other nodes, and constants. Each begins with its kind,
# so that nodes of two kinds are never equal.


class Const(NamedTuple):
    """A constant."""

    kind: str
    width: int
    value: int


class StateWord(NamedTuple):
    """A word that is kept, a register's or an input's, by its number."""

    kind: str
    width: int
    place: int


class Slice(NamedTuple):
    """``width`` bits of a word, from bit ``shift`` on."""

    kind: str
    width: int
    source: int
    shift: int


class Cat(NamedTuple):
    """Words side by side: nodes, and the bits at which they begin."""

    kind: str
    width: int
    parts: tuple[tuple[int, int], ...]


class Rep(NamedTuple):
    """Copies of one bit."""

    kind: str
    width: int
    bit: int


class Unary(NamedTuple):
    """``not`` or ``neg`` as in C, modulo ``2**width``, or ``parity``, which has one bit."""

    kind: str
    width: int
    operand: int


class Binary(NamedTuple):
    """An operation of two nodes.

    ``and``, ``or``, ``xor``, ``add``, ``sub``, ``mul``, ``shl`` and ``shr`` are as in C, modulo ``2**width``; ``eq``,
    ``ult`` and ``slt`` have one bit; ``slt`` and ``sar`` are of signed numbers of a's width. ``udiv`` and ``umod``
    are 0 when b is 0; so are ``sdiv`` and ``smod``, which round down.
    """

    kind: str
    width: int
    a: int
    b: int


class Mux(NamedTuple):
    """``if_true`` where the condition is 1, else ``if_false``."""

    kind: str
    width: int
    condition: int
    if_true: int
    if_false: int


class Pick(NamedTuple):
    """One of several by number; the last one beyond their end."""

    kind: str
    width: int
    index: int
    picks: tuple[int, ...]


class Read(NamedTuple):
    """A word of a row of a memory, which is named by the number of its cell."""

    kind: str
    width: int
    memory: int
    word: int
    row: int


Node = Const | StateWord | Slice | Cat | Rep | Unary | Binary | Mux | Pick | Read
_CLASSES: dict[str, type[Node]] = {
    "const": Const,
    "state": StateWord,
    "slice": Slice,
    "cat": Cat,
    "rep": Rep,
    "not": Unary,
    "neg": Unary,
    "parity": Unary,
    "mux": Mux,
    "pick": Pick,
    "read": Read,
}
"""By kind; all others are Binary."""


def class_of(kind: str) -> type[Node]:
    """The class of nodes of a kind."""
    return _CLASSES.get(kind, Binary)
