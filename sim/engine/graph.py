"""A design as a graph of words: numbers of up to 64 bits, each computed from others.

Nodes are identified by their index. Equal nodes are shared, and constants are folded. The value of
a node never has more bits than its width.
"""

import operator
from collections.abc import Callable, Sequence
from typing import Any

from sim.engine.nodes import (
    WORD,
    Binary,
    Cat,
    Const,
    Mux,
    Node,
    Pick,
    Read,
    Rep,
    Slice,
    StateWord,
    Unary,
    class_of,
)
from sim.engine.packing import packed

__all__ = [
    "WORD",
    "Binary",
    "Cat",
    "Const",
    "Graph",
    "Mux",
    "Node",
    "Pick",
    "Read",
    "Rep",
    "Slice",
    "StateWord",
    "Unary",
]

_COMMUTATIVE = frozenset({"and", "or", "xor", "add", "mul", "eq"})


def _ones(width: int) -> int:
    return (1 << width) - 1


class Graph:
    """The nodes, by index."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._numbers: dict[tuple[Any, ...], int] = {}

    def add(self, kind: str, width: int, *made_of: Any) -> int:
        """Returns the index of a node, which is added unless it exists."""
        node = (kind, width, *made_of)
        number = self._numbers.get(node)
        if number is None:
            number = self._numbers[node] = len(self.nodes)
            self.nodes.append(class_of(kind)._make(node))
        return number

    def width(self, number: int) -> int:
        """Returns the width of a node in bits."""
        return self.nodes[number].width

    def const(self, width: int, value: int) -> int:
        """Returns a constant."""
        return self.add("const", width, value & _ones(width))

    def value(self, number: int) -> int | None:
        """Returns the value of a constant node; None for any other."""
        node = self.nodes[number]
        return node.value if isinstance(node, Const) else None

    def slice(self, number: int, shift: int, width: int) -> int:
        """Returns ``width`` bits of a node, from bit ``shift`` on."""
        node = self.nodes[number]
        if shift == 0 and width == node.width:
            return number
        match node:
            case Const():
                return self.const(width, node.value >> shift)
            case Slice():
                return self.slice(node.source, node.shift + shift, width)
            case Rep():
                return self.copies(node.bit, width)
            case Cat():
                parts: list[tuple[int, int]] = []
                for part, at in node.parts:
                    low, high = max(at, shift), min(at + self.width(part), shift + width)
                    if low < high:
                        parts.append((self.slice(part, low - at, high - low), low - shift))
                return self.cat(parts, width)
        return self.add("slice", width, number, shift)

    def copies(self, bit: int, count: int) -> int:
        """Returns a bit replicated ``count`` times."""
        if count == 1:
            return bit
        if (value := self.value(bit)) is not None:
            return self.const(count, -value)
        return self.add("rep", count, bit)

    def cat(self, parts: Sequence[tuple[int, int]], width: int) -> int:
        """Returns the concatenation of nodes, each at its bit position, with zeros between them."""
        merged: list[tuple[int, int]] = []
        constant = 0
        for part, at in parts:
            if (value := self.value(part)) is not None:
                constant |= value << at
                continue
            if merged and (joined := self._joined(*merged[-1], part, at)) is not None:
                merged[-1] = (joined, merged[-1][1])
            else:
                merged.append((part, at))
        if len(merged) > 1:
            merged = packed(self, merged)
        if not merged:
            return self.const(width, constant)
        if constant:
            merged.append((self.const(width, constant), 0))
        elif len(merged) == 1 and merged[0][1] == 0 and self.width(merged[0][0]) == width:
            return merged[0][0]
        return self.add("cat", width, tuple(merged))

    def _joined(self, low: int, low_at: int, high: int, at: int) -> int | None:
        """Returns a single node for two adjacent parts, if there is one."""
        one, other = self.nodes[low], self.nodes[high]
        if low_at + one.width != at:
            return None
        if other.width == 1 and (low == high or (isinstance(one, Rep) and one.bit == high)):
            return self.copies(high, one.width + 1)
        if isinstance(other, Rep) and (
            (isinstance(one, Rep) and one.bit == other.bit) or low == other.bit
        ):
            return self.copies(other.bit, one.width + other.width)
        source, start = (one.source, one.shift) if isinstance(one, Slice) else (low, 0)
        if isinstance(other, Slice) and other.source == source and other.shift == start + one.width:
            return self.slice(source, start, one.width + other.width)
        return None

    def invert(self, number: int) -> int:
        """Returns the bitwise complement."""
        node = self.nodes[number]
        if isinstance(node, Const):
            return self.const(node.width, ~node.value)
        return (
            node.operand
            if isinstance(node, Unary) and node.kind == "not"
            else self.add("not", node.width, number)
        )

    def negate(self, number: int) -> int:
        """Returns the two's complement negation."""
        value = self.value(number)
        return (
            self.const(self.width(number), -value)
            if value is not None
            else self.add("neg", self.width(number), number)
        )

    def mux(self, condition: int, one: int, other: int) -> int:
        """Returns ``one`` where the condition is 1, else ``other``."""
        if one == other:
            return one
        if (value := self.value(condition)) is not None:
            return one if value else other
        node = self.nodes[condition]
        if isinstance(node, Unary) and node.kind == "not":
            return self.mux(node.operand, other, one)
        width = self.width(one)
        if width == 1:
            first = self.value(one)
            if first == 1:
                return self.binary("or", condition, other)
            if self.value(other) == 0:
                return self.binary("and", condition, one)
            if first == 0:
                return self.binary("and", self.invert(condition), other)
        return self.add("mux", width, condition, one, other)

    def binary(self, name: str, a: int, b: int) -> int:
        """Returns an operation of two nodes of equal width."""
        width = self.width(a)
        one, other = self.value(a), self.value(b)
        if (
            one is not None
            and other is not None
            and (folded := _fold(name, width, one, other)) is not None
        ):
            return self.const(1 if name in ("eq", "ult", "slt") else width, folded)
        if one is not None and name in _COMMUTATIVE:
            a, b, other = b, a, one
        if other is not None and (simpler := self.with_constant(name, a, other, width)) is not None:
            return simpler
        if a == b:
            match name:
                case "and" | "or":
                    return a
                case "xor" | "sub":
                    return self.const(width, 0)
                case "eq":
                    return self.const(1, 1)
        if name in _COMMUTATIVE and other is None and a > b:
            a, b = b, a
        return self.add(name, 1 if name in ("eq", "ult", "slt") else width, a, b)

    def with_constant(self, name: str, a: int, value: int, width: int) -> int | None:
        """Returns the simplified form of an operation with a constant right operand; None if there
        is none.
        """
        ones = _ones(width)
        if value == 0:
            if name in ("or", "xor", "add", "sub", "shl", "shr", "sar"):
                return a
            if name in ("and", "mul"):
                return self.const(width, 0)
        if name == "and" and value == ones:
            return a
        if name == "or" and value == ones:
            return self.const(width, ones)
        if name == "xor" and value == ones:
            return self.invert(a)
        if name == "eq" and width == 1:
            return a if value else self.invert(a)
        if name == "shl":
            return (
                self.const(width, 0)
                if value >= width
                else self.cat([(self.slice(a, 0, width - value), value)], width)
            )
        if name == "shr":
            return (
                self.const(width, 0)
                if value >= width
                else self.cat([(self.slice(a, value, width - value), 0)], width)
            )
        return None

    def pick(self, index: int, picks: Sequence[int]) -> int:
        """Returns a selection of one of several nodes by index; an index beyond the end selects the
        last.
        """
        if (number := self.value(index)) is not None:
            return picks[min(number, len(picks) - 1)]
        end = len(picks)
        while end > 1 and picks[end - 2] == picks[-1]:
            end -= 1
        if end == 1:
            return picks[0]
        return self.add("pick", self.width(picks[0]), index, tuple(picks[:end]))

    def all_of(self, nodes: Sequence[int]) -> int:
        """Returns the AND of bits."""
        result = self.const(1, 1)
        for node in nodes:
            result = self.binary("and", node, result)
        return result

    def any_of(self, nodes: Sequence[int]) -> int:
        """Returns the OR of bits."""
        result = self.const(1, 0)
        for node in nodes:
            result = self.binary("or", node, result)
        return result


_FOLDS: dict[str, Callable[[int, int], int]] = {
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "eq": lambda a, b: int(a == b),
    "ult": lambda a, b: int(a < b),
}


def _fold(name: str, width: int, a: int, b: int) -> int | None:
    """Computes an operation on constants; None if it cannot be folded."""
    if name == "slt":
        half = 1 << width - 1
        return int((a ^ half) < (b ^ half))
    fold = _FOLDS.get(name)
    return None if fold is None else fold(a, b)
