"""The natural loops of a function: each has one header, which every path into the loop passes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sim.toolchain.compiler.ir import Block, Function, Terminator

from .dominators import Dominators

__all__ = ["Loop", "add_preheaders", "block_weights", "find_loops", "innermost"]

_DEEPEST = 4
"""The nesting depth from which on deeper loops have the same weight."""


@dataclass(eq=False)
class Loop:
    """A loop. ``parent`` is the loop around it, None for an outermost loop, which has ``depth``
    1.
    """

    header: Block
    blocks: set[Block] = field(default_factory=set)
    parent: "Loop | None" = None
    depth: int = 1

    def exits(self) -> list[tuple[Block, Block]]:
        """Returns the edges that leave the loop, as pairs of source and target."""
        return [
            (block, successor)
            for block in self.blocks
            for successor in block.successors
            if successor not in self.blocks
        ]


def find_loops(function: Function) -> list[Loop]:
    """Returns all natural loops, outer ones before inner ones."""
    position = {block: at for at, block in enumerate(function.blocks)}
    if all(
        position[successor] > at for block, at in position.items() for successor in block.successors
    ):
        return []
    predecessors = function.predecessors()
    dominators = Dominators(function)
    loops: dict[Block, Loop] = {}
    for block in function.blocks:
        for successor in block.successors:
            if dominators.dominates(successor, block):
                loop = loops.setdefault(successor, Loop(successor, {successor}))
                _collect(predecessors, block, loop)
    ordered = sorted(loops.values(), key=lambda loop: -len(loop.blocks))
    around: dict[Block, Loop] = {}
    for loop in ordered:
        loop.parent = around.get(loop.header)
        loop.depth = 1 + (loop.parent.depth if loop.parent is not None else 0)
        around.update(dict.fromkeys(loop.blocks, loop))
    return ordered


def _collect(predecessors: Mapping[Block, list[Block]], last: Block, loop: Loop) -> None:
    """Adds the blocks from which ``last`` can be reached without passing the loop's header."""
    waiting = [last]
    while waiting:
        block = waiting.pop()
        if block not in loop.blocks:
            loop.blocks.add(block)
            waiting.extend(predecessors[block])


def innermost(loops: list[Loop]) -> dict[Block, Loop]:
    """Returns the innermost loop of every block that is in one."""
    return {block: loop for loop in loops for block in loop.blocks}


def add_preheaders(function: Function) -> None:
    """Adds a preheader to every loop: a block before the header that has no other successor."""
    predecessors = function.predecessors()
    for loop in find_loops(function):
        before = list(
            dict.fromkeys(block for block in predecessors[loop.header] if block not in loop.blocks)
        )
        if (
            loop.header is function.blocks[0]
            or len(before) != 1
            or before[0].terminator is not Terminator.GOTO
        ):
            block = Block(f"{loop.header.name}.before", successors=[loop.header])
            predecessors[loop.header] = [
                block,
                *(source for source in predecessors[loop.header] if source in loop.blocks),
            ]
            for source in before:
                source.successors = [
                    block if successor is loop.header else successor
                    for successor in source.successors
                ]
                if source.table is not None:
                    source.table.targets = list(source.successors)
            function.blocks.insert(function.blocks.index(loop.header), block)


def block_weights(function: Function) -> dict[Block, float]:
    """Returns the estimated execution frequency of each block: a loop multiplies it by ten."""
    loops = innermost(find_loops(function))
    return {
        block: 10.0 ** min(loops[block].depth if block in loops else 0, _DEEPEST)
        for block in function.blocks
    }
