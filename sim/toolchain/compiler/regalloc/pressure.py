"""Spilling by register pressure, before coloring: spills values where more are live than there are
registers.
"""

import numpy as np

from sim.toolchain.compiler.abi import STACK_POINTER
from sim.toolchain.compiler.ir import Function, Op, Value

from .interference import Interference

__all__ = ["crowded_out"]


def crowded_out(
    function: Function, known: Interference, limit: int, kept: set[Value]
) -> list[Value]:
    """Returns values to spill so that no position needs more registers than there are, those with
    the lowest cost first.

    Copies of values in ``kept`` are not among them. Values that must be consecutive may need more
    registers; the coloring handles this case.
    """
    return _Relief(function, known, limit, kept).values()


class _Relief:
    """Selects values to spill. Bit masks: ``words`` are the values that need registers, ``open``
    those that may be spilled, ``gone`` those that are selected.
    """

    def __init__(
        self, function: Function, known: Interference, limit: int, kept: set[Value]
    ) -> None:
        self.function = function
        self.known = known
        self.live = live = known.live
        self.registers = limit - (limit > STACK_POINTER)
        words = [
            value for value in live.values if not value.predicate and value.fixed != STACK_POINTER
        ]
        self.words = live.mask(iter(words))
        self.open = live.mask(value for value in words if value.fixed is None and value not in kept)
        self.gone = 0
        self.chosen: list[int] = []
        self.costs: np.ndarray | None = None

    def values(self) -> list[Value]:
        reserved = max((len(op.clobbers) for op in self.function.ops()), default=0)
        if self.words.bit_count() + reserved <= self.registers:
            return []  # there is a register for each
        for block in self.function.blocks:
            effects = self.live.effects[block]
            for index, op, alive in self.live.backwards(block):
                self._operation(op, alive, *effects[index])
            self._check(self.live.live_in[block], 0, self.registers)
        return [self.live.values[number] for number in self.chosen]

    def _operation(self, op: Op, alive: int, reads: int, writes: int) -> None:
        """Checks the pressure around an operation. After it all live values and results need
        registers, before it all live values and operands; a spilled value has a copy where it is
        used.
        """
        self._check(alive | writes, writes, self.registers)
        touched = reads | (0 if op.replaces else writes)
        self._check(alive & ~writes | touched, touched, self.registers)
        if op.clobbers:
            self._check(alive & ~writes, 0, self.registers - len(op.clobbers - {STACK_POINTER}))

    def _check(self, alive: int, touched: int, registers: int) -> None:
        needed = alive & self.words & (~self.gone | touched)
        excess = needed.bit_count() - registers
        if excess > 0:
            self._choose(needed & self.open & ~self.gone & ~touched, excess)

    def _choose(self, candidates: int, count: int) -> None:
        """Selects the ``count`` cheapest candidates, or all if there are fewer."""
        if self.costs is None:
            self.costs = np.array([self.known.cost(value) for value in self.live.values])
        numbers = self.live.numbers(candidates)
        for number in numbers[np.argsort(self.costs[numbers], kind="stable")[:count]].tolist():
            self.chosen.append(number)
            self.gone |= 1 << number
