"""Nodes of a graph as expressions of C++."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from sim.engine.graph import WORD, Graph
from sim.engine.lower import MemoryWords

__all__ = ["Expressions"]

_TABLE = 256
"""Entries of a table of constants, at most."""


def _ones(width: int) -> str:
    return f"{(1 << width) - 1:#x}u" if width <= 32 else f"{(1 << width) - 1:#x}ull"


class Expressions:
    """Writes expressions.

    Parameters:
        place_of (mapping of int to int): Where nodes are that are kept.

    Attributes:
        local: Nodes that are variables of the function that is being written, by name.
    """

    def __init__(self, graph: Graph, memories: Mapping[int, MemoryWords], place_of: Mapping[int, int]) -> None:
        self._graph, self._memories, self._place_of = graph, memories, place_of
        self.local: dict[int, str] = {}

    def text(self, number: int) -> str:
        """The expression of a node."""
        if number in self.local:
            return self.local[number]
        if number in self._place_of:
            return f"w[{self._place_of[number]}]"
        return self.operation(number)

    def operation(self, number: int) -> str:
        """The expression of a node from its operands."""
        node = self._graph.nodes[number]
        name, width = node[0], node[1]
        mask = "" if width == WORD else f" & {_ones(width)}"
        text = self.text
        match name:
            case "const":
                return f"{node[2]:#x}ull" if node[2] >> 31 else f"{node[2]}u"
            case "slice":
                source = self._graph.width(node[2])
                shifted = f"({text(node[2])} >> {node[3]})" if node[3] else text(node[2])
                return shifted if node[3] + width == source else f"({shifted}{mask})"
            case "cat":
                parts = [text(part) if not at else f"((word){text(part)} << {at})" for part, at in node[2]]
                return f"({' | '.join(parts)})" if len(parts) > 1 else parts[0]
            case "rep":
                return f"(-(word){text(node[2])}{mask})"
            case "not":
                return f"({text(node[2])} ^ 1)" if width == 1 else f"(~(word){text(node[2])}{mask})"
            case "neg":
                return f"(-(word){text(node[2])}{mask})"
            case "and" | "or" | "xor":
                return f"({text(node[2])} {'&|^'[('and', 'or', 'xor').index(name)]} {text(node[3])})"
            case "add" | "sub" | "mul":
                operator = "+-*"[("add", "sub", "mul").index(name)]
                return f"(((word){text(node[2])} {operator} {text(node[3])}){mask})"
            case "eq":
                return f"(word)({text(node[2])} == {text(node[3])})"
            case "ult":
                return f"(word)({text(node[2])} < {text(node[3])})"
            case "slt":
                return f"(word)({self._signed(node[2])} < {self._signed(node[3])})"
            case "shl" | "shr":
                if self._bound(node[3]) < WORD:
                    return f"(((word){text(node[2])} {'<<' if name == 'shl' else '>>'} {text(node[3])}){mask})"
                return f"(shift_{'left' if name == 'shl' else 'right'}({text(node[2])}, {text(node[3])}){mask})"
            case "sar":
                return f"(shift_signed({self._signed(node[2])}, {text(node[3])}){mask})"
            case "udiv" | "umod":
                return f"{name}({text(node[2])}, {text(node[3])})"
            case "sdiv" | "smod":
                return f"({name}({self._signed(node[2])}, {self._signed(node[3])}){mask})"
            case "parity":
                return f"(word)__builtin_parityll({text(node[2])})"
            case "mux":
                return f"({text(node[2])} ? {text(node[3])} : {text(node[4])})"
            case "pick":
                return self._pick(node[2], node[3], width)
            case "read":
                memory = self._memories[node[2]]
                words = len(memory.widths)
                place = f"{memory.base + node[3]} + a" + (f" * {words}" if words > 1 else "")
                inside = self.inside(node[4], memory.depth)
                read = f"{inside} ? s->m[{place}] : 0" if inside else f"s->m[{place}]"
                return f"({{ const word a = {text(node[4])}; {read}; }})"
        raise AssertionError(name)

    def _pick(self, index: int, picks: Sequence[int], width: int) -> str:
        """One of several by number: bits of a constant, a table, or a switch."""
        last = (1 << self._graph.width(index)) - 1
        values = [value for pick in picks if (value := self._graph.value(pick)) is not None]
        if len(values) == len(picks) and last < _TABLE:
            values += values[-1:] * (last + 1 - len(values))
            if width * len(values) <= WORD:
                every = sum(value << number * width for number, value in enumerate(values))
                by = f" * {width}" if width > 1 else ""
                return f"(({every:#x}ull >> ({self.text(index)}{by})) & {_ones(width)})"
            kind = next(f"uint{bits}_t" for bits in (8, 16, 32, 64) if width <= bits)
            entries = ", ".join(f"{value:#x}" + ("ull" if width > 32 else "") for value in values)
            return f"({{ static const {kind} t[] = {{ {entries} }}; (word)t[{self.text(index)}]; }})"
        cases: dict[int, str] = defaultdict(str)
        for number, pick in enumerate(picks[:-1]):
            if pick != picks[-1]:
                cases[pick] += f"case {number}: "
        text = "".join(f"{labels}r = {self.text(pick)}; break; " for pick, labels in cases.items())
        return f"({{ word r; switch ({self.text(index)}) {{ {text}default: r = {self.text(picks[-1])}; }} r; }})"

    def inside(self, address: int, depth: int) -> str:
        """Whether the address ``a`` of a memory is inside; empty when it always is."""
        return f"a < {depth}" if self._bound(address) >= depth else ""

    def _bound(self, number: int) -> int:
        """A number that a node is never greater than."""
        node = self._graph.nodes[number]
        match node[0]:
            case "const":
                return node[2]
            case "cat" if len(node[2]) == 1:
                (part, at), = node[2]
                return self._bound(part) << at
            case "mul" if self._graph.value(node[3]) is not None:
                return self._bound(node[2]) * self._graph.nodes[node[3]][2]
        return (1 << node[1]) - 1

    def _signed(self, number: int) -> str:
        shift = WORD - self._graph.width(number)
        return f"((int64_t)((word){self.text(number)} << {shift}) >> {shift})"
