"""Values that are defined once, and what defines them."""

from collections import Counter

from .dominance import Places
from .ir import Block, Function, Op, Source, Value

__all__ = ["Definitions"]


class Definitions:
    """The operations that define values which are defined once, without a guard that matters."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.places = Places(function)
        self.only: dict[Value, Op] = {}
        self.uses: Counter[Value] = Counter()
        defined: Counter[Value] = Counter()
        for op in function.ops():
            for value in op.writes():
                defined[value] += 1
                self.only[value] = op
            self.uses.update(op.reads())
        for block in function.blocks:
            if block.condition is not None and block.condition.value is not None:
                self.uses[block.condition.value] += 1
        for parameter in function.parameters:
            defined[parameter] += 1
        self.only = {value: op for value, op in self.only.items()
                     if defined[value] == 1 and op.replaces and value.fixed is None}
        self.defined = defined

    def operation(self, source: Source) -> Op | None:
        """What defines a source, if that is one operation."""
        return self.only.get(source.what) if isinstance(source.what, Value) else None

    def used(self, op: Op) -> int:
        """How often an operation's first result is used."""
        return self.uses[op.results[0]] if op.results[0] is not None else 0

    def steady(self, source: Source, at: Op) -> bool:
        """Whether a source of an operation is the same wherever the operation's result is used."""
        value = source.value
        if value is None or value is self.function.stack:
            return True
        op = self.only.get(value)
        return op is not None and self.places.dominates(op, *self.places.at[at])

    def same(self, source: Source, at: Op, block: Block, index: int) -> bool:
        """Whether a source of an operation is still the same at a place behind it."""
        if self.steady(source, at):
            return True
        own, position = self.places.at[at]
        return (own is block and source.value is not None and source.value.fixed is None
                and not any(source.what in op.results for op in block.ops[position:index]))
