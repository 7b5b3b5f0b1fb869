"""A design as C++, and where in it everything is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sim.engine.errors import EngineError
from sim.engine.lower import Lowering
from sim.engine.model import Field, MemoryField, Model

__all__ = ["Program"]


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
