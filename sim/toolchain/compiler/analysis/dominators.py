"""Dominators of blocks and of operations: those that lie on every path to a place."""

from sim.toolchain.compiler.ir import Block, Function, Op

from .graphs import immediate_dominators

__all__ = ["Dominators", "OperationDominators"]


class Dominators:
    """The dominator tree of a function's blocks. ``parents`` maps each block except the entry to
    its immediate dominator.
    """

    def __init__(self, function: Function) -> None:
        entry = function.blocks[0]
        self.parents = immediate_dominators(
            entry, {block: block.successors for block in function.blocks}
        )
        self._spans = self._numbered(entry)

    def _numbered(self, entry: Block) -> dict[Block, tuple[int, int]]:
        """Numbers the blocks in preorder of the tree.

        Returns:
            For each block its number and the first number after its subtree.
        """
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
        """Whether every path to ``second`` passes ``first``. A block dominates itself."""
        if first not in self._spans or second not in self._spans:
            return first is second
        start, end = self._spans[first]
        return start <= self._spans[second][0] < end


class OperationDominators:
    """The positions of operations, and whether they dominate other positions. ``blocks`` is the
    tree of the blocks.
    """

    def __init__(self, function: Function, dominators: Dominators | None = None) -> None:
        self.blocks = dominators or Dominators(function)
        self.at = {
            op: (block, index) for block in function.blocks for index, op in enumerate(block.ops)
        }

    def append(self, op: Op, block: Block) -> None:
        """Appends an operation that was removed from its block to another one. Afterwards indices
        give only the order of operations.
        """
        index = self.at[block.ops[-1]][1] + 1 if block.ops else 0
        block.ops.append(op)
        self.at[op] = block, index

    def dominates(self, first: Op, block: Block, index: int) -> bool:
        """Whether every path to operation ``index`` of ``block`` passes ``first`` before it."""
        defining, position = self.at[first]
        return position < index if defining is block else self.blocks.dominates(defining, block)
