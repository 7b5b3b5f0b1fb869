"""Operations on numbers of any width, represented as words of 64 bits."""

from collections.abc import Sequence

from sim.engine.errors import EngineError
from sim.engine.graph import WORD, Graph

__all__ = ["Bits", "WideArithmetic"]

Bits = tuple[tuple[int, int], ...]
"""A number of any width: graph nodes with their first bit positions, lowest first, without gaps."""
_HALF = WORD // 2


class WideArithmetic:
    """The arithmetic operators of a netlist, on numbers whose parts are whole words (except the
    last).
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def operate(self, operator: str, values: Sequence[Bits], widths: Sequence[int]) -> Bits:
        """Returns the operator's result, cut into words."""
        graph = self._graph
        x, width = [node for node, _ in values[0]], widths[0]
        y = [node for node, _ in values[1]] if len(values) > 1 else []
        match operator:
            case "b" | "r|":
                return self._one(graph.any_of([graph.invert(self._zero(node)) for node in x]))
            case "r&":
                return self._one(
                    graph.all_of(
                        [graph.binary("eq", node, graph.const(graph.width(node), -1)) for node in x]
                    )
                )
            case "r^":
                result = graph.const(1, 0)
                for node in x:
                    result = graph.binary("xor", result, graph.add("parity", 1, node))
                return self._one(result)
            case "==" | "!=":
                same = graph.all_of(
                    [graph.binary("eq", one, other) for one, other in zip(x, y, strict=True)]
                )
                return self._one(same if operator == "==" else graph.invert(same))
            case "-" if not y:
                return self._placed(
                    [graph.negate(x[0])]
                    if len(x) == 1
                    else self._sum(
                        [graph.invert(node) for node in x],
                        [graph.const(graph.width(node), 0) for node in x],
                        1,
                    )
                )
            case "+":
                return self._placed(
                    [graph.binary("add", x[0], y[0])] if len(x) == 1 else self._sum(x, y, 0)
                )
            case "-":
                return self._placed(
                    [graph.binary("sub", x[0], y[0])]
                    if len(x) == 1
                    else self._sum(x, [graph.invert(node) for node in y], 1)
                )
            case "*":
                return self._placed(
                    [graph.binary("mul", x[0], y[0])] if len(x) == 1 else self._product(x, y, width)
                )
            case "<<" | "u>>" | "s>>":
                return self._shift(operator, values[0], width, values[1], widths[1])
        if operator[:1] in "us" and operator[1:] in ("<", ">", "<=", ">="):
            return self._one(self._compare(operator, x, y))
        if operator in ("u//", "s//", "u%", "s%"):
            if len(x) > 1:
                raise EngineError(f"engine compiled: division of {width} bits")
            name = operator[0] + ("div" if operator[1:] == "//" else "mod")
            return self._placed([graph.add(name, width, x[0], y[0])])
        raise EngineError(f"engine compiled does not know operator {operator}")

    def _one(self, node: int) -> Bits:
        return ((node, 0),)

    def _placed(self, nodes: Sequence[int]) -> Bits:
        return tuple((node, index * WORD) for index, node in enumerate(nodes))

    def _zero(self, node: int) -> int:
        return self._graph.binary("eq", node, self._graph.const(self._graph.width(node), 0))

    def _sum(self, x: Sequence[int], y: Sequence[int], carry_in: int) -> list[int]:
        """Returns the sum x + y + carry, word by word."""
        graph, result = self._graph, []
        carry = graph.const(1, carry_in)
        for one, other in zip(x, y, strict=True):
            width = graph.width(one)
            total = graph.binary("add", one, other)
            full = graph.binary("add", total, graph.cat([(carry, 0)], width))
            result.append(full)
            carry = graph.binary(
                "or", graph.binary("ult", total, one), graph.binary("ult", full, total)
            )
        return result

    def _product(self, x: Sequence[int], y: Sequence[int], width: int) -> list[int]:
        """Returns the product x * y modulo 2**width, by halves of words."""
        graph = self._graph
        halves = -(-width // _HALF)

        def half(words: Sequence[int], index: int) -> int:
            word, high = divmod(index, 2)
            node = words[word]
            low, count = high * _HALF, min(_HALF, graph.width(node) - high * _HALF)
            return graph.cat([(graph.slice(node, low, count), 0)], WORD)

        total = [graph.const(min(WORD, width - at), 0) for at in range(0, width, WORD)]
        for i in range(halves):
            for j in range(halves - i):
                product = graph.binary("mul", half(x, i), half(y, j))
                total = self._sum(total, self._at(product, (i + j) * _HALF, width), 0)
        return total

    def _at(self, node: int, place: int, width: int) -> list[int]:
        """Returns a word shifted to its position in a number, as words."""
        graph, words = self._graph, []
        for low in range(0, width, WORD):
            count = min(WORD, width - low)
            first, end = max(place, low), min(place + WORD, low + count)
            words.append(
                graph.cat([(graph.slice(node, first - place, end - first), first - low)], count)
                if first < end
                else graph.const(count, 0)
            )
        return words

    def _compare(self, operator: str, x: Sequence[int], y: Sequence[int]) -> int:
        graph = self._graph
        if operator[1] == ">":
            x, y = y, x
        strict = operator[1:] in ("<", ">")
        if not strict:  # X <= y is: not y < x.
            x, y = y, x
        result = graph.const(1, 0)
        for index, (one, other) in enumerate(zip(x, y, strict=True)):
            name = "slt" if operator[0] == "s" and index == len(x) - 1 else "ult"
            less, same = graph.binary(name, one, other), graph.binary("eq", one, other)
            result = graph.binary("or", less, graph.binary("and", same, result))
        return result if strict else graph.invert(result)

    def _shift(
        self, operator: str, value: Bits, width: int, amount: Bits, amount_width: int
    ) -> Bits:
        graph = self._graph
        if len(value) == 1 and len(amount) == 1:
            name = {"<<": "shl", "u>>": "shr", "s>>": "sar"}[operator]
            distance = graph.cat([(amount[0][0], 0)], WORD)
            return ((graph.binary(name, value[0][0], distance), 0),)
        fill = (
            graph.slice(value[-1][0], graph.width(value[-1][0]) - 1, 1)
            if operator == "s>>"
            else graph.const(1, 0)
        )
        for bit in range(amount_width):
            node, at = amount[bit // WORD]
            condition = graph.slice(node, bit - at, 1)
            distance = min(1 << bit, width)
            moved = self._moved(value, width, distance if operator == "<<" else -distance, fill)
            value = tuple(
                (graph.mux(condition, one, other), place)
                for (one, place), (other, _) in zip(moved, value, strict=True)
            )
        return value

    def _moved(self, value: Bits, width: int, distance: int, fill: int) -> Bits:
        """Returns a number shifted left by a distance, or right by a negative one."""
        graph, result = self._graph, []
        for node, at in value:
            count = graph.width(node)
            parts = []
            for source, start in value:
                low, high = (
                    max(start + distance, at),
                    min(start + distance + graph.width(source), at + count),
                )
                if low < high:
                    parts.append(
                        (graph.slice(source, low - distance - start, high - low), low - at)
                    )
            missing = (
                (at, min(at + count, distance))
                if distance > 0
                else (max(at, width + distance), at + count)
            )
            if missing[0] < missing[1]:
                parts.append((graph.copies(fill, missing[1] - missing[0]), missing[0] - at))
            result.append((graph.cat(sorted(parts, key=lambda part: part[1]), count), at))
        return tuple(result)

    def select(
        self,
        value: Bits,
        width: int,
        signed: bool,
        offset: Bits,
        offset_width: int,
        count: int,
        stride: int,
    ) -> Bits:
        """Returns ``count`` bits of a value from ``offset * stride`` on; beyond its end zeros, or
        copies of its sign.
        """
        graph = self._graph
        fill = (
            graph.slice(value[-1][0], graph.width(value[-1][0]) - 1, 1)
            if signed
            else graph.const(1, 0)
        )
        index = offset[0][0] if offset else graph.const(1, 0)
        inside = graph.all_of([self._zero(node) for node, _ in offset[1:]])
        choices = -(-width // stride)
        if offset_width < choices.bit_length():
            choices = min(choices, 1 << offset_width)
        result = []
        for low in range(0, count, WORD):
            wanted = min(WORD, count - low)
            picks = tuple(
                self._extract(value, width, number * stride + low, wanted, fill)
                for number in range(choices)
            )
            beyond = graph.copies(fill, wanted)
            result.append(graph.mux(inside, graph.pick(index, (*picks, beyond)), beyond))
        return self._placed(result)

    def _extract(self, value: Bits, width: int, start: int, count: int, fill: int) -> int:
        graph, parts = self._graph, []
        for source, at in value:
            low, high = max(at, start), min(at + graph.width(source), start + count)
            if low < high:
                parts.append((graph.slice(source, low - at, high - low), low - start))
        if start + count > width:
            low = max(width, start)
            parts.append((graph.copies(fill, start + count - low), low - start))
        return graph.cat(sorted(parts, key=lambda part: part[1]), count)
