"""Dominators of blocks and of operations: what every path to a place passes."""

from sim.toolchain.compiler.ir import Block, Function, Op

from .graphs import immediate_dominators

__all__ = ["Dominators", "OperationDominators"]


class Dominators:
    """The dominator tree of a function's blocks. ``parents`` has the immediate dominator of each, but of the entry."""

    def __init__(self, function: Function) -> None:
        entry = function.blocks[0]
        self.parents = immediate_dominators(
            entry, {block: block.successors for block in function.blocks}
        )
        self._spans = self._numbered(entry)

    def _numbered(self, entry: Block) -> dict[Block, tuple[int, int]]:
        """For each block its number from the root of the tree down, and the first number that is not below it."""
        children: dict[Block, list[Block]] = {}
        for block, parent in self.parents.items():
            children.setdefault(parent, []).append(block)
        order: list[Block] = []
        waiting = [entry]
        while waiting:
            block = waiting.pop()
            order.append(block)
            waiting.extend(children.get(block, []))
        sizes = dict.fromkeys(order, 1)
        for block in reversed(order):
            if block is not entry:
                sizes[self.parents[block]] += sizes[block]
        return {block: (number, number + sizes[block]) for number, block in enumerate(order)}

    def dominates(self, first: Block, second: Block) -> bool:
        """Whether every way to the second block passes the first; a block dominates itself."""
        if first not in self._spans or second not in self._spans:
            return first is second
        start, end = self._spans[first]
        return start <= self._spans[second][0] < end


class OperationDominators:
    """Where operations are, and which of them dominate which places. ``blocks``: the tree of the blocks."""

    def __init__(self, function: Function, dominators: Dominators | None = None) -> None:
        self.blocks = dominators or Dominators(function)
        self.at = {
            op: (block, index) for block in function.blocks for index, op in enumerate(block.ops)
        }

    def append(self, op: Op, block: Block) -> None:
        """Appends an operation that was taken out of its block to another one. Indices only tell the order from now
        on.
        """
        index = self.at[block.ops[-1]][1] + 1 if block.ops else 0
        block.ops.append(op)
        self.at[op] = block, index

    def dominates(self, first: Op, block: Block, index: int) -> bool:
        """Whether every way to a place passes an operation before."""
        defining, position = self.at[first]
        return position < index if defining is block else self.blocks.dominates(defining, block)
