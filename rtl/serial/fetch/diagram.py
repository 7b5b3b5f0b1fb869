"""Decision diagrams: functions of a word as nodes, each of which reads one bit of it."""

from collections.abc import Collection, Hashable, Mapping
from typing import Any, NamedTuple

__all__ = ["Decision", "Diagram", "Leaf"]


class Leaf(NamedTuple):
    """The value of a function."""

    value: Any


class Decision(NamedTuple):
    """A node that reads a bit: the numbers of the nodes that follow if it is 0, and 1."""

    bit: int
    zero: int
    one: int


class Diagram:
    """An ordered, reduced decision diagram. On each path from a node the highest bit is read first;
    equal nodes are one node, so that a function has one number.

    Attributes
    ----------
    nodes : list
        By number.
    """

    def __init__(self) -> None:
        self.nodes: list[Leaf | Decision] = []
        self._numbers: dict[Leaf | Decision, int] = {}
        self._choices: dict[tuple[int, int, int], int] = {}
        self._no = self.leaf(False)
        self._yes = self.leaf(True)

    def leaf(self, value: Hashable) -> int:
        """The function that always has that value."""
        return self._number(Leaf(value))

    def where(self, bits: Mapping[int, int]) -> int:
        """Whether these bits of the word have these values."""
        node = self._yes
        for bit, value in sorted(bits.items()):
            node = self._decide(bit, self._no, node) if value else self._decide(bit, node, self._no)
        return node

    def among(self, bits: Collection[int], codes: Collection[int]) -> int:
        """Whether these bits, the lowest one of a code first, are one of the codes."""
        places = sorted(enumerate(bits), key=lambda place: -place[1])

        def build(depth: int, codes: Collection[int]) -> int:
            """For the codes that agree with the bits read before."""
            if not codes:
                return self._no
            if depth == len(places):
                return self._yes
            place, bit = places[depth]
            zero = build(depth + 1, [code for code in codes if not code >> place & 1])
            one = build(depth + 1, [code for code in codes if code >> place & 1])
            return self._decide(bit, zero, one)

        return build(0, codes)

    def choose(self, condition: int, yes: int, no: int) -> int:
        """One function where a condition holds, and another one elsewhere."""
        if condition == self._no:
            return no
        if condition == self._yes or yes == no:
            return yes
        key = condition, yes, no
        if key not in self._choices:
            bit = max(self._bit_of(node) for node in key)
            zero = self.choose(*(self._follow(node, bit, 0) for node in key))
            one = self.choose(*(self._follow(node, bit, 1) for node in key))
            self._choices[key] = self._decide(bit, zero, one)
        return self._choices[key]

    def reached(self, root: int) -> list[int]:
        """The nodes of a function, breadth first, itself first."""
        found = {root: None}
        queue = [root]
        for number in queue:
            node = self.nodes[number]
            if isinstance(node, Decision):
                for follower in (node.zero, node.one):
                    if follower not in found:
                        found[follower] = None
                        queue.append(follower)
        return queue

    def _number(self, node: Leaf | Decision) -> int:
        """The number of a node."""
        if node not in self._numbers:
            self._numbers[node] = len(self.nodes)
            self.nodes.append(node)
        return self._numbers[node]

    def _decide(self, bit: int, zero: int, one: int) -> int:
        """The function that reads a bit first."""
        return zero if zero == one else self._number(Decision(bit, zero, one))

    def _bit_of(self, number: int) -> int:
        """The bit that a node reads; -1 for a leaf."""
        node = self.nodes[number]
        return node.bit if isinstance(node, Decision) else -1

    def _follow(self, number: int, bit: int, value: int) -> int:
        """A function where a bit, which no node above it reads, has that value."""
        node = self.nodes[number]
        if isinstance(node, Decision) and node.bit == bit:
            return node.one if value else node.zero
        return number
