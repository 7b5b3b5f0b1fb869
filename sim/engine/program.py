"""A design as C++, and the locations of its signals and memories."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sim.engine.graph import WORD, Cat, Const, Slice, StateWord
from sim.engine.locations import MemoryLocation, SignalLocation, WordBits
from sim.engine.lower import Lowering
from sim.engine.messages import Message

__all__ = ["NodeBits", "TranslatedDesign", "bits_by_node"]

_SMALL = 8
"""Limit in bits of words that are concatenated with their neighbours to be shown."""


class NodeBits(NamedTuple):
    """Bits of a value in a node.

    Attributes:
        node: The node.
        shift: First bit in the node.
        width: Number of bits.
        position: First bit in the value.
    """

    node: int
    shift: int
    width: int
    position: int


@dataclass(frozen=True)
class TranslatedDesign:
    """A design as C++.

    Attributes:
        units: The translation units.
        place_of: Places of stored nodes.
        messages: The prints and checks by number.
        settles: Whether events other than rising clock edges change stored words.
    """

    netlist: Any
    units: list[str]
    lowering: Lowering
    place_of: dict[int, int]
    messages: list[Message]
    settles: bool

    def place(self, nets: Sequence[Any]) -> SignalLocation:
        """Returns the location of a signal with these nets."""
        graph, pieces, constant, combinational = self.lowering.graph, [], 0, False
        for node, shift, width, at in bits_by_node(self.lowering, nets):
            if (value := graph.value(node)) is not None:
                constant |= (value >> shift & (1 << width) - 1) << at
            else:
                pieces.append(WordBits(self.place_of[node], shift, width, at))
                combinational |= not isinstance(graph.nodes[node], StateWord)
        return SignalLocation(tuple(pieces), constant, combinational)

    def memories(self) -> dict[tuple[str, ...], MemoryLocation]:
        """Returns the locations of memories by hierarchical name, without the name of the design
        itself.
        """
        found = {}
        for number, (index, memory) in enumerate(self.lowering.memories.items()):
            cell = self.netlist.cells[index]
            name = (*self.netlist.modules[cell.module_idx].name[1:], cell.name)
            found[name] = MemoryLocation(number, memory.base, len(memory.widths))
        return found


def bits_by_node(lowering: Lowering, nets: Sequence[Any]) -> list[NodeBits]:
    """Returns the bits of a value in nodes, in the order of their positions. Slices are resolved,
    and only small parts are concatenated.
    """
    found: list[NodeBits] = []
    at = 0
    while at < len(nets):
        end = lowering.run_end(nets, at)
        _collect(lowering, lowering.word(nets[at:end]), 0, end - at, at, found)
        at = end
    return _joined(lowering, nets, found)


def _collect(
    lowering: Lowering, node: int, shift: int, width: int, at: int, found: list[NodeBits]
) -> None:
    """Resolves slices and concatenations of a node."""
    graph = lowering.graph
    what = graph.nodes[node]
    if isinstance(what, Slice):
        _collect(lowering, what.source, shift + what.shift, width, at, found)
    elif (
        isinstance(what, Cat)
        and all(graph.value(part) is None for part, _ in what.parts)
        and shift == 0
    ):
        for part, place in what.parts:
            if place < width:
                _collect(
                    lowering, part, 0, min(graph.width(part), width - place), at + place, found
                )
    else:
        found.append(NodeBits(node, shift, width, at))


def _joined(lowering: Lowering, nets: Sequence[Any], apart: Sequence[NodeBits]) -> list[NodeBits]:
    """Concatenates adjacent small combinational pieces to words."""
    found: list[NodeBits] = []
    run: list[NodeBits] = []
    for piece in apart:
        node = lowering.graph.nodes[piece.node]
        small = not isinstance(node, StateWord | Const) and node.width <= _SMALL
        if run and (not small or piece.position + piece.width > run[0].position + WORD):
            found += _one(lowering, nets, run)
            run = []
        (run if small else found).append(piece)
    return found + _one(lowering, nets, run)


def _one(lowering: Lowering, nets: Sequence[Any], run: list[NodeBits]) -> list[NodeBits]:
    """Returns one piece for several."""
    if len(run) < 2:
        return run
    start, end = run[0].position, run[-1].position + run[-1].width
    node, shift = lowering.word(nets[start:end]), 0
    if isinstance(what := lowering.graph.nodes[node], Slice):
        node, shift = what.source, what.shift
    return [NodeBits(node, shift, end - start, start)]
