"""A design as C++, and where in it everything is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sim.engine.lower import Lowering
from sim.engine.messages import Message
from sim.engine.pieces import pieces_of
from sim.engine.places import MemoryPlace, SignalPlace

__all__ = ["Program"]


@dataclass(frozen=True)
class Program:
    """A design as C++: ``units`` are translation units.

    ``place_of`` says for kept nodes where they are. ``messages`` are the prints and checks by number. ``settles``: more
    than rising clock edges has an effect on what is kept.
    """

    netlist: Any
    units: list[str]
    lowering: Lowering
    place_of: dict[int, int]
    messages: list[Message]
    settles: bool

    def place(self, nets: Sequence[Any]) -> SignalPlace:
        """Where a signal with these nets is."""
        graph, pieces, constant, combinational = self.lowering.graph, [], 0, False
        for node, shift, width, at in pieces_of(self.lowering, nets):
            if (value := graph.value(node)) is not None:
                constant |= (value >> shift & (1 << width) - 1) << at
            else:
                pieces.append((self.place_of[node], shift, width, at))
                combinational |= graph.nodes[node][0] != "state"
        return SignalPlace(tuple(pieces), constant, combinational)

    def memories(self) -> dict[tuple[str, ...], MemoryPlace]:
        """Where memories are, by their hierarchical names without that of the design itself."""
        found = {}
        for number, (index, memory) in enumerate(self.lowering.memories.items()):
            cell = self.netlist.cells[index]
            name = (*self.netlist.modules[cell.module_idx].name[1:], cell.name)
            found[name] = MemoryPlace(number, memory.base, len(memory.widths))
        return found
