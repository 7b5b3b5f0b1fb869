"""From a graph of words to C++."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sim.engine.errors import EngineError
from sim.engine.graph import WORD, Graph
from sim.engine.internals import (
    AsyncPrint,
    AsyncProperty,
    FlipFlop,
    SyncPrint,
    SyncProperty,
    SyncReadPort,
    SyncWritePort,
)
from sim.engine.lower import FineLoopError, Lowering, Part
from sim.engine.model import Field, MemoryField, Model
from sim.engine.schedule import Cluster, Schedule

__all__ = ["Program", "emit"]

_UNIT = 400_000
"""Characters of a translation unit, about."""
_FEW = 4
"""So many clusters are woken one by one, more by a list."""


@dataclass
class _Edge:
    """What happens at an edge of one clock: registers, memory ports, and checks, as C++."""

    level: int
    clock: tuple[int, int]
    clusters: list[int] = field(default_factory=list)
    ports: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Program:
    """A design as C++: ``units`` are translation units.

    ``place_of`` says for kept nodes where they are. ``messages`` are the prints and checks by number, ``events`` the
    words of their values. ``settles``: more than rising clock edges has an effect on what is kept.
    """

    netlist: Any
    units: list[str]
    lowering: Lowering
    place_of: dict[int, int]
    messages: list[Any]
    events: list[list[list[int]]]
    settles: bool

    def field(self, model: Model, nets: Sequence[Any]) -> Field:
        """Where a signal with these nets is."""
        graph, pieces, constant, combinational = self.lowering.graph, [], 0, False
        for node, shift, width, at in self.lowering.pieces(nets):
            if (value := graph.value(node)) is not None:
                constant |= (value >> shift & (1 << width) - 1) << at
            else:
                pieces.append((self.place_of[node], shift, width, at))
                combinational |= graph.nodes[node][0] != "state"
        return Field(model, pieces, constant, combinational)

    def memory(self, model: Model, path: Sequence[str]) -> MemoryField:
        """The memory with this hierarchical name."""
        for number, (index, memory) in enumerate(self.lowering.memories.items()):
            cell = self.netlist.cells[index]
            if (*self.netlist.modules[cell.module_idx].name[1:], cell.name) == tuple(path[1:]):
                return MemoryField(model, number, memory.base, len(memory.widths))
        raise EngineError(f"engine cxxrtl: there is no memory {'.'.join(path)} in the model")


def _ones(width: int) -> str:
    return f"{(1 << width) - 1:#x}u" if width <= 32 else f"{(1 << width) - 1:#x}ull"


class _Emitter:
    """Writes the C++ of one netlist."""

    def __init__(self, netlist: Any, fine: set[int]) -> None:
        self.netlist = netlist
        self.lowering = Lowering(netlist, fine)
        self.graph: Graph = self.lowering.graph
        self.messages: list[Any] = []
        self.events: list[list[list[int]]] = []
        self.units: list[str] = []
        self._local: dict[int, str] = {}

    def program(self) -> Program:
        """Everything."""
        lowering, graph = self.lowering, self.graph
        nexts, ports, checks, resets = self._roots()
        shown = [node for value in self.netlist.signals.values() for node, *_ in lowering.pieces(value)]
        roots = [node for _, _, node in nexts] + [node for _, nodes in ports for node in nodes]
        roots += [node for _, nodes, _ in checks for node in nodes] + [node for node, _, _ in resets]
        lowering._claim(0)
        self.schedule = schedule = Schedule(graph, lowering.modules, roots, shown)
        self.place_of = {number: node[2] for number, node in enumerate(graph.nodes) if node[0] == "state"}
        for node in sorted(schedule.kept):
            self.place_of[node] = len(self.place_of)
        self.words = max(self.place_of.values(), default=0) + 1
        self._edges(nexts, ports, checks, resets)
        self._functions()
        settles = bool(self.resets or self.comb_checks) or any(not edge.level for edge in self.edges.values())
        return Program(self.netlist, self.units, lowering, self.place_of, self.messages, self.events, settles)

    # What registers, memories and checks need.

    def _roots(self) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
        lowering, graph = self.lowering, self.graph
        cells = self.netlist.cells
        nexts, ports, checks, resets = [], [], [], []
        for place, (number, part) in enumerate(lowering.states):
            cell = cells[number]
            if isinstance(cell, FlipFlop):
                nexts.append((place, cell, lowering.word(cell.data[part.start:part.start + part.width])))
                lowering._claim(cell.module_idx)
                if not cell.arst.is_const:
                    resets.append((lowering.bit(cell.arst), place, cell.init >> part.start & (1 << part.width) - 1))
        for number, cell in enumerate(cells):
            if isinstance(cell, SyncWritePort):
                ports.append((number, self._write_nodes(cell)))
            elif isinstance(cell, SyncReadPort):
                nodes = [lowering.word(cell.addr), lowering.bit(cell.en)]
                for port in cell.transparent_for:
                    nodes += self._write_nodes(cells[port])
                ports.append((number, nodes))
            elif isinstance(cell, (SyncPrint, AsyncPrint, SyncProperty, AsyncProperty)):
                checks.append((cell, *self._check_nodes(cell)))
            lowering._claim(cell.module_idx)
        assert graph.nodes
        return nexts, ports, checks, resets

    def _write_nodes(self, cell: Any) -> list[int]:
        """Address, then data and enables, word by word."""
        lowering = self.lowering
        nodes = [lowering.word(cell.addr)]
        for low in range(0, len(cell.data), WORD):
            high = min(low + WORD, len(cell.data))
            nodes += [lowering.word(cell.data[low:high]), lowering.word(cell.en[low:high])]
        return nodes

    def _check_nodes(self, cell: Any) -> tuple[list[int], list[list[int]]]:
        """Whether it happens, then the values of its message; the same values, each as its words."""
        lowering, graph = self.lowering, self.graph
        happens = lowering.bit(cell.en)
        if isinstance(cell, (SyncProperty, AsyncProperty)):
            test = lowering.bit(cell.test)
            happens = graph.binary("and", happens, test if cell.kind == "cover" else graph.invert(test))
        chunks = cell.format.chunks if cell.format is not None else ()
        values = [[lowering.word(chunk.value[low:low + WORD]) for low in range(0, len(chunk.value), WORD)]
                  for chunk in chunks if not isinstance(chunk, str)]
        return [happens, *(node for value in values for node in value)], values

    # Expressions.

    def _text(self, number: int) -> str:
        """The expression of a node."""
        if number in self._local:
            return self._local[number]
        if number in self.place_of:
            return f"w[{self.place_of[number]}]"
        return self._operation(number)

    def _operation(self, number: int) -> str:
        """The expression of a node from its operands."""
        node = self.graph.nodes[number]
        name, width = node[0], node[1]
        mask = "" if width == WORD else f" & {_ones(width)}"
        text = self._text
        match name:
            case "const":
                return f"{node[2]:#x}ull" if node[2] >> 31 else f"{node[2]}u"
            case "slice":
                source = self.graph.width(node[2])
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
                memory = self.lowering.memories[node[2]]
                words = len(memory.widths)
                place = f"{memory.base + node[3]} + a" + (f" * {words}" if words > 1 else "")
                return f"({{ const word a = {text(node[4])}; a < {memory.depth} ? s->m[{place}] : 0; }})"
        raise AssertionError(name)

    def _signed(self, number: int) -> str:
        shift = WORD - self.graph.width(number)
        return f"((int64_t)((word){self._text(number)} << {shift}) >> {shift})"

    # Functions.

    def _edges(self, nexts: Sequence[Any], ports: Sequence[Any], checks: Sequence[Any], resets: Sequence[Any]) -> None:
        """Sorts what happens by clock and module."""
        self.edges: dict[tuple[Any, str], _Edge] = {}
        self.comb_checks: list[str] = []
        registers: dict[tuple[Any, str, int], list[tuple[int, int]]] = defaultdict(list)
        for place, cell, node in nexts:
            registers[cell.clk, cell.clk_edge, cell.module_idx].append((place, node))
        self.register_clusters: list[list[tuple[int, int]]] = []
        for (clock, edge, _), words in sorted(registers.items(), key=lambda item: (int(item[0][0]), item[0][1:])):
            for first in range(0, len(words), 100):
                self._edge(clock, edge).clusters.append(len(self.register_clusters))
                self.register_clusters.append(words[first:first + 100])
        self.resets = resets
        cells = self.netlist.cells
        for number, nodes in ports:
            cell = cells[number]
            line = (self._write_port(cell, nodes) if isinstance(cell, SyncWritePort)
                    else self._read_port(number, cell, nodes))
            self._edge(cell.clk, cell.clk_edge).ports.append(line)
        for cell, nodes, values in checks:
            number = len(self.messages)
            self.messages.append(cell)
            self.events.append(values)
            text = "".join(f"s->events.push_back({self._text(node)}); " for node in nodes[1:])
            line = f"if ({self._text(nodes[0])}) {{ s->events.push_back({number}); {text}}}"
            if isinstance(cell, (SyncPrint, SyncProperty)):
                self._edge(cell.clk, cell.clk_edge).ports.append(line)
            else:
                self.comb_checks.append(line)

    def _edge(self, clock: Any, edge: str) -> _Edge:
        key = clock, edge
        if key not in self.edges:
            node = self.graph.nodes[self.lowering.bit(clock)]
            place, shift = (node[2], 0) if node[0] == "state" else (self.graph.nodes[node[2]][2], node[3])
            self.edges[key] = _Edge(int(edge == "pos"), (place, shift))
        return self.edges[key]

    def _write_port(self, cell: Any, nodes: Sequence[int]) -> str:
        memory = self.lowering.memories[cell.memory]
        words, lines = len(memory.widths), []
        for index, (data, enable) in enumerate(zip(nodes[1::2], nodes[2::2], strict=True)):
            place = f"{memory.base + index} + a" + (f" * {words}" if words > 1 else "")
            lines.append(f"if (const word e = {self._text(enable)}) s->store({place}, {self._text(data)}, e, "
                         f"{self._memory_number(cell.memory)});")
        return f"{{ const word a = {self._text(nodes[0])}; if (a < {memory.depth}) {{ {' '.join(lines)} }} }}"

    def _memory_number(self, number: int) -> int:
        return list(self.lowering.memories).index(number)

    def _read_port(self, number: int, cell: Any, nodes: Sequence[int]) -> str:
        memory, lowering = self.lowering.memories[cell.memory], self.lowering
        words = len(memory.widths)
        places = [place for place, (owner, _) in enumerate(lowering.states) if owner == number]
        lines = []
        for index in range(len(places)):
            read = f"{memory.base + index} + a" + (f" * {words}" if words > 1 else "")
            lines.append(f"word v{index} = a < {memory.depth} ? s->m[{read}] : 0;")
        at = 2
        for port in cell.transparent_for:
            writer = self.netlist.cells[port]
            count = -(-len(writer.data) // WORD)
            merges = []
            for index in range(count):
                data, enable = nodes[at + 1 + 2 * index], nodes[at + 2 + 2 * index]
                merges.append(f"v{index} = (v{index} & ~(word){self._text(enable)}) | "
                              f"({self._text(data)} & {self._text(enable)});")
            lines.append(f"if ({self._text(nodes[at])} == a) {{ {' '.join(merges)} }}")
            at += 1 + 2 * count
        lines += [f"s->next({place}, v{index});" for index, place in enumerate(places)]
        return f"if ({self._text(nodes[1])}) {{ const word a = {self._text(nodes[0])}; {' '.join(lines)} }}"

    def _functions(self) -> None:
        """All functions, in translation units, and the tables that join them."""
        schedule = self.schedule
        self._readers: dict[int, list[int]] = defaultdict(list)
        self._memory_readers: dict[int, list[int]] = defaultdict(list)
        count = len(schedule.clusters)
        for index, cluster in enumerate(schedule.clusters):
            self._note(index, cluster.reads, cluster.memories)
        state_nodes = {node[2]: number for number, node in enumerate(self.graph.nodes) if node[0] == "state"}
        for index, words in enumerate(self.register_clusters):
            reads = {state_nodes[place] for place, _ in words}
            memories: set[int] = set()
            for _, node in words:
                reads |= {node} if node in self.place_of else schedule.inputs(node)
                memories |= set() if node in self.place_of else schedule.memories(node)
            self._note(count + index, reads, memories)
        functions = [self._cluster(index, cluster, True) for index, cluster in enumerate(schedule.clusters)]
        functions += [self._registers(count + index, words) for index, words in enumerate(self.register_clusters)]
        functions += [self._cluster(count + len(self.register_clusters) + index, cluster, False)
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
            self._memory_readers[self._memory_number(memory)].append(cluster)

    def _wake(self, place: int, cluster: int) -> str:
        readers = sorted(set(self._readers.get(place, ())) - {cluster})
        if len(readers) > _FEW:
            return f"s->wake({place});"
        return "".join(f"d[{reader}] = " for reader in readers) + "1;" if readers else ""

    def _cluster(self, index: int, cluster: Cluster, wakes: bool) -> str:
        """The function that computes a cluster."""
        lines, self._local = [], {}
        for node in cluster.nodes:
            place, name = self.place_of[node], f"t{node}"
            lines.append(f"    const word {name} = {self._operation(node)};")
            wake = self._wake(place, index) if wakes else ""
            lines.append(f"    if ({name} != w[{place}]) {{ w[{place}] = {name}; {wake} }}" if wake
                         else f"    w[{place}] = {name};")
            self._local[node] = name
        self._local = {}
        body = "\n".join(lines)
        return f"void c{index}(model *s) {{\n    word *const w = s->w; flag *const d = s->d; (void)d;\n{body}\n}}\n"

    def _registers(self, index: int, words: Sequence[tuple[int, int]]) -> str:
        """The function that finds the next values of some registers."""
        lines = [f"    s->next({place}, {self._text(node)});" for place, node in words]
        body = "\n".join(lines)
        return f"void c{index}(model *s) {{\n    word *const w = s->w; (void)w;\n{body}\n}}\n"

    def _tables(self, count: int, functions: int) -> str:
        """What the runtime reads of a design."""
        lowering, registers = self.lowering, len(self.register_clusters)
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
        for number, edge in enumerate(self.edges.values()):
            body = "\n".join(f"    {line}" for line in edge.ports)
            lines.append(f"static void ports{number}(model *s) {{\n    word *const w = s->w; (void)w;\n{body}\n}}")
            lines.append(_array("uint32_t", f"registers{number}", [count + index for index in edge.clusters]))
            edges.append(f"{{ {edge.clock[0]}, {edge.clock[1]}, {edge.level}, registers{number}, "
                         f"{len(edge.clusters)}, ports{number} }}")
        lines.append(f"static const edge edges[] = {{ {', '.join(edges) or '{}'} }};")
        checks = "\n".join(f"    {line}" for line in self.comb_checks)
        lines.append(f"static void comb_checks(model *s) {{\n    word *const w = s->w; (void)w;\n{checks}\n}}")
        resets = "\n".join(f"    if ({self._text(node)}) changed |= s->force({place}, {init:#x}ull);"
                           for node, place, init in self.resets)
        lines.append("static bool resets(model *s) {\n    word *const w = s->w; (void)w; bool changed = false;\n"
                     f"{resets}\n    return changed;\n}}")
        lines.append(f"enum {{ WORDS = {self.words}, MEMORY_WORDS = {lowering.memory_words}, CLUSTERS = {count}, "
                     f"REGISTER_CLUSTERS = {registers}, LOOKED_AT = {functions - count - registers}, "
                     f"EDGES = {len(self.edges)}, INPUTS = {len(inputs)}, INITS = {len(inits)}, ROWS = {len(rows)} }};")
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
