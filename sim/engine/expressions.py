"""Nodes of a graph as expressions of C++."""

from collections.abc import Mapping

from sim.engine.graph import WORD, Graph
from sim.engine.lower import MemoryWords

__all__ = ["Expressions"]


def _ones(width: int) -> str:
    return f"{(1 << width) - 1:#x}u" if width <= 32 else f"{(1 << width) - 1:#x}ull"


class Expressions:
    """Writes expressions.

    Parameters
    ----------
    graph : Graph
    memories : mapping of int to MemoryWords
    place_of : mapping of int to int
        Where nodes are that are kept.

    Attributes
    ----------
    local : dict[int, str]
        Nodes that are variables of the function that is being written, by name.
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
                cases = "".join(f"case {index}: r = {text(pick)}; break; " for index, pick in enumerate(node[3][:-1]))
                return f"({{ word r; switch ({text(node[2])}) {{ {cases}default: r = {text(node[3][-1])}; }} r; }})"
            case "read":
                memory = self._memories[node[2]]
                words = len(memory.widths)
                place = f"{memory.base + node[3]} + a" + (f" * {words}" if words > 1 else "")
                return f"({{ const word a = {text(node[4])}; a < {memory.depth} ? s->m[{place}] : 0; }})"
        raise AssertionError(name)

    def _signed(self, number: int) -> str:
        shift = WORD - self._graph.width(number)
        return f"((int64_t)((word){self.text(number)} << {shift}) >> {shift})"
