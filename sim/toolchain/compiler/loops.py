"""The loops of a function: natural ones, with one header that all ways into them pass."""

from dataclasses import dataclass, field

import networkx as nx

from .dataflow import flow_graph
from .ir import Block, Function

__all__ = ["Loop", "add_preheaders", "find_loops", "innermost"]


@dataclass(eq=False)
class Loop:
    """A loop. ``parent`` is the one around it, None at the top."""

    header: Block
    blocks: set[Block] = field(default_factory=set)
    parent: "Loop | None" = None

    def exits(self) -> list[tuple[Block, Block]]:
        """The ways out of it: from, to."""
        return [(block, successor) for block in self.blocks for successor in block.successors
                if successor not in self.blocks]

    @property
    def depth(self) -> int:
        """1 for a loop in no other."""
        return 1 + (self.parent.depth if self.parent is not None else 0)


def find_loops(function: Function) -> list[Loop]:
    """All natural loops, outer ones before inner ones."""
    graph = flow_graph(function)
    entry = function.blocks[0]
    parents = nx.immediate_dominators(graph, entry)

    def dominates(first: Block, second: Block) -> bool:
        while second is not first:
            parent = parents.get(second, second)
            if parent is second or parent is None:
                return False
            second = parent
        return True

    loops: dict[Block, Loop] = {}
    for block in function.blocks:
        for successor in block.successors:
            if dominates(successor, block):
                loop = loops.setdefault(successor, Loop(successor, {successor}))
                _collect(graph, block, loop)
    ordered = sorted(loops.values(), key=lambda loop: -len(loop.blocks))
    for at, loop in enumerate(ordered):
        around = [other for other in ordered[:at] if other.header is not loop.header and loop.header in other.blocks]
        loop.parent = around[-1] if around else None
    return ordered


def _collect(graph: nx.DiGraph, last: Block, loop: Loop) -> None:
    """Adds what leads to the end of a loop without passing its header."""
    waiting = [last]
    while waiting:
        block = waiting.pop()
        if block not in loop.blocks:
            loop.blocks.add(block)
            waiting.extend(graph.predecessors(block))


def innermost(loops: list[Loop]) -> dict[Block, Loop]:
    """The innermost loop of every block that is in one."""
    return {block: loop for loop in loops for block in loop.blocks}


def add_preheaders(function: Function) -> None:
    """Gives every loop a block before its header that leads nowhere else."""
    for loop in find_loops(function):
        before = [block for block in function.blocks
                  if block not in loop.blocks and loop.header in block.successors]
        if loop.header is function.blocks[0] or len(before) != 1 or before[0].ending != "goto":
            block = Block(f"{loop.header.name}.before", successors=[loop.header])
            for source in before:
                source.successors = [block if successor is loop.header else successor
                                     for successor in source.successors]
                if source.table is not None:
                    source.table.targets = list(source.successors)
            function.blocks.insert(function.blocks.index(loop.header), block)
