"""Decision diagrams: functions of a word as nodes, each of which looks at one bit of it."""

from collections.abc import Collection, Hashable, Mapping
from typing import Any

__all__ = ["Diagram"]


class Diagram:
    """Nodes by their numbers. A node is a leaf with a value, or looks at a bit, on each way at the highest one first.
    Nodes that are alike are one, so that a function has one number.

    Attributes
    ----------
    nodes : list
        A leaf's value, or of another node the bit, and what follows if that is 0, and 1.
    """

    def __init__(self) -> None:
        self.nodes: list[tuple[Any] | tuple[int, int, int]] = []
        self._numbers: dict[Hashable, int] = {}
        self._chosen: dict[tuple[int, int, int], int] = {}
        self._no, self._yes = self.leaf(False), self.leaf(True)

    def leaf(self, value: Hashable) -> int:
        """A function that always has that value."""
        return self._number((value,))

    def where(self, bits: Mapping[int, int]) -> int:
        """Whether these bits of the word are so."""
        node = self._yes
        for bit, value in sorted(bits.items()):
            node = self._test(bit, *((self._no, node) if value else (node, self._no)))
        return node

    def among(self, bits: Collection[int], codes: Collection[int]) -> int:
        """Whether these bits, the lowest one of a code first, are one of the codes."""
        places = sorted(enumerate(bits), key=lambda place: -place[1])

        def build(depth: int, left: list[int]) -> int:
            if not left or depth == len(places):
                return self._yes if left else self._no
            place, bit = places[depth]
            return self._test(bit, *(build(depth + 1, [code for code in left if code >> place & 1 == value])
                                     for value in (0, 1)))

        return build(0, list(codes))

    def choose(self, condition: int, yes: int, no: int) -> int:
        """One function where a condition holds, and another one elsewhere."""
        if condition in (self._yes, self._no) or yes == no:
            return no if condition == self._no else yes
        key = condition, yes, no
        if key not in self._chosen:
            bit = max(self._bit(node) for node in key)
            self._chosen[key] = self._test(bit, *(
                self.choose(*(self._behind(node, bit, value) for node in key)) for value in (0, 1)))
        return self._chosen[key]

    def reached(self, root: int) -> list[int]:
        """The nodes of a function, itself first."""
        found = {root: None}
        queue = [root]
        for node in queue:
            if self._bit(node) >= 0:
                more = [each for each in self.nodes[node][1:] if each not in found]
                found |= dict.fromkeys(more)
                queue += dict.fromkeys(more)
        return queue

    def _number(self, node: tuple[Any] | tuple[int, int, int]) -> int:
        if node not in self._numbers:
            self._numbers[node] = len(self.nodes)
            self.nodes.append(node)
        return self._numbers[node]

    def _test(self, bit: int, zero: int, one: int) -> int:
        return zero if zero == one else self._number((bit, zero, one))

    def _bit(self, node: int) -> int:
        """What a node looks at; -1 for a leaf."""
        content = self.nodes[node]
        return content[0] if len(content) == 3 else -1

    def _behind(self, node: int, bit: int, value: int) -> int:
        """What a function is where a bit, at which nothing above it looks, has that value."""
        content = self.nodes[node]
        return content[1 + value] if len(content) == 3 and content[0] == bit else node
