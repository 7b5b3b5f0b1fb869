"""Packs bits that are computed alike and lie side by side into one word.

Designs compute words bit by bit or field by field: the enables of a row of registers, the fields of
a struct that are assigned under one condition, a decoder's outputs. As a concatenation each bit
costs its own operation, a shift and an OR; packed, all of them cost one operation. Together with
the bit moves of :mod:`~sim.engine.expressions` this saves 9 % of the instructions of a cycle of
preset default.

Three rules, each applied to the parts of a concatenation:

- ``{x == 2, x == 1, x == 0}`` is ``1 << x``;
- ``{c ? a : b, c & d}`` is ``c ? {a, d} : {b, 0}``;
- ``{x[1] & y[5], x[0] & y[4]}`` is ``x[1:0] & y[5:4]``; likewise OR, XOR and NOT.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from sim.engine.nodes import WORD, Binary, Cat, Mux, Node, Slice, Unary

__all__ = ["packed"]

_Part = tuple[int, int]
"""A node and its first bit."""
_Choices = dict[int, tuple[int, int]]
"""Conditions that select a node's value: the value where each condition is 1, and where it is 0."""

_DECODED = 3
"""Minimum number of comparisons with consecutive numbers that form a decoder."""
_COMBINED = 3
"""Minimum number of equal operations that are merged."""


class GraphBuilder(Protocol):
    """The interface of a :class:`~sim.engine.graph.Graph` that packing needs; the graph itself
    calls packing for its concatenations.
    """

    nodes: list[Node]

    def add(self, kind: str, width: int, *fields: Any) -> int: ...
    def width(self, number: int) -> int: ...
    def value(self, number: int) -> int | None: ...
    def const(self, width: int, value: int) -> int: ...
    def slice(self, number: int, shift: int, width: int) -> int: ...
    def cat(self, parts: Sequence[_Part], width: int) -> int: ...
    def invert(self, number: int) -> int: ...
    def mux(self, condition: int, one: int, other: int) -> int: ...
    def binary(self, name: str, a: int, b: int) -> int: ...


def packed(graph: GraphBuilder, parts: Sequence[_Part]) -> list[_Part]:
    """Returns the parts of a concatenation, with parts that are computed alike merged."""
    return _combined(graph, _chosen(graph, _decoded(graph, parts)))


def _runs(
    graph: GraphBuilder, parts: Sequence[_Part], alike: Sequence[object | None]
) -> Iterator[tuple[list[_Part], object | None]]:
    """Groups parts that follow each other without a gap and are alike; a part whose ``alike`` is
    None is alone.
    """
    run: list[_Part] = []
    kind: object | None = None
    for (node, at), one in zip(parts, alike, strict=True):
        if run and one is not None and one == kind and at == run[-1][1] + graph.width(run[-1][0]):
            run.append((node, at))
            continue
        if run:
            yield run, kind
        run, kind = [(node, at)], one
    if run:
        yield run, kind


def _decoded(graph: GraphBuilder, parts: Sequence[_Part]) -> list[_Part]:
    """Merges comparisons of one value with consecutive numbers into a shift."""

    def compared(part: _Part) -> tuple[int, int] | None:
        """Returns the value, and the number with which bit 0 would compare it."""
        node, at = part
        what = graph.nodes[node]
        if not (isinstance(what, Binary) and what.kind == "eq"):
            return None
        number = graph.value(what.b)
        return None if number is None or number >= WORD else (what.a, number - at)

    found: list[_Part] = []
    for run, kind in _runs(graph, parts, [compared(part) for part in parts]):
        if kind is None or len(run) < _DECODED:
            found += run
            continue
        at, first = run[0][1], graph.nodes[run[0][0]]
        assert isinstance(first, Binary)
        low = graph.value(first.b) or 0
        end = low + len(run)
        if end > WORD:
            found += run
            continue
        shifted = graph.add("shl", end, graph.const(end, 1), first.a)
        found.append((graph.slice(shifted, low, len(run)), at))
    return found


def _choices(graph: GraphBuilder, node: int) -> _Choices:
    """Returns the conditions that select a node's value."""
    what = graph.nodes[node]
    match what:
        case Mux():
            return {what.condition: (what.if_true, what.if_false)}
        case Binary(kind="and" | "or", width=1):
            decided = graph.const(1, int(what.kind == "or"))
            found: _Choices = {}
            for condition, rest in ((what.a, what.b), (what.b, what.a)):
                inner = graph.nodes[condition]
                inverted = isinstance(inner, Unary) and inner.kind == "not"
                test = inner.operand if isinstance(inner, Unary) and inverted else condition
                decides = inverted == (what.kind == "or")
                found[test] = (rest, decided) if decides else (decided, rest)
            return found
    return {}


