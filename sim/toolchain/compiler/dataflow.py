"""What is known of values at every place: where they are live, which definitions reach a use."""

from collections.abc import Iterable, Iterator

import numpy as np

from .ir import Block, Function, Op, Value

__all__ = ["Liveness", "ending_reads", "reaching_webs"]

_FEW = 16
"""Fewer bits than these are found one by one."""


def ending_reads(function: Function, block: Block) -> Iterator[Value]:
    """The values that a block's ending reads."""
    if block.condition is not None and isinstance(block.condition.what, Value):
        yield block.condition.what
    if block.ending == "ret":
        yield from function.results


class Liveness:
    """The values that are live, as bits of a number; ``bit`` has the bit of each value."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.values: list[Value] = []
        self.bit: dict[Value, int] = {}
        self.effects: dict[Block, list[tuple[int, int]]] = {}
        """What each operation of a block reads and writes, as long as the operations stay as they are."""
        used: dict[Block, int] = {}
        defined: dict[Block, int] = {}
        for block in function.blocks:
            reads = writes = 0
            effects = self.effects[block] = [(self.read_by(op), self.written_by(op)) for op in block.ops]
            for op, (read, mask) in zip(block.ops, effects, strict=True):
                reads |= read & ~writes
                if op.replaces:
                    writes |= mask
                else:
                    reads |= mask & ~writes
            used[block] = reads | self.mask(ending_reads(function, block)) & ~writes
            defined[block] = writes
        self.live_in = dict(used)
        self.live_out = dict.fromkeys(function.blocks, 0)
        self._solve(used, defined)

    def mask(self, values: Iterable[Value]) -> int:
        """The bits of some values."""
        found = 0
        for value in values:
            found |= self.bit.get(value) or self._new(value)
        return found

    def _new(self, value: Value) -> int:
        """The bit of a value that had none."""
        bit = self.bit[value] = 1 << len(self.values)
        self.values.append(value)
        return bit

    def read_by(self, op: Op) -> int:
        """The bits of the values that an operation reads, its guard's too."""
        found = 0
        for source in op.sources:
            what = source.what
            if isinstance(what, Value):
                found |= self.bit.get(what) or self._new(what)
        if op.guard is not None and isinstance(op.guard.what, Value):
            found |= self.bit.get(op.guard.what) or self._new(op.guard.what)
        return found

    def written_by(self, op: Op) -> int:
        """The bits of the values that an operation writes."""
        found = 0
        for value in op.results:
            if value is not None:
                found |= self.bit.get(value) or self._new(value)
        return found

    def _solve(self, used: dict[Block, int], defined: dict[Block, int]) -> None:
        """Finds the smallest sets: a block is looked at again when more is live at the begin of one behind it."""
        predecessors = self.function.predecessors()
        waiting = list(self.function.blocks)
        pending = set(waiting)
        while waiting:
            block = waiting.pop()
            pending.discard(block)
            out = 0
            for successor in block.successors:
                out |= self.live_in[successor]
            self.live_out[block] = out
            into = used[block] | out & ~defined[block]
            if into != self.live_in[block]:
                self.live_in[block] = into
                for predecessor in predecessors[block]:
                    if predecessor not in pending:
                        pending.add(predecessor)
                        waiting.append(predecessor)

    def backwards(self, block: Block) -> Iterator[tuple[int, Op, int]]:
        """The operations from the last one on, each with its index and what is live behind it."""
        live = self.live_out[block] | self.mask(ending_reads(self.function, block))
        effects = self.effects[block]
        for index in range(len(block.ops) - 1, -1, -1):
            op = block.ops[index]
            yield index, op, live
            read, written = effects[index]
            live = live & ~written if op.replaces else live | written
            live |= read

    def members(self, mask: int) -> Iterator[Value]:
        """The values of a number's bits."""
        if mask.bit_count() < _FEW:
            while mask:
                low = mask & -mask
                yield self.values[low.bit_length() - 1]
                mask ^= low
            return
        for number in self.numbers(mask).tolist():
            yield self.values[number]

    @staticmethod
    def numbers(mask: int) -> np.ndarray:
        """Which bits of a number are set."""
        content = np.frombuffer(mask.to_bytes(-(-mask.bit_length() // 8), "little"), np.uint8)
        return np.flatnonzero(np.unpackbits(content, bitorder="little"))


def reaching_webs(function: Function) -> None:
    """Gives every value that means several things names of its own for each: definitions that share a use stay
    together, others part.
    """
    _Webs(function).part()


class _Webs:
    def __init__(self, function: Function) -> None:
        self.function = function
        self.live = Liveness(function)
        self.parent: list[int] = []
        self.result_of: dict[tuple[Op, int], int] = {}
        self.uses: list[tuple[object, int, Value, int]] = []

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

    def part(self) -> None:
        """Each block begins with a web for each value that is live there; ways into it join these with what comes."""
        incoming = {block: {value: self._new() for value in self.live.members(self.live.live_in[block])}
                    for block in self.function.blocks}
        for block in self.function.blocks:
            current = dict(incoming[block])
            for op in block.ops:
                self._operation(op, current)
            self._ending(block, current)
            for successor in block.successors:
                for value, web in incoming[successor].items():
                    self._join(web, current.get(value, web))
        self._rename(incoming)

    def _use(self, holder: object, index: int, value: Value, current: dict[Value, int]) -> None:
        web = current.setdefault(value, self._new())
        self.uses.append((holder, index, value, web))

    def _operation(self, op: Op, current: dict[Value, int]) -> None:
        for index, source in enumerate(op.sources):
            if source.value is not None:
                self._use(op, index, source.value, current)
        if op.guard is not None and op.guard.value is not None:
            self._use(op, -1, op.guard.value, current)
        for index, value in enumerate(op.results):
            if value is None:
                continue
            web = self._new()
            if not op.replaces and value in current:
                self._join(web, current[value])
            current[value] = web
            self.result_of[op, index] = web

    def _ending(self, block: Block, current: dict[Value, int]) -> None:
        if block.condition is not None and block.condition.value is not None:
            self._use(block, -1, block.condition.value, current)
        if block.ending == "ret":
            for value in self.function.results:
                current.setdefault(value, self._new())

    def _rename(self, incoming: dict[Block, dict[Value, int]]) -> None:
        names: dict[tuple[Value, int], Value] = {}
        count: dict[Value, int] = {}

        def name(value: Value, web: int) -> Value:
            key = value, self._find(web)
            if value.fixed is not None:
                return value
            if key not in names:
                count[value] = count.get(value, 0) + 1
                suffix = f"'{count[value]}" if count[value] > 1 else ""
                names[key] = Value(value.name + suffix, value.predicate)
            return names[key]

        for holder, index, value, web in self.uses:
            if isinstance(holder, Block):
                assert holder.condition is not None
                holder.condition = holder.condition.of(name(value, web))
            elif isinstance(holder, Op):
                if index < 0:
                    assert holder.guard is not None
                    holder.guard = holder.guard.of(name(value, web))
                else:
                    holder.sources[index] = holder.sources[index].of(name(value, web))
        for (op, index), web in self.result_of.items():
            value = op.results[index]
            assert value is not None
            op.results[index] = name(value, web)
