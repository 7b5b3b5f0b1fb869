"""Single definitions: the values with one definition, and the operation that defines each (as in
SSA).
"""

from collections import Counter

from sim.toolchain.compiler.ir import Block, Function, Op, Source, Value

from .dominators import Dominators, OperationDominators

__all__ = ["Definitions"]


class Definitions:
    """The values with a single definition, and the operations that define them.

    A guarded definition counts only if it replaces the whole value (see :attr:`.Op.replaces`).
    """

    def __init__(self, function: Function, dominators: Dominators | None = None) -> None:
        self.function = function
        self.dominators = OperationDominators(function, dominators)
        only: dict[Value, Op] = {}
        again: set[Value] = set(function.parameters)
        for block in function.blocks:
            for op in block.ops:
                for value in op.results:
                    if value is None:
                        continue
                    if value in only or value.fixed is not None or not op.replaces:
                        again.add(value)
                    only[value] = op
        for value in again:
            only.pop(value, None)
        self.only = only
        self.uses: Counter[Value] = Counter()

    def count_uses(self) -> None:
        """Counts the current uses of each value, for :meth:`used`."""
        found: list[Value] = []
        append = found.append
        for block in self.function.blocks:
            for op in block.ops:
                for source in op.sources:
                    if isinstance(source.operand, Value):
                        append(source.operand)
                if op.guard is not None and isinstance(op.guard.operand, Value):
                    append(op.guard.operand)
            if block.condition is not None and isinstance(block.condition.operand, Value):
                append(block.condition.operand)
        self.uses = Counter(found)

    def operation(self, source: Source) -> Op | None:
        """Returns the single definition of a source, or None."""
        return self.only.get(source.operand) if isinstance(source.operand, Value) else None

    def used(self, op: Op) -> int:
        """Returns how often an operation's first result was used when :meth:`count_uses` was
        called.
        """
        return self.uses[op.results[0]] if op.results[0] is not None else 0

    def steady(self, source: Source, at: Op) -> bool:
        """Whether a source of operation ``at`` has the same value at every use of the operation's
        result.
        """
        value = source.operand
        if not isinstance(value, Value) or value is self.function.stack:
            return True
        op = self.only.get(value)
        return op is not None and self.dominators.dominates(op, *self.dominators.at[at])

    def same(self, source: Source, at: Op, block: Block, index: int) -> bool:
        """Whether a source of operation ``at`` still has the same value at operation ``index`` of
        ``block``.
        """
        if self.steady(source, at):
            return True
        own, position = self.dominators.at[at]
        return (
            own is block
            and source.value is not None
            and source.value.fixed is None
            and not any(source.operand in op.results for op in block.ops[position:index])
        )