def _chosen(graph: GraphBuilder, parts: Sequence[_Part]) -> list[_Part]:
    """Merges parts that one condition selects into one selection between words. Gaps between them
    are 0 either way.
    """
    found: list[_Part] = []
    at = 0
    choices = [_choices(graph, node) for node, _ in parts]
    while at < len(parts):
        common, end = set(choices[at]), at + 1
        while end < len(parts) and common & set(choices[end]):
            common &= set(choices[end])
            end += 1
        if end - at < 2:
            found.append(parts[at])
        else:
            condition, first, last = min(common), parts[at][1], parts[end - 1]
            width = last[1] + graph.width(last[0]) - first
            one, other = (
                graph.cat(
                    [
                        (choices[index][condition][side], parts[index][1] - first)
                        for index in range(at, end)
                    ],
                    width,
                )
                for side in (0, 1)
            )
            found.append((graph.mux(condition, one, other), first))
        at = end
    return found


def _combined(graph: GraphBuilder, parts: Sequence[_Part]) -> list[_Part]:
    """Merges equal operations on adjacent bits into one operation on words."""

    def operation(node: int) -> str | None:
        what = graph.nodes[node]
        logical = isinstance(what, Unary | Binary) and what.kind in ("not", "and", "or", "xor")
        return what.kind if logical else None

    found: list[_Part] = []
    for run, kind in _runs(graph, parts, [operation(node) for node, _ in parts]):
        word = None
        if kind == "not" and len(run) > 1:
            word = graph.invert(_side_by_side(graph, run, _operands(graph, run)[0]))
        elif isinstance(kind, str) and len(run) >= _COMBINED:
            word = _binary(graph, kind, run)
        found += run if word is None else [(word, run[0][1])]
    return found


def _binary(graph: GraphBuilder, kind: str, run: Sequence[_Part]) -> int | None:
    """Returns one operation for a run of binary ones; None if its operands would be no simpler than
    the run.
    """
    a, b = (_side_by_side(graph, run, operands) for operands in _operands(graph, run))
    if _pieces(graph, a) + _pieces(graph, b) > len(run) // 2 + 1:
        return None
    return graph.binary(kind, a, b)


def _operands(graph: GraphBuilder, run: Sequence[_Part]) -> list[list[int]]:
    """Returns the first and the second operands of a run of operations. The operands of an
    operation are swapped if they then resemble those of the previous operation more.
    """
    first: list[int] = []
    second: list[int] = []
    for node, at in run:
        what = graph.nodes[node]
        if isinstance(what, Unary):
            first.append(what.operand)
            continue
        assert isinstance(what, Binary)
        a, b = what.a, what.b
        if first:
            before = run[len(first) - 1][1]

            def like(one: int, other: int, at: int = at, before: int = before) -> int:
                return _likeness(graph, one, other, at - before)

            if like(first[-1], b) + like(second[-1], a) > like(first[-1], a) + like(second[-1], b):
                a, b = b, a
        first.append(a)
        second.append(b)
    return [first, second]


def _likeness(graph: GraphBuilder, one: int, other: int, distance: int) -> int:
    """Returns a score of how likely two nodes are bits of one word at this distance."""
    if one == other:
        return 3
    a, b = graph.nodes[one], graph.nodes[other]
    if isinstance(a, Slice) and isinstance(b, Slice) and a.source == b.source:
        return 3 if b.shift - a.shift == distance else 2
    return int(a.kind == b.kind)


def _side_by_side(graph: GraphBuilder, run: Sequence[_Part], nodes: Sequence[int]) -> int:
    """Returns the operands of a run as one word."""
    first = run[0][1]
    last, at = run[-1]
    parts = [(node, start - first) for node, (_, start) in zip(nodes, run, strict=True)]
    return graph.cat(parts, at + graph.width(last) - first)


def _pieces(graph: GraphBuilder, node: int) -> int:
    """Returns the number of parts that a node adds to a concatenation."""
    what = graph.nodes[node]
    return len(what.parts) if isinstance(what, Cat) else 1
