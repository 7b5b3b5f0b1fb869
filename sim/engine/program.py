"""A design as C++, and where in it everything is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sim.engine.graph import WORD, Cat, Const, Slice, StateWord
from sim.engine.locations import MemoryLocation, SignalLocation, WordBits
from sim.engine.lower import Lowering
from sim.engine.messages import Message

__all__ = ["NodeBits", "TranslatedDesign", "bits_by_node"]

_SMALL = 8
"""Bits of words that are shown together with their neighbours."""


class NodeBits(NamedTuple):
    """``width`` bits of a node, from its bit ``shift`` on, which are those of a value from ``position`` on."""

    node: int
    shift: int
    width: int
    position: int


@dataclass(frozen=True)
class TranslatedDesign:
    """A design as C++: ``units`` are translation units.

    ``place_of`` has the places of kept nodes. ``messages`` are the prints and checks by number.
    ``settles``: more than rising clock edges has an effect on what is kept.
    """

    netlist: Any
    units: list[str]
    lowering: Lowering
    place_of: dict[int, int]
    messages: list[Message]
    settles: bool

    def place(self, nets: Sequence[Any]) -> SignalLocation:
        """Where a signal with these nets is."""
        graph, pieces, constant, combinational = self.lowering.graph, [], 0, False
        for node, shift, width, at in bits_by_node(self.lowering, nets):
            if (value := graph.value(node)) is not None:
                constant |= (value >> shift & (1 << width) - 1) << at
            else:
                pieces.append(WordBits(self.place_of[node], shift, width, at))
                combinational |= not isinstance(graph.nodes[node], StateWord)
        return SignalLocation(tuple(pieces), constant, combinational)

    def memories(self) -> dict[tuple[str, ...], MemoryLocation]:
        """Where memories are, by their hierarchical names without that of the design itself."""
        found = {}
        for number, (index, memory) in enumerate(self.lowering.memories.items()):
            cell = self.netlist.cells[index]
            name = (*self.netlist.modules[cell.module_idx].name[1:], cell.name)
            found[name] = MemoryLocation(number, memory.base, len(memory.widths))
        return found


def bits_by_node(lowering: Lowering, nets: Sequence[Any]) -> list[NodeBits]:
    """Where the bits of a value are, in the order of their positions. Nodes are no slices, and concatenated only where
    many are small.
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
    """Takes a node apart."""
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
    """Pieces, with neighbours that are computed and small concatenated to words."""
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
    """One piece for several."""
    if len(run) < 2:
        return run
    start, end = run[0].position, run[-1].position + run[-1].width
    node, shift = lowering.word(nets[start:end]), 0
    if isinstance(what := lowering.graph.nodes[node], Slice):
        node, shift = what.source, what.shift
    return [NodeBits(node, shift, end - start, start)]
