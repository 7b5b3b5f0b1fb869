"""Liveness analysis (backward data flow): the values that are live after each operation."""

from collections.abc import Iterable, Iterator

import numpy as np

from sim.toolchain.compiler.ir import Block, Function, Op, Terminator, Value

__all__ = ["Liveness", "ending_reads"]

_FEW = 16
"""The bit count below which bits are extracted one by one."""


def ending_reads(function: Function, block: Block) -> Iterator[Value]:
    """Yields the values that a block's terminator reads."""
    if block.condition is not None and isinstance(block.condition.operand, Value):
        yield block.condition.operand
    if block.terminator is Terminator.RETURN:
        yield from function.results


class _Bits(dict[Value, int]):
    """The bit of each value. A lookup of a new value gives it the next bit. ``numbered`` lists the
    values in the order of their bits.
    """

    def __init__(self) -> None:
        super().__init__()
        self.numbered: list[Value] = []

    def __missing__(self, value: Value) -> int:
        bit = self[value] = 1 << len(self.numbered)
        self.numbered.append(value)
        return bit


class Liveness:
    """Liveness by blocks and operations. A set of values is a bit mask; ``bit`` maps each value to
    its bit.
    """

    def __init__(self, function: Function) -> None:
        self.function = function
        self.bit = _Bits()
        self.values = self.bit.numbered
        self.effects: dict[Block, list[tuple[int, int]]] = {}
        """For each operation of a block the masks of the values that it reads and writes. Valid
        until operations change.
        """
        used: dict[Block, int] = {}
        defined: dict[Block, int] = {}
        bit = self.bit
        for block in function.blocks:
            reads = writes = 0
            effects = self.effects[block] = []
            # The operands are handled inline: a call for each would double the time of this loop.
            for op in block.ops:
                read = 0
                for source in op.sources:
                    operand = source.operand
                    if isinstance(operand, Value):
                        read |= bit[operand]
                guard = op.guard
                if guard is not None and isinstance(guard.operand, Value):
                    read |= bit[guard.operand]
                written = 0
                for value in op.results:
                    if value is not None:
                        written |= bit[value]
                effects.append((read, written))
                reads |= read & ~writes
                if guard is None or op.fresh:
                    writes |= written
                else:
                    reads |= written & ~writes
            used[block] = reads | self.mask(ending_reads(function, block)) & ~writes
            defined[block] = writes
        self.live_in = dict(used)
        self.live_out = dict.fromkeys(function.blocks, 0)
        self._solve(used, defined)

    def mask(self, values: Iterable[Value]) -> int:
        """Returns the mask of some values."""
        found = 0
        for value in values:
            found |= self.bit[value]
        return found

    def written_by(self, op: Op) -> int:
        """Returns the mask of the values that an operation writes."""
        return self.mask(op.writes())

    def _solve(self, used: dict[Block, int], defined: dict[Block, int]) -> None:
        """Computes the least fixed point. A block is visited again when the live-in set of a
        successor grows.
        """
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
        """Yields the operations from last to first: the index, the operation, and the mask that is
        live after it.
        """
        live = self.live_out[block] | self.mask(ending_reads(self.function, block))
        effects = self.effects[block]
        for index in range(len(block.ops) - 1, -1, -1):
            op = block.ops[index]
            yield index, op, live
            read, written = effects[index]
            live = live & ~written if op.replaces else live | written
            live |= read

    def members(self, mask: int) -> Iterator[Value]:
        """Yields the values of a mask."""
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
        """Returns the numbers of the bits that are set in a mask."""
        content = np.frombuffer(mask.to_bytes(-(-mask.bit_length() // 8), "little"), np.uint8)
        return np.flatnonzero(np.unpackbits(content, bitorder="little"))
