"""Generates C++ for the next values of registers.

A register is assigned its next value at once if no later computation at this edge reads the old
value; else the value is stored and assigned at the end of the edge.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

from sim.engine.expressions import Expressions
from sim.engine.graph import Binary, Graph, Mux, Unary
from sim.engine.wakes import Wakes

__all__ = ["Registers", "Word", "readers_first"]

Word = tuple[int, int]
"""The place of a stored word of a register, and the node of its next value."""
_SHARED = 3
"""Minimum number of words for which a common condition is tested once."""


def readers_first(
    functions: Sequence[Sequence[Word]], sources: Callable[[int], set[int]]
) -> list[Sequence[Word]]:
    """Orders functions so that, as far as possible, each precedes those that change what it reads."""
    owner = {place: number for number, words in enumerate(functions) for place, _ in words}
    waits: list[Counter[int]] = [
        Counter() for _ in functions
    ]  # By function: how often others read its words.
    reads: list[set[int]] = []
    for number, words in enumerate(functions):
        others = Counter(
            owner[place]
            for _, node in words
            for place in sources(node)
            if owner.get(place, number) != number
        )
        reads.append(set(others))
        for other, count in others.items():
            waits[other][number] = count
    left = dict.fromkeys(range(len(functions)))
    found = []
    while left:
        number = min(left, key=lambda one: waits[one].total())
        del left[number]
        found.append(functions[number])
        for other in reads[number]:
            del waits[other][number]
    return found


class Registers:
    """Generates functions that compute next values.

    Parameters:
        place_of (mapping of int to int): Places of stored nodes.
        sources (callable): Returns the places that the expression of a node reads.
        inputs (collection of int): Nodes of the design's inputs.
        widths (sequence of int): Widths by place.
        late (collection of int): Places whose old value may be read after the function that
            computes the new one.
    """

    def __init__(
        self,
        graph: Graph,
        expressions: Expressions,
        place_of: Mapping[int, int],
        wakes: Wakes,
        sources: Callable[[int], set[int]],
        inputs: Collection[int],
        widths: Sequence[int],
        late: Collection[int],
    ) -> None:
        self._graph, self._expressions, self._place_of, self._wakes = (
            graph,
            expressions,
            place_of,
            wakes,
        )
        self._sources, self._inputs, self._widths, self._late = sources, inputs, widths, late
        self._number = 0
        self._reads: dict[int, set[int]] = {}
        self._own: set[int] = set()

    def function(self, number: int, words: Sequence[Word]) -> str:
        """Returns the statements of a function."""
        words = [word for (word,) in readers_first([(word,) for word in words], self._sources)]
        self._number = number
        self._reads = {place: self._sources(node) for place, node in words}
        self._own.clear()
        self._own.update(*self._reads.values())
        return "\n".join(
            self._all(words, Counter(place for reads in self._reads.values() for place in reads), 1)
        )

    def _all(self, words: Sequence[Word], left: Counter[int], depth: int) -> list[str]:
        """Returns statements for words. ``left`` counts, by place, the words not yet computed that
        read it.
        """
        lines, indent = [], "    " * depth
        halves = {word: self._halves(word[1]) for word in words}
        common = Counter(half[0] for half in halves.values() if half is not None).most_common(1)
        condition = common[0][0] if common and common[0][1] >= _SHARED else None
        if condition is not None:
            ones, others, rest = [], [], []
            for word, half in halves.items():
                if half is None or half[0] != condition:
                    rest.append(word)
                else:
                    ones.append((word[0], half[1]))
                    others.append((word[0], half[2]))
            one, other = self._all(ones, left.copy(), depth + 1), self._all(others, left, depth + 1)
            test = self._expressions.text(condition)
            if one:
                lines += [
                    f"{indent}if ({test}) {{",
                    *one,
                    *([f"{indent}}} else {{", *other] if other else []),
                    f"{indent}}}",
                ]
            elif other:
                lines += [f"{indent}if (!{test}) {{", *other, f"{indent}}}"]
            return lines + self._all(rest, left, depth)
        for place, node in words:
            left.subtract(self._reads[place])
            if self._place_of.get(node) != place:
                lines.append(
                    indent
                    + self._statement(place, node, place not in self._late and left[place] <= 0)
                )
        return lines

    def _halves(self, node: int) -> tuple[int, int, int] | None:
        """Returns a condition that selects a node's value, and its values where that is 1 and 0;
        None if there is none.
        """
        what = self._graph.nodes[node]
        if node in self._place_of:
            return None
        match what:
            case Mux():
                return what.condition, what.if_true, what.if_false
            case Binary(kind="and"):
                for one, other in ((what.a, what.b), (what.b, what.a)):
                    inner = self._graph.nodes[one]
                    if (
                        isinstance(inner, Unary)
                        and inner.kind == "not"
                        and inner.operand in self._inputs
                    ):
                        return inner.operand, self._graph.const(what.width, 0), other
            case Binary(kind="or", width=1):
                for one, other in ((what.a, what.b), (what.b, what.a)):
                    if one in self._inputs:
                        return one, self._graph.const(1, 1), other
        return None

    def _statement(self, place: int, node: int, at_once: bool) -> str:
        """Returns the statement that computes the next value of one word."""
        text, what = self._expressions.text, self._graph.nodes[node]
        if isinstance(what, Mux) and node not in self._place_of:
            if self._place_of.get(what.if_false) == place:
                return (
                    f"if ({text(what.condition)}) {self._take(place, text(what.if_true), at_once)}"
                )
            if self._place_of.get(what.if_true) == place:
                return f"if (!{text(what.condition)}) {self._take(place, text(what.if_false), at_once)}"
        return self._take(place, text(node), at_once)

    def _take(self, place: int, value: str, at_once: bool) -> str:
        if not at_once:
            return f"s->next({place}, {value});"
        but = None if place in self._own else self._number
        return f"{{ const word v = {value}; {self._wakes.change(place, 'v', self._widths[place], but)} }}"
