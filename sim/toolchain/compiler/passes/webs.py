"""Web construction: splits a value into its webs by reaching definitions, and gives each web a name
of its own.
"""

from sim.toolchain.compiler.analysis.liveness import Liveness
from sim.toolchain.compiler.ir import Block, Function, Op, Value

__all__ = ["reaching_webs"]


def reaching_webs(function: Function) -> None:
    """Splits every value with several webs. Definitions that share a use are in one web."""
    _Webs(function).split()


class _Webs:
    """Webs of the values with several definitions. Any other value has one definition, which
    reaches every use.
    """

    def __init__(self, function: Function) -> None:
        self.function = function
        self.live = Liveness(function)
        self.several = self._with_several_definitions()
        self.parent: list[int] = []
        self.result_of: dict[tuple[Op, int], int] = {}
        self.uses: list[tuple[object, int, Value, int]] = []

    def _with_several_definitions(self) -> set[Value]:
        """Returns the values with more than one definition, without those in fixed registers, such
        as parameters and results. The contents at function entry count as a definition.
        """
        found = set(self.live.members(self.live.live_in[self.function.blocks[0]]))
        defined: set[Value] = set()
        for op in self.function.ops():
            for value in op.results:
                if value is not None:
                    (found if value in defined or not op.replaces else defined).add(value)
        return {value for value in found if value.fixed is None}

    def _new(self) -> int:
        self.parent.append(len(self.parent))
        return len(self.parent) - 1

    def _find(self, web: int) -> int:
        while self.parent[web] != web:
            self.parent[web] = self.parent[self.parent[web]]
            web = self.parent[web]
        return web

    def _join(self, one: int, other: int) -> int:
        one, other = self._find(one), self._find(other)
        self.parent[other] = one
        return one

    def split(self) -> None:
        """Builds the webs and renames the values. Each block starts with a web for each value that
        is live there; each incoming edge merges it with the web at the predecessor's end.
        """
        if not self.several:
            return
        wanted = self.live.mask(self.several)
        incoming = {
            block: {
                value: self._new() for value in self.live.members(self.live.live_in[block] & wanted)
            }
            for block in self.function.blocks
        }
        for block in self.function.blocks:
            current = dict(incoming[block])
            for op in block.ops:
                self._operation(op, current)
            if block.condition is not None and block.condition.value in self.several:
                self._use(block, -1, block.condition.value, current)
            for successor in block.successors:
                for value, web in incoming[successor].items():
                    self._join(web, current.get(value, web))
        self._rename()

    def _use(self, holder: object, index: int, value: Value, current: dict[Value, int]) -> None:
        web = current.setdefault(value, self._new())
        self.uses.append((holder, index, value, web))

    def _operation(self, op: Op, current: dict[Value, int]) -> None:
        for index, source in enumerate(op.sources):
            if source.value in self.several:
                self._use(op, index, source.value, current)
        if op.guard is not None and op.guard.value in self.several:
            self._use(op, -1, op.guard.value, current)
        for index, value in enumerate(op.results):
            if value not in self.several:
                continue
            web = self._new()
            if not op.replaces and value in current:
                self._join(web, current[value])
            current[value] = web
            self.result_of[op, index] = web

    def _rename(self) -> None:
        names: dict[tuple[Value, int], Value] = {}
        count: dict[Value, int] = {}

        def name(value: Value, web: int) -> Value:
            key = value, self._find(web)
            if key not in names:
                count[value] = count.get(value, 0) + 1
                suffix = f"'{count[value]}" if count[value] > 1 else ""
                names[key] = Value(value.name + suffix, value.predicate)
            return names[key]

        for holder, index, value, web in self.uses:
            if isinstance(holder, Block):
                assert holder.condition is not None
                holder.condition = holder.condition.with_operand(name(value, web))
            elif isinstance(holder, Op):
                if index < 0:
                    assert holder.guard is not None
                    holder.guard = holder.guard.with_operand(name(value, web))
                else:
                    holder.sources[index] = holder.sources[index].with_operand(name(value, web))
        for (op, index), web in self.result_of.items():
            value = op.results[index]
            assert value is not None
            op.results[index] = name(value, web)
