"""Translates a netlist of cells to a graph of words."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from sim.engine.arithmetic import Bits, WideArithmetic
from sim.engine.errors import EngineError, FineLoopError
from sim.engine.graph import WORD, Graph
from sim.engine.internals import (
    AnyValue,
    AssignmentList,
    AsyncReadPort,
    FlipFlop,
    Initial,
    Matches,
    MemoryCell,
    Operation,
    PartSelect,
    PriorityMatch,
    SyncReadPort,
    Top,
)
from sim.engine.switches import Switches

__all__ = ["Lowering", "MemoryWords", "OutputBits", "concatenation_places", "split_output"]


_ARMS = 4
"""Minimum number of arms for which a switch becomes a selection by index."""


@dataclass(frozen=True)
class OutputBits:
    """A range of bits of a cell's output, from ``start`` on."""

    start: int
    width: int


@dataclass
class MemoryWords:
    """A memory: the widths of the words of a row, and the index of its first row in the array of
    all memories.
    """

    widths: tuple[int, ...]
    depth: int
    base: int
    init: tuple[int, ...]


@dataclass
class _Output:
    """A cell's output: its parts, and their nodes, which are made on demand."""

    starts: list[int]
    widths: list[int]
    nodes: list[int | None] = field(default_factory=list)


class Lowering:
    """Makes nodes for the cells of a netlist on demand. Cells in ``fine`` are split into single
    bits.

    Attributes:
        states: By place: the cell of a stored word, and the bits of its output.
        memories: Memories by the index of their cell.
        modules: By node: the first module that needed it.
    """

    def __init__(self, netlist: Any, fine: set[int]) -> None:
        self.graph = Graph()
        self._fine = fine
        self.states: list[tuple[int, OutputBits]] = []
        self.memories: dict[int, MemoryWords] = {}
        self.modules: list[int] = []
        self._cells = netlist.cells
        self._switches = Switches(netlist.cells)
        self._arithmetic = WideArithmetic(self.graph)
        self._outputs: dict[int, _Output] = {}
        self._working: dict[tuple[int, int], None] = {}
        self._makers: dict[type, Callable[[Any, OutputBits, int], int]] = {
            Operation: self._operation,
            PartSelect: self._part_select,
            AssignmentList: self._assignments,
            PriorityMatch: self._priority,
            Matches: self._matches,
            AsyncReadPort: self._read,
        }
        self._done: dict[int, Bits] = {}
        words = 0
        for number, cell in enumerate(self._cells):
            if isinstance(cell, MemoryCell):
                widths = tuple(min(WORD, cell.width - low) for low in range(0, cell.width, WORD))
                self.memories[number] = MemoryWords(widths, cell.depth, words, cell.init)
                words += len(widths) * cell.depth
        self.memory_words = words
        for number, cell in enumerate(self._cells):
            if isinstance(cell, (Top, FlipFlop, SyncReadPort, AnyValue, Initial)):
                self._keep(number, cell)

    def _keep(self, number: int, cell: Any) -> None:
        """Allocates places for the words that a cell stores."""
        if isinstance(cell, Top):
            parts = [
                OutputBits(start + low, min(WORD, width - low))
                for start, width in cell.ports_i.values()
                for low in range(0, width, WORD)
            ]
        elif isinstance(cell, FlipFlop):
            parts = split_output(len(cell.data), concatenation_places(cell.data))
        elif isinstance(cell, Initial):
            parts = [OutputBits(0, 1)]
        else:
            parts = split_output(cell.width, ())
        output = _Output([part.start for part in parts], [part.width for part in parts])
        for part in parts:
            output.nodes.append(
                self._node("state", part.width, len(self.states), module=cell.module_idx)
            )
            self.states.append((number, part))
        self._outputs[number] = output

    def _node(self, kind: str, width: int, *made_of: Any, module: int) -> int:
        number = self.graph.add(kind, width, *made_of)
        self.claim(module)
        return number

    def claim(self, module: int) -> None:
        """Assigns all new nodes to this module."""
        missing = len(self.graph.nodes) - len(self.modules)
        if missing > 0:
            self.modules += [module] * missing

    def is_input(self, place: int) -> bool:
        """Whether a stored word belongs to an input."""
        return place < len(self.states) and isinstance(self._cells[self.states[place][0]], Top)

    def memory_number(self, cell: int) -> int:
        """Returns the index of a memory's cell among all memories."""
        return list(self.memories).index(cell)

    # Values.

    def word(self, nets: Sequence[Any]) -> int:
        """Returns the node of a value of up to 64 bits."""
        graph, parts, at, count = self.graph, [], 0, len(nets)
        while at < count:
            net, end = nets[at], self.run_end(nets, at)
            if net.is_const:
                node = graph.const(
                    end - at, sum(bit.const << place for place, bit in enumerate(nets[at:end]))
                )
            else:
                start, _, whole = self._part(net.cell, net.bit)
                node = graph.slice(whole, net.bit - start, end - at)
            parts.append((node, at))
            at = end
        return graph.cat(parts, count)

    def bit(self, net: Any) -> int:
        """Returns the node of one net."""
        return self.word((net,))

    def bits(self, nets: Sequence[Any]) -> Bits:
        """Returns a value of any width, whole words first."""
        return tuple((self.word(nets[low : low + WORD]), low) for low in range(0, len(nets), WORD))

    def run_end(self, nets: Sequence[Any], at: int) -> int:
        """Returns the end of the run that begins at a position of a value: constants, or adjacent
        bits of one part of a cell.
        """
        net, end = nets[at], at + 1
        if net.is_const:
            while end < len(nets) and end - at < WORD and nets[end].is_const:
                end += 1
            return end
        start, width, _ = self._part(net.cell, net.bit)
        limit = min(len(nets), at + start + width - net.bit)
        while end < limit and nets[end] == net + (end - at):
            end += 1
        return end

    def _part(self, number: int, bit: int) -> tuple[int, int, int]:
        """Returns start, width and node of the part of a cell's output that contains a bit."""
        output = self._outputs.get(number)
        if output is None:
            cell = self._cells[number]
            parts = self._parts_of(number, cell)
            output = self._outputs[number] = _Output(
                [part.start for part in parts], [part.width for part in parts], [None] * len(parts)
            )
        index = bisect_right(output.starts, bit) - 1
        node = output.nodes[index]
        if node is None:
            key = number, index
            if key in self._working:
                working = list(self._working)
                raise FineLoopError({one for one, _ in working[working.index(key) :]} - self._fine)
            self._working[key] = None
            cell, part = self._cells[number], OutputBits(output.starts[index], output.widths[index])
            maker = self._makers.get(type(cell))
            if maker is None:
                raise EngineError(f"engine compiled does not simulate {type(cell).__name__}")
            node = output.nodes[index] = maker(cell, part, number)
            del self._working[key]
            self.claim(cell.module_idx)
        return output.starts[index], output.widths[index], node

    def _parts_of(self, number: int, cell: Any) -> list[OutputBits]:
        """Returns the parts into which a cell's output is split."""
        match cell:
            case AssignmentList() if number in self._fine:
                return [OutputBits(bit, 1) for bit in range(len(cell.default))]
            case Operation(operator="~" | "&" | "|" | "^" | "m") if number in self._fine:
                return [OutputBits(bit, 1) for bit in range(cell.width)]
            case Operation():
                if cell.operator in ("~", "&", "|", "^", "m"):
                    values = cell.inputs[1:] if cell.operator == "m" else cell.inputs
                    return split_output(
                        cell.width,
                        sorted({run for value in values for run in concatenation_places(value)}),
                    )
                return split_output(cell.width, ())
            case AssignmentList():
                marks = set(concatenation_places(cell.default))
                for assignment in cell.assignments:
                    marks |= {assignment.start, assignment.start + len(assignment.value)}
                    marks |= {
                        assignment.start + run for run in concatenation_places(assignment.value)
                    }
                firm = {
                    at for one in cell.assignments for at in (one.start, one.start + len(one.value))
                }
                return split_output(len(cell.default), sorted(marks), firm)
            case AsyncReadPort():
                return split_output(cell.width, ())
            case PriorityMatch():
                return [OutputBits(bit, 1) for bit in range(len(cell.inputs))]
            case Matches():
                return [OutputBits(0, 1)]
            case PartSelect():
                return split_output(cell.width, ())
        raise EngineError(
            f"engine compiled does not simulate {type(cell).__name__}, at {cell.src_loc}"
        )

    # Cells.

    def _operation(self, cell: Any, part: OutputBits, number: int) -> int:
        graph, operator, inputs = self.graph, cell.operator, cell.inputs
        low, high = part.start, part.start + part.width
        match operator:
            case "~":
                return graph.invert(self.word(inputs[0][low:high]))
            case "&" | "|" | "^":
                name = {"&": "and", "|": "or", "^": "xor"}[operator]
                return graph.binary(
                    name, self.word(inputs[0][low:high]), self.word(inputs[1][low:high])
                )
            case "m":
                return graph.mux(
                    self.bit(inputs[0][0]),
                    self.word(inputs[1][low:high]),
                    self.word(inputs[2][low:high]),
                )
        if number not in self._done:
            values = [self.bits(value) for value in inputs]
            self._done[number] = self._arithmetic.operate(
                operator, values, [len(value) for value in inputs]
            )
        return next(node for node, at in self._done[number] if at == part.start)

    def _part_select(self, cell: Any, part: OutputBits, number: int) -> int:
        if number not in self._done:
            self._done[number] = self._arithmetic.select(
                self.bits(cell.value),
                len(cell.value),
                cell.value_signed,
                self.bits(cell.offset),
                len(cell.offset),
                cell.width,
                cell.stride,
            )
        return next(node for node, at in self._done[number] if at == part.start)

    def _assignments(self, cell: Any, part: OutputBits, number: int) -> int:
        low, high = part.start, part.start + part.width
        result = self.word(cell.default[low:high])
        found = [
            one
            for one in cell.assignments
            if one.start <= low and high <= one.start + len(one.value)
        ]
        for one, group in groupby(found, key=lambda one: self._switches.of(one.cond)):
            arms = [
                (each.cond, self.word(each.value[low - each.start : high - each.start]))
                for each in group
            ]
            if one is not None and len({cond for cond, _ in arms}) >= _ARMS:
                values = one.choose({cond.bit: value for cond, value in arms}, result)
                result = self.graph.mux(
                    self.bit(one.enable), self.graph.pick(self.word(one.value), values), result
                )
            else:
                for cond, value in arms:
                    result = self.graph.mux(self.bit(cond), value, result)
        return result

    def _priority(self, cell: Any, part: OutputBits, number: int) -> int:
        graph = self.graph
        before = self._switches.rivals(cell, part.start)
        earlier = graph.any_of([self.bit(net) for net in before])
        free = graph.binary("and", self.bit(cell.en), graph.invert(earlier))
        return graph.binary("and", free, self.bit(cell.inputs[part.start]))

    def _matches(self, cell: Any, part: OutputBits, number: int) -> int:
        graph, found = self.graph, []
        for pattern in cell.patterns:
            terms = []
            for piece in split_output(len(cell.value), ()):
                text = pattern[
                    len(pattern) - piece.start - piece.width : len(pattern) - piece.start
                ]
                care = int(text.replace("0", "1").replace("-", "0"), 2)
                if care:
                    word = self.word(cell.value[piece.start : piece.start + piece.width])
                    masked = graph.binary("and", word, graph.const(piece.width, care))
                    wanted = graph.const(piece.width, int(text.replace("-", "0"), 2))
                    terms.append(graph.binary("eq", masked, wanted))
            found.append(graph.all_of(terms))
        return graph.any_of(found)

    def _read(self, cell: Any, part: OutputBits, number: int) -> int:
        return self.graph.add(
            "read", part.width, cell.memory, part.start // WORD, self.word(cell.addr)
        )


def concatenation_places(nets: Sequence[Any]) -> list[int]:
    """Returns the positions between bits of a value that are not adjacent at their source."""
    marks = []
    for at in range(1, len(nets)):
        before, net = nets[at - 1], nets[at]
        if net != before + 1 and net != before and not (net.is_const and before.is_const):
            marks.append(at)
    return marks


def split_output(width: int, marks: Iterable[int], firm: Iterable[int] = ()) -> list[OutputBits]:
    """Splits an output of ``width`` bits into parts of up to 64 bits: at each position of ``firm``,
    and at positions of ``marks`` where possible.
    """
    ends = sorted({*firm, width} - {0})
    parts, start = [], 0
    wanted = [mark for mark in marks if 0 < mark < width]
    for end in ends:
        if end > width:
            break
        while end - start > WORD:
            index = bisect_right(wanted, start + WORD) - 1
            mark = wanted[index] if index >= 0 and wanted[index] > start else start + WORD
            parts.append(OutputBits(start, mark - start))
            start = mark
        if end > start:
            parts.append(OutputBits(start, end - start))
            start = end
    return parts
