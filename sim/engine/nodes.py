"""The kinds of nodes of a graph: a class for each, with its operands."""

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
"""Width of the largest word in bits."""

# A node holds its kind, its width, and its operands: indices of other nodes, and constants. The
# kind comes first, so that nodes of two kinds are never equal.


class Const(NamedTuple):
    """A constant."""

    kind: str
    width: int
    value: int


class StateWord(NamedTuple):
    """A stored word, of a register or an input, identified by its place."""

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
    """A concatenation of words: nodes with their first bits."""

    kind: str
    width: int
    parts: tuple[tuple[int, int], ...]


class Rep(NamedTuple):
    """One bit, replicated."""

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

    ``and``, ``or``, ``xor``, ``add``, ``sub``, ``mul``, ``shl`` and ``shr`` are as in C, modulo
    ``2**width``; ``eq``, ``ult`` and ``slt`` have one bit; ``slt`` and ``sar`` take signed numbers
    of a's width. ``udiv`` and ``umod`` are 0 when b is 0; so are ``sdiv`` and ``smod``, which round
    down.
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
    """A selection of one of several nodes by index; an index beyond the end selects the last."""

    kind: str
    width: int
    index: int
    picks: tuple[int, ...]


class Read(NamedTuple):
    """A word of a row of a memory, which is identified by the index of its cell."""

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
"""Classes by kind; all other kinds are Binary."""


def class_of(kind: str) -> type[Node]:
    """Returns the class of nodes of a kind."""
    return _CLASSES.get(kind, Binary)
