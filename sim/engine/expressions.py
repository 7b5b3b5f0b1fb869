"""Generates C++ expressions of nodes."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from sim.engine.graph import WORD, Binary, Cat, Const, Graph, Mux, Pick, Read, Rep, Slice, Unary
from sim.engine.lower import MemoryWords

__all__ = ["Expressions"]

_TABLE = 256
"""Limit of the entries of a table of constants."""
_REVERSED = 6
"""Minimum number of bits in descending order that are moved by a word reversal."""
_SPREAD = 3
"""Minimum number of equally spaced bits that are moved by a multiplication."""
_OPERATORS = {
    "and": "&",
    "or": "|",
    "xor": "^",
    "add": "+",
    "sub": "-",
    "mul": "*",
    "eq": "==",
    "ult": "<",
    "shl": "<<",
    "shr": ">>",
}
"""The C++ operators of binary nodes, by the kind of node."""


def _ones(width: int) -> str:
    return f"{(1 << width) - 1:#x}u" if width <= 32 else f"{(1 << width) - 1:#x}ull"


class Expressions:
    """Writes expressions.

    Parameters:
        place_of (mapping of int to int): Places of stored nodes.

    Attributes:
        local: Names of the nodes that are local variables of the current function.
    """

    def __init__(
        self, graph: Graph, memories: Mapping[int, MemoryWords], place_of: Mapping[int, int]
    ) -> None:
        self._graph, self._memories, self._place_of = graph, memories, place_of
        self.local: dict[int, str] = {}

    def text(self, number: int) -> str:
        """Returns the expression of a node: a variable, a stored word, or the operation."""
        if number in self.local:
            return self.local[number]
        if number in self._place_of:
            return f"w[{self._place_of[number]}]"
        return self.operation(number)

    def operation(self, number: int) -> str:
        """Returns the operation of a node on its operands."""
        node = self._graph.nodes[number]
        width = node.width
        mask = "" if width == WORD else f" & {_ones(width)}"
        text = self.text
        match node:
            case Const():
                return f"{node.value:#x}ull" if node.value >> 31 else f"{node.value}u"
            case Slice():
                source = self._graph.width(node.source)
                shifted = (
                    f"({text(node.source)} >> {node.shift})" if node.shift else text(node.source)
                )
                return shifted if node.shift + width == source else f"({shifted}{mask})"
            case Cat():
                parts = [
                    word if not at else f"((word){word} << {at})"
                    for word, at in self._gathered(node.parts)
                ]
                return f"({' | '.join(parts)})" if len(parts) > 1 else parts[0]
            case Rep():
                return f"(-(word){text(node.bit)}{mask})"
            case Unary(kind="not"):
                return (
                    f"({text(node.operand)} ^ 1)"
                    if width == 1
                    else f"(~(word){text(node.operand)}{mask})"
                )
            case Unary(kind="neg"):
                return f"(-(word){text(node.operand)}{mask})"
            case Unary():
                return f"(word)__builtin_parityll({text(node.operand)})"
            case Binary():
                return self._binary(node, mask)
            case Mux():
                return f"({text(node.condition)} ? {text(node.if_true)} : {text(node.if_false)})"
            case Pick():
                return self._pick(node.index, node.picks, width)
            case Read():
                memory = self._memories[node.memory]
                words = len(memory.widths)
                place = f"{memory.base + node.word} + a" + (f" * {words}" if words > 1 else "")
                inside = self.inside(node.row, memory.depth)
                read = f"{inside} ? s->m[{place}] : 0" if inside else f"s->m[{place}]"
                return f"({{ const word a = {text(node.row)}; {read}; }})"
        raise AssertionError(node.kind)

    def _binary(self, node: Binary, mask: str) -> str:
        """Returns an operation of two nodes; ``mask`` cuts it to its width."""
        a, b = node.a, node.b
        match node.kind:
            case "and" | "or" | "xor":
                return f"({self.text(a)} {_OPERATORS[node.kind]} {self.text(b)})"
            case "add" | "sub" | "mul":
                return f"(((word){self.text(a)} {_OPERATORS[node.kind]} {self.text(b)}){mask})"
            case "eq" if self._graph.value(b) == 0 and self._is_bits(a):
                return self._none(a)
            case "eq" | "ult":
                return f"(word)({self.text(a)} {_OPERATORS[node.kind]} {self.text(b)})"
            case "slt":
                return f"(word)({self._signed(a)} < {self._signed(b)})"
            case "shl" | "shr":
                if self._bound(b) < WORD:
                    return f"(((word){self.text(a)} {_OPERATORS[node.kind]} {self.text(b)}){mask})"
                name = "shift_left" if node.kind == "shl" else "shift_right"
                return f"({name}({self.text(a)}, {self.text(b)}){mask})"
            case "sar":
                return f"(shift_signed({self._signed(a)}, {self.text(b)}){mask})"
            case "udiv" | "umod":
                return f"{node.kind}({self.text(a)}, {self.text(b)})"
            case "sdiv" | "smod":
                return f"({node.kind}({self._signed(a)}, {self._signed(b)}){mask})"
        raise AssertionError(node.kind)

    def _gathered(self, parts: Sequence[tuple[int, int]]) -> Iterator[tuple[str, int]]:
        """Yields the expressions of the parts of a concatenation, with their first bits. Single
        bits of one word are combined:

        - Bits in descending order become a reversed word: 14 instructions instead of four a bit.
        - Bits at equal distances, such as the same field of all elements of an array, are gathered
          by a multiplication, if no two of its partial products overlap.
        """
        bits = [self._bit_of(part) for part, _ in parts]
        at = 0
        while at < len(parts):
            end, step = at + 1, 0
            while (
                end < len(parts)
                and (one := bits[end]) is not None
                and (before := bits[end - 1]) is not None
                and one[0] == before[0]
                and parts[end][1] == parts[end - 1][1] + 1
                and (step in (0, one[1] - before[1]))
            ):
                step = one[1] - before[1]
                end += 1
            first, count = bits[at], end - at
            if first is not None and step == -1 and count >= _REVERSED:
                source, shift = first
                reverse = f"(reversed({self.text(source)}) >> {WORD - 1 - shift})"
                yield f"({reverse} & {_ones(count)})", parts[at][1]
            elif first is not None and step > 1 and min(count, step) >= _SPREAD:
                count = min(count, step)
                end = at + count
                yield self._brought_together(*first, step, count), parts[at][1]
            else:
                end = at + 1
                yield self.text(parts[at][0]), parts[at][1]
            at = end

    def _bit_of(self, number: int) -> tuple[int, int] | None:
        """Returns the word and the bit index for a node that is one bit of a word; else None."""
        node = self._graph.nodes[number]
        return (node.source, node.shift) if isinstance(node, Slice) and node.width == 1 else None

    def _brought_together(self, source: int, shift: int, step: int, count: int) -> str:
        """Gathers ``count`` bits of a word, one in ``step`` from ``shift`` on, to adjacent bits.

        Bit i is multiplied by 2 to the power of ``(count - 1 - i) * (step - 1)``, among others. As
        ``count`` is not greater than ``step``, no two sums of a bit's position and a factor's
        exponent are equal.
        """
        mask = sum(1 << index * step for index in range(count))
        factor = sum(1 << index * (step - 1) for index in range(count))
        shifted = f"({self.text(source)} >> {shift})" if shift else self.text(source)
        product = f"((word)({shifted} & {mask:#x}ull) * {factor:#x}ull)"
        return f"(({product} >> {(count - 1) * (step - 1)}) & {_ones(count)})"

    def _is_bits(self, number: int) -> bool:
        """Whether a node is a concatenation of bits that is computed inside the expression."""
        node = self._graph.nodes[number]
        return (
            isinstance(node, Cat)
            and number not in self.local
            and number not in self._place_of
            and len(node.parts) > 1
        )

    def _none(self, number: int) -> str:
        """Returns a test whether all parts of a concatenation are 0, which needs no shifts."""
        node = self._graph.nodes[number]
        assert isinstance(node, Cat)
        return f"(word)!({' | '.join(self.text(part) for part, _ in node.parts)})"

    def _pick(self, index: int, picks: Sequence[int], width: int) -> str:
        """Returns a selection by index: bits of a constant, a table, or a switch."""
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
            return (
                f"({{ static const {kind} t[] = {{ {entries} }}; (word)t[{self.text(index)}]; }})"
            )
        cases: dict[int, str] = defaultdict(str)
        for number, pick in enumerate(picks[:-1]):
            if pick != picks[-1]:
                cases[pick] += f"case {number}: "
        text = "".join(f"{labels}r = {self.text(pick)}; break; " for pick, labels in cases.items())
        return f"({{ word r; switch ({self.text(index)}) {{ {text}default: r = {self.text(picks[-1])}; }} r; }})"

    def inside(self, address: int, depth: int) -> str:
        """Returns a test whether the address ``a`` is inside a memory; empty if it always is."""
        return f"a < {depth}" if self._bound(address) >= depth else ""

    def _bound(self, number: int) -> int:
        """Returns an upper bound of a node's value."""
        node = self._graph.nodes[number]
        match node:
            case Const():
                return node.value
            case Cat(parts=((part, at),)):
                return self._bound(part) << at
            case Binary(kind="mul") if (factor := self._graph.value(node.b)) is not None:
                return self._bound(node.a) * factor
        return (1 << node.width) - 1

    def _signed(self, number: int) -> str:
        shift = WORD - self._graph.width(number)
        return f"((int64_t)((word){self.text(number)} << {shift}) >> {shift})"
