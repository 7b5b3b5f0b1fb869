"""The effects of a netlist: next values of registers, memory writes, resets, prints and checks,
with their nodes.
"""

from dataclasses import dataclass
from typing import Any

from sim.engine.graph import WORD
from sim.engine.internals import (
    AsyncPrint,
    AsyncProperty,
    FlipFlop,
    SyncPrint,
    SyncProperty,
    SyncReadPort,
    SyncWritePort,
)
from sim.engine.lower import Lowering

__all__ = ["Check", "Effects", "Next", "PortNodes", "Reset"]


@dataclass(frozen=True)
class Next:
    """The next value of a stored word of a register."""

    place: int
    cell: Any
    node: int


@dataclass(frozen=True)
class Reset:
    """An asynchronous reset of a stored word: its condition, the place of the word, and the value."""

    node: int
    place: int
    init: int


@dataclass(frozen=True)
class PortNodes:
    """The nodes of a clocked memory port, which is identified by the index of its cell.

    A write port has the address, then data and enable of each word; a read port the address, the
    enable, and the nodes of each write port for which it is transparent.
    """

    number: int
    cell: Any
    nodes: list[int]


@dataclass(frozen=True)
class Check:
    """A print or an assertion.

    Attributes:
        nodes: The condition, then the words of the values in its message.
        values: The same words, grouped by value.
    """

    cell: Any
    nodes: list[int]
    values: list[list[int]]


class Effects:
    """The effects of a netlist."""

    def __init__(self, netlist: Any, lowering: Lowering) -> None:
        self._lowering = lowering
        self.nexts: list[Next] = []
        self.resets: list[Reset] = []
        self.ports: list[PortNodes] = []
        self.checks: list[Check] = []
        cells = netlist.cells
        for place, (number, part) in enumerate(lowering.states):
            cell = cells[number]
            if isinstance(cell, FlipFlop):
                self.nexts.append(
                    Next(
                        place, cell, lowering.word(cell.data[part.start : part.start + part.width])
                    )
                )
                lowering.claim(cell.module_idx)
                if not cell.arst.is_const:
                    init = cell.init >> part.start & (1 << part.width) - 1
                    self.resets.append(Reset(lowering.bit(cell.arst), place, init))
        for number, cell in enumerate(cells):
            if isinstance(cell, SyncWritePort):
                self.ports.append(PortNodes(number, cell, self._write_nodes(cell)))
            elif isinstance(cell, SyncReadPort):
                nodes = [lowering.word(cell.addr), lowering.bit(cell.en)]
                for port in cell.transparent_for:
                    nodes += self._write_nodes(cells[port])
                self.ports.append(PortNodes(number, cell, nodes))
            elif isinstance(cell, (SyncPrint, AsyncPrint, SyncProperty, AsyncProperty)):
                self.checks.append(Check(cell, *self._check_nodes(cell)))
            lowering.claim(cell.module_idx)

    def roots(self) -> list[int]:
        """Returns all nodes that the effects need, except the next values of registers."""
        found = [one.node for one in self.resets]
        for one in (*self.ports, *self.checks):
            found += one.nodes
        return found

    def _write_nodes(self, cell: Any) -> list[int]:
        """Returns the address, then data and enables, word by word."""
        lowering = self._lowering
        nodes = [lowering.word(cell.addr)]
        for low in range(0, len(cell.data), WORD):
            high = min(low + WORD, len(cell.data))
            nodes += [lowering.word(cell.data[low:high]), lowering.word(cell.en[low:high])]
        return nodes

    def _check_nodes(self, cell: Any) -> tuple[list[int], list[list[int]]]:
        """Returns the condition and the words of the message's values; and the same words, grouped
        by value.
        """
        lowering, graph = self._lowering, self._lowering.graph
        happens = lowering.bit(cell.en)
        if isinstance(cell, (SyncProperty, AsyncProperty)):
            test = lowering.bit(cell.test)
            happens = graph.binary(
                "and", happens, test if cell.kind == "cover" else graph.invert(test)
            )
        chunks = cell.format.chunks if cell.format is not None else ()
        values = [
            [
                lowering.word(chunk.value[low : low + WORD])
                for low in range(0, len(chunk.value), WORD)
            ]
            for chunk in chunks
            if not isinstance(chunk, str)
        ]
        return [happens, *(node for value in values for node in value)], values
