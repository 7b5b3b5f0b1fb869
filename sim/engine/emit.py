"""Generates C++ from a graph of words: the functions of all clusters, and the tables that the
runtime reads.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sim.engine.edges import Edges
from sim.engine.effects import Effects
from sim.engine.errors import FineLoopError
from sim.engine.expressions import Expressions
from sim.engine.graph import WORD, Graph, StateWord
from sim.engine.internals import FlipFlop
from sim.engine.lower import Lowering, OutputBits
from sim.engine.messages import Message
from sim.engine.program import TranslatedDesign, bits_by_node
from sim.engine.registers import Registers, Word, readers_first
from sim.engine.schedule import Cluster, Schedule
from sim.engine.wakes import FLAGS, Wakes
from sim.support.alignment import round_up

__all__ = ["Emitter", "emit"]

_UNIT = 400_000
"""Approximate limit of a translation unit, in characters."""


class Emitter:
    """Writes the C++ of one netlist."""

    def __init__(self, netlist: Any, fine: set[int]) -> None:
        self.netlist = netlist
        self.lowering = lowering = Lowering(netlist, fine)
        self.graph: Graph = lowering.graph
        self._effects = effects = Effects(netlist, lowering)
        shown = [
            bits.node
            for value in netlist.signals.values()
            for bits in bits_by_node(lowering, value)
        ]
        lowering.claim(0)
        self.schedule = Schedule(
            self.graph,
            lowering.modules,
            [one.node for one in effects.nexts],
            effects.roots(),
            shown,
        )
        self.place_of = {
            number: node.place
            for number, node in enumerate(self.graph.nodes)
            if isinstance(node, StateWord)
        }
        for node in sorted(self.schedule.placed):
            self.place_of[node] = len(self.place_of)
        self.words = max(self.place_of.values(), default=0) + 1
        self._expressions = Expressions(self.graph, lowering.memories, self.place_of)
        self._wakes = Wakes()
        self._found: dict[int, set[int]] = {}
        self._edges = Edges(netlist, lowering, effects, self._expressions)
        self.units: list[str] = []

    def program(self) -> TranslatedDesign:
        """Returns the complete program."""
        self._functions()
        checks = self._effects.checks
        settles = bool(self._effects.resets or self._edges.checks) or any(
            not edge.level for edge in self._edges.edges
        )
        messages = [
            Message.of(check.cell, [len(words) for words in check.values]) for check in checks
        ]
        return TranslatedDesign(
            self.netlist, self.units, self.lowering, self.place_of, messages, settles
        )

    def _functions(self) -> None:
        """Generates all functions, in translation units, and the tables that join them."""
        for edge in self._edges.edges:
            edge.registers = readers_first(edge.registers, self._sources)
        groups = [
            self.schedule.clusters,
            *(edge.registers for edge in self._edges.edges),
            self.schedule.looked_at,
        ]
        ranges: list[tuple[int, int]] = []
        end = 0
        for group in groups:
            first = round_up(end, FLAGS)
            end = first + len(group)
            ranges.append((first, end))
        numbered: dict[int, Cluster | Sequence[Word]] = {
            number: one
            for (first, _), group in zip(ranges, groups, strict=True)
            for number, one in enumerate(group, first)
        }
        inputs = {node for node, place in self.place_of.items() if self.lowering.is_input(place)}
        next_values = Registers(
            self.graph,
            self._expressions,
            self.place_of,
            self._wakes,
            self._sources,
            inputs,
            [part.width for _, part in self.lowering.states],
            self._note_readers(numbered),
        )
        unit: list[str] = []
        for number, one in numbered.items():
            body = (
                self._cluster(one)
                if isinstance(one, Cluster)
                else next_values.function(number, one)
            )
            unit.append(
                f"void c{number}(model *s) {{\n    word *const w = s->w; flags *const d = s->d; (void)d;\n"
                f"{body}\n}}\n"
            )
            if sum(map(len, unit)) > _UNIT:
                self.units.append("".join(unit))
                unit = []
        unit.append(self._tables(numbered, ranges))
        self.units.append("".join(unit))

    def _note_readers(self, numbered: Mapping[int, Cluster | Sequence[Word]]) -> set[int]:
        """Records the words and memories that each function reads.

        Returns:
            The places of registers that a function reads which runs after the function that changes
            them.
        """
        owners = {
            place: number
            for number, one in numbered.items()
            if not isinstance(one, Cluster)
            for place, _ in one
        }
        late = set(owners) if len(self._edges.edges) > 1 else set()
        for number, one in numbered.items():
            if isinstance(one, Cluster):
                reads, memories = one.reads, one.memories
            else:
                reads, memories = self.schedule.needs(node for _, node in one)
                late |= {
                    self.place_of[node]
                    for node in reads
                    if owners.get(self.place_of[node], number) < number
                }
                for place, _ in one:
                    self._wakes.note(number, place, -1)
            for node, bits in reads.items():
                self._wakes.note(number, self.place_of[node], bits)
            self._wakes.note_memories(number, map(self.lowering.memory_number, memories))
        return late

    def _sources(self, node: int) -> set[int]:
        """Returns the places that the expression of a node reads."""
        found = self._found.get(node)
        if found is None:
            found = self._found[node] = {self.place_of[one] for one in self.schedule.sources(node)}
        return found

    def _cluster(self, cluster: Cluster) -> str:
        """Returns the statements that compute a cluster."""
        placed = [node for node in cluster.nodes if node in self.place_of]
        changes = self._wakes.change_together(
            [(self.place_of[node], f"t{node}", self.graph.width(node)) for node in placed]
        )
        statement = dict(zip(placed, changes.statements, strict=True))
        lines = list(changes.declarations)
        for node in cluster.nodes:
            name = f"t{node}"
            lines.append(f"const word {name} = {self._expressions.operation(node)};")
            if node in statement:
                lines.append(statement[node])
            self._expressions.local[node] = name
        self._expressions.local.clear()
        return "\n".join(f"    {line}" for line in [*lines, *changes.wakes])

    def _tables(self, functions: Iterable[int], ranges: Sequence[tuple[int, int]]) -> str:
        """Returns the tables that the runtime reads.

        Functions are in consecutive ranges: those of clusters, those of registers for each edge,
        and those that are computed on access.
        """
        lowering = self.lowering
        lines = [f"void c{number}(model *s);" for number in functions]
        named = {number: f"c{number}" for number in functions}
        lines.append(
            "static function *const table[] = { "
            f"{', '.join(named.get(number, '0') for number in range(ranges[-1][1]))} }};"
        )
        lines.append(self._wakes.tables(self.words, len(lowering.memories)))
        lines += self._lookers(*ranges[-1])
        lines.append(
            "static const range ranges[] = { "
            f"{', '.join(f'{{ {first // FLAGS}, {end} }}' for first, end in ranges)} }};"
        )
        inits = self._initial_states()
        lines += [
            _array("uint32_t", "init_places", [place for place, _ in inits]),
            _array("uint64_t", "init_values", [value for _, value in inits]),
        ]
        inputs = [place for place, (number, _) in enumerate(lowering.states) if number == 0]
        lines.append(_array("uint32_t", "input_places", inputs))
        rows = self._initial_rows()
        lines += [
            _array("uint32_t", "row_places", [place for place, _ in rows]),
            _array("uint64_t", "row_values", [value for _, value in rows]),
        ]
        lines += self._edge_table()
        lines += self._checks_and_resets()
        falls = int(any(not edge.level for edge in self._edges.edges))
        lines.append(
            f"enum {{ WORDS = {self.words}, MEMORY_WORDS = {lowering.memory_words}, "
            f"FLAG_WORDS = {-(-ranges[-1][1] // FLAGS)}, EDGES = {len(self._edges.edges)}, FALLS = {falls}, "
            f"INPUTS = {len(inputs)}, INITS = {len(inits)}, ROWS = {len(rows)} }};"
        )
        lines.append('#include "runtime.cc"')
        return "\n".join(lines) + "\n"

    def _initial_states(self) -> list[tuple[int, int]]:
        """Places and initial values of the words of registers, without zeros."""
        inits = (
            (place, self._init(number, part))
            for place, (number, part) in enumerate(self.lowering.states)
        )
        return [(place, value) for place, value in inits if value]

    def _initial_rows(self) -> list[tuple[int, int]]:
        """Places and initial values of the words of memories, without zeros."""
        rows = (
            (
                memory.base + row * len(memory.widths) + index,
                value >> index * WORD & (1 << WORD) - 1,
            )
            for memory in self.lowering.memories.values()
            for row, value in enumerate(memory.init)
            for index in range(len(memory.widths))
        )
        return [(place, value) for place, value in rows if value]

    def _edge_table(self) -> list[str]:
        """The table of clock edges, and a function for the memory ports of each."""
        lines: list[str] = []
        edges: list[str] = []
        for number, edge in enumerate(self._edges.edges):
            body = "\n".join(f"    {line}" for line in edge.ports)
            lines.append(
                f"static void ports{number}(model *s) {{\n    word *const w = s->w; (void)w;\n{body}\n}}"
            )
            edges.append(f"{{ {edge.clock[0]}, {edge.clock[1]}, {edge.level}, ports{number} }}")
        lines.append(f"static const edge edges[] = {{ {', '.join(edges) or '{}'} }};")
        return lines

    def _checks_and_resets(self) -> list[str]:
        """The functions of checks and of asynchronous resets."""
        checks = "\n".join(f"    {line}" for line in self._edges.checks)
        text = self._expressions.text
        resets = "\n".join(
            f"    if ({text(one.node)}) changed |= s->force({one.place}, {one.init:#x}ull);"
            for one in self._effects.resets
        )
        return [
            f"static void comb_checks(model *s) {{\n    word *const w = s->w; (void)w;\n{checks}\n}}",
            "static bool resets(model *s) {\n    word *const w = s->w; (void)w; bool changed = false;\n"
            f"{resets}\n    return changed;\n}}",
        ]

    def _lookers(self, first: int, end: int) -> list[str]:
        """Returns the tables of words that are computed only on access: the function of each word,
        and all functions that this one needs, as flags of the range.
        """
        maker: dict[int, int] = {}
        needs: list[int] = []
        for number, cluster in enumerate(self.schedule.looked_at):
            needed = 1 << number
            for node in cluster.reads:
                needed |= needs[maker[node]] if node in maker else 0
            needs.append(needed)
            maker.update(dict.fromkeys(cluster.nodes, number))
        words = -(-(end - first) // FLAGS)
        makers = sorted(
            (self.place_of[node], number) for node, number in maker.items() if node in self.place_of
        )
        return [
            _array("uint32_t", "looked_places", [place for place, _ in makers]),
            _array("uint32_t", "looked_makers", [number for _, number in makers]),
            _array(
                "flags",
                "looked_needs",
                [
                    needed >> word * FLAGS & (1 << FLAGS) - 1
                    for needed in needs
                    for word in range(words)
                ],
            ),
            f"enum {{ LOOKED_WORDS = {words}, LOOKED_PLACES = {len(makers)} }};",
        ]

    def _init(self, number: int, part: OutputBits) -> int:
        cell = self.netlist.cells[number]
        return cell.init >> part.start & (1 << part.width) - 1 if isinstance(cell, FlipFlop) else 0


def _array(kind: str, name: str, values: Sequence[int]) -> str:
    suffix = "ull" if kind == "uint64_t" else ""
    return f"static const {kind} {name}[] = {{ {', '.join(f'{value}{suffix}' for value in values) or '0'} }};"


def emit(netlist: Any) -> TranslatedDesign:
    """Translates a netlist to C++; EngineError for constructs that are not supported."""
    fine: set[int] = set()
    while True:
        try:
            return Emitter(netlist, fine).program()
        except FineLoopError as loop:
            fine |= loop.cells
