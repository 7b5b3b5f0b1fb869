"""From a graph of words to C++: the functions of all clusters, and the tables by which the runtime finds them."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from sim.engine.edges import Edges
from sim.engine.effects import Effects
from sim.engine.errors import FineLoopError
from sim.engine.expressions import Expressions
from sim.engine.graph import WORD, Graph
from sim.engine.internals import FlipFlop
from sim.engine.lower import Lowering
from sim.engine.parts import Part
from sim.engine.program import Program
from sim.engine.schedule import Cluster, Schedule

__all__ = ["emit"]

_UNIT = 400_000
"""Characters of a translation unit, about."""
_FEW = 4
"""So many clusters are woken one by one, more by a list."""


class _Emitter:
    """Writes the C++ of one netlist."""

    def __init__(self, netlist: Any, fine: set[int]) -> None:
        self.netlist = netlist
        self.lowering = lowering = Lowering(netlist, fine)
        self.graph: Graph = lowering.graph
        self._effects = effects = Effects(netlist, lowering)
        shown = [node for value in netlist.signals.values() for node, *_ in lowering.pieces(value)]
        lowering.claim(0)
        self.schedule = Schedule(self.graph, lowering.modules, effects.roots(), shown)
        self.place_of = {number: node[2] for number, node in enumerate(self.graph.nodes) if node[0] == "state"}
        for node in sorted(self.schedule.kept):
            self.place_of[node] = len(self.place_of)
        self.words = max(self.place_of.values(), default=0) + 1
        self._expressions = Expressions(self.graph, lowering.memories, self.place_of)
        self._edges = Edges(netlist, lowering, effects, self._expressions)
        self.units: list[str] = []

    def program(self) -> Program:
        """Everything."""
        self._functions()
        checks = self._effects.checks
        settles = bool(self._effects.resets or self._edges.checks) or any(not edge.level for edge in self._edges.edges)
        return Program(self.netlist, self.units, self.lowering, self.place_of, [check.cell for check in checks],
                       [check.values for check in checks], settles)

    def _functions(self) -> None:
        """All functions, in translation units, and the tables that join them."""
        schedule = self.schedule
        self._readers: dict[int, list[int]] = defaultdict(list)
        self._memory_readers: dict[int, list[int]] = defaultdict(list)
        count = len(schedule.clusters)
        for index, cluster in enumerate(schedule.clusters):
            self._note(index, cluster.reads, cluster.memories)
        state_nodes = {node[2]: number for number, node in enumerate(self.graph.nodes) if node[0] == "state"}
        for index, words in enumerate(self._edges.registers):
            reads = {state_nodes[place] for place, _ in words}
            memories: set[int] = set()
            for _, node in words:
                reads |= {node} if node in self.place_of else schedule.inputs(node)
                memories |= set() if node in self.place_of else schedule.memories(node)
            self._note(count + index, reads, memories)
        functions = [self._cluster(index, cluster, True) for index, cluster in enumerate(schedule.clusters)]
        functions += [self._registers(count + index, words) for index, words in enumerate(self._edges.registers)]
        functions += [self._cluster(count + len(self._edges.registers) + index, cluster, False)
                      for index, cluster in enumerate(schedule.looked_at)]
        unit: list[str] = []
        for function in functions:
            unit.append(function)
            if sum(map(len, unit)) > _UNIT:
                self.units.append("".join(unit))
                unit = []
        unit.append(self._tables(count, len(functions)))
        self.units.append("".join(unit))

    def _note(self, cluster: int, reads: Iterable[int], memories: Iterable[int]) -> None:
        for node in reads:
            self._readers[self.place_of[node]].append(cluster)
        for memory in memories:
            self._memory_readers[self.lowering.memory_number(memory)].append(cluster)

    def _wake(self, place: int, cluster: int) -> str:
        readers = sorted(set(self._readers.get(place, ())) - {cluster})
        if len(readers) > _FEW:
            return f"s->wake({place});"
        return "".join(f"d[{reader}] = " for reader in readers) + "1;" if readers else ""

    def _cluster(self, index: int, cluster: Cluster, wakes: bool) -> str:
        """The function that computes a cluster."""
        lines: list[str] = []
        for node in cluster.nodes:
            place, name = self.place_of[node], f"t{node}"
            lines.append(f"    const word {name} = {self._expressions.operation(node)};")
            wake = self._wake(place, index) if wakes else ""
            lines.append(f"    if ({name} != w[{place}]) {{ w[{place}] = {name}; {wake} }}" if wake
                         else f"    w[{place}] = {name};")
            self._expressions.local[node] = name
        self._expressions.local.clear()
        body = "\n".join(lines)
        return f"void c{index}(model *s) {{\n    word *const w = s->w; flag *const d = s->d; (void)d;\n{body}\n}}\n"

    def _registers(self, index: int, words: Sequence[tuple[int, int]]) -> str:
        """The function that finds the next values of some registers."""
        lines = [f"    s->next({place}, {self._expressions.text(node)});" for place, node in words]
        body = "\n".join(lines)
        return f"void c{index}(model *s) {{\n    word *const w = s->w; (void)w;\n{body}\n}}\n"

    def _tables(self, count: int, functions: int) -> str:
        """What the runtime reads of a design."""
        lowering, registers = self.lowering, len(self._edges.registers)
        lines = [f"void c{index}(model *s);" for index in range(functions)]
        lines.append(f"static function *const table[] = {{ {', '.join(f'c{index}' for index in range(functions))} }};")
        starts, readers = [0], []
        for place in range(self.words):
            readers += sorted(set(self._readers.get(place, ())))
            starts.append(len(readers))
        lines += [_array("uint32_t", "reader_starts", starts), _array("uint32_t", "readers", readers)]
        memory_starts, memory_readers = [0], []
        for memory in range(len(lowering.memories)):
            memory_readers += sorted(set(self._memory_readers.get(memory, ())))
            memory_starts.append(len(memory_readers))
        lines += [_array("uint32_t", "memory_starts", memory_starts),
                  _array("uint32_t", "memory_readers", memory_readers)]
        inits = [(place, self._init(number, part)) for place, (number, part) in enumerate(lowering.states)]
        inits = [(place, value) for place, value in inits if value]
        lines += [_array("uint32_t", "init_places", [place for place, _ in inits]),
                  _array("uint64_t", "init_values", [value for _, value in inits])]
        inputs = [place for place, (number, _) in enumerate(lowering.states) if number == 0]
        lines.append(_array("uint32_t", "input_places", inputs))
        rows = [(memory.base + row * len(memory.widths) + index, value >> index * WORD & (1 << WORD) - 1)
                for memory in lowering.memories.values() for row, value in enumerate(memory.init)
                for index in range(len(memory.widths))]
        rows = [(place, value) for place, value in rows if value]
        lines += [_array("uint32_t", "row_places", [place for place, _ in rows]),
                  _array("uint64_t", "row_values", [value for _, value in rows])]
        edges = []
        for number, edge in enumerate(self._edges.edges):
            body = "\n".join(f"    {line}" for line in edge.ports)
            lines.append(f"static void ports{number}(model *s) {{\n    word *const w = s->w; (void)w;\n{body}\n}}")
            lines.append(_array("uint32_t", f"registers{number}", [count + index for index in edge.clusters]))
            edges.append(f"{{ {edge.clock[0]}, {edge.clock[1]}, {edge.level}, registers{number}, "
                         f"{len(edge.clusters)}, ports{number} }}")
        lines.append(f"static const edge edges[] = {{ {', '.join(edges) or '{}'} }};")
        checks = "\n".join(f"    {line}" for line in self._edges.checks)
        lines.append(f"static void comb_checks(model *s) {{\n    word *const w = s->w; (void)w;\n{checks}\n}}")
        text = self._expressions.text
        resets = "\n".join(f"    if ({text(one.node)}) changed |= s->force({one.place}, {one.init:#x}ull);"
                           for one in self._effects.resets)
        lines.append("static bool resets(model *s) {\n    word *const w = s->w; (void)w; bool changed = false;\n"
                     f"{resets}\n    return changed;\n}}")
        lines.append(f"enum {{ WORDS = {self.words}, MEMORY_WORDS = {lowering.memory_words}, CLUSTERS = {count}, "
                     f"REGISTER_CLUSTERS = {registers}, LOOKED_AT = {functions - count - registers}, "
                     f"EDGES = {len(edges)}, INPUTS = {len(inputs)}, INITS = {len(inits)}, ROWS = {len(rows)} }};")
        lines.append('#include "runtime.cc"')
        return "\n".join(lines) + "\n"

    def _init(self, number: int, part: Part) -> int:
        cell = self.netlist.cells[number]
        return cell.init >> part.start & (1 << part.width) - 1 if isinstance(cell, FlipFlop) else 0


def _array(kind: str, name: str, values: Sequence[int]) -> str:
    suffix = "ull" if kind == "uint64_t" else ""
    return f"static const {kind} {name}[] = {{ {', '.join(f'{value}{suffix}' for value in values) or '0'} }};"


def emit(netlist: Any) -> Program:
    """The C++ of a netlist. EngineError for what it can't say."""
    fine: set[int] = set()
    while True:
        try:
            return _Emitter(netlist, fine).program()
        except FineLoopError as loop:
            fine |= loop.cells
