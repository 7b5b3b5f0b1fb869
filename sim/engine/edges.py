"""Generates C++ for the effects of clock edges."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sim.engine.effects import Check, Effects
from sim.engine.expressions import Expressions
from sim.engine.graph import WORD, Slice, StateWord
from sim.engine.internals import SyncPrint, SyncProperty, SyncWritePort
from sim.engine.lower import Lowering
from sim.engine.registers import Word

__all__ = ["Edge", "Edges"]

_REGISTERS = 32
"""Limit of register words whose next values one function computes."""


@dataclass
class Edge:
    """An edge of one clock.

    Attributes:
        level: The level after the edge.
        clock: Place of the word with the clock, and the clock's bit in it.
        registers: For each function, the registers that it computes: places and the nodes of their
            next values.
        ports: Statements of memory ports and checks.
    """

    level: int
    clock: tuple[int, int]
    registers: list[Sequence[Word]] = field(default_factory=list)
    ports: list[str] = field(default_factory=list)


class Edges:
    """Groups the effects by clock and module.

    Attributes:
        checks: Statements of checks without a clock.
    """

    def __init__(
        self, netlist: Any, lowering: Lowering, effects: Effects, expressions: Expressions
    ) -> None:
        self._cells, self._lowering = netlist.cells, lowering
        self._expressions, self._text = expressions, expressions.text
        self._edges: dict[tuple[Any, str], Edge] = {}
        self.checks: list[str] = []
        found: dict[tuple[Any, str, int], list[Word]] = defaultdict(list)
        for one in effects.nexts:
            found[one.cell.clk, one.cell.clk_edge, one.cell.module_idx].append(
                (one.place, one.node)
            )
        for (clock, edge, _), words in sorted(
            found.items(), key=lambda item: (int(item[0][0]), item[0][1:])
        ):
            for first in range(0, len(words), _REGISTERS):
                self._edge(clock, edge).registers.append(words[first : first + _REGISTERS])
        for port in effects.ports:
            line = (
                self._write_port(port.cell, port.nodes)
                if isinstance(port.cell, SyncWritePort)
                else self._read_port(port.number, port.cell, port.nodes)
            )
            self._edge(port.cell.clk, port.cell.clk_edge).ports.append(line)
        for number, check in enumerate(effects.checks):
            line = self._check(number, check)
            if isinstance(check.cell, (SyncPrint, SyncProperty)):
                self._edge(check.cell.clk, check.cell.clk_edge).ports.append(line)
            else:
                self.checks.append(line)
        self.edges = list(self._edges.values())

    def _edge(self, clock: Any, edge: str) -> Edge:
        key = clock, edge
        if key not in self._edges:
            graph, shift = self._lowering.graph, 0
            node = graph.nodes[self._lowering.bit(clock)]
            if isinstance(node, Slice):
                node, shift = graph.nodes[node.source], node.shift
            assert isinstance(node, StateWord), "a clock is an input"
            self._edges[key] = Edge(int(edge == "pos"), (node.place, shift))
        return self._edges[key]

    def _write_port(self, cell: Any, nodes: Sequence[int]) -> str:
        memory = self._lowering.memories[cell.memory]
        words, lines = len(memory.widths), []
        by_enable: dict[int, list[str]] = {}
        number = self._lowering.memory_number(cell.memory)
        for index, (data, enable) in enumerate(zip(nodes[1::2], nodes[2::2], strict=True)):
            place = f"{memory.base + index} + a" + (f" * {words}" if words > 1 else "")
            by_enable.setdefault(enable, []).append(
                f"s->store({place}, {self._text(data)}, e, {number});"
            )
        for enable, stores in by_enable.items():
            inside = self._expressions.inside(nodes[0], memory.depth)
            lines.append(
                f"if (const word e = {self._text(enable)}) {{ const word a = {self._text(nodes[0])}; "
                f"{f'if ({inside}) ' if inside else ''}{{ {' '.join(stores)} }} }}"
            )
        return " ".join(lines)

    def _read_port(self, number: int, cell: Any, nodes: Sequence[int]) -> str:
        lowering = self._lowering
        memory = lowering.memories[cell.memory]
        words = len(memory.widths)
        places = [place for place, (owner, _) in enumerate(lowering.states) if owner == number]
        lines = []
        for index in range(len(places)):
            read = f"{memory.base + index} + a" + (f" * {words}" if words > 1 else "")
            inside = self._expressions.inside(nodes[0], memory.depth)
            lines.append(
                f"word v{index} = {f'{inside} ? s->m[{read}] : 0' if inside else f's->m[{read}]'};"
            )
        at = 2
        for port in cell.transparent_for:
            writer = self._cells[port]
            count = -(-len(writer.data) // WORD)
            merges = []
            for index in range(count):
                data, enable = nodes[at + 1 + 2 * index], nodes[at + 2 + 2 * index]
                merges.append(
                    f"v{index} = (v{index} & ~(word){self._text(enable)}) | "
                    f"({self._text(data)} & {self._text(enable)});"
                )
            lines.append(f"if ({self._text(nodes[at])} == a) {{ {' '.join(merges)} }}")
            at += 1 + 2 * count
        lines += [f"s->next({place}, v{index});" for index, place in enumerate(places)]
        return f"if ({self._text(nodes[1])}) {{ const word a = {self._text(nodes[0])}; {' '.join(lines)} }}"

    def _check(self, number: int, check: Check) -> str:
        happens, *values = check.nodes
        text = "".join(f"s->events.push({self._text(node)}); " for node in values)
        return f"if ({self._text(happens)}) {{ s->events.push({number}); {text}}}"
