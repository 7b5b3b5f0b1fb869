"""Measurements of the stack's simulations."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Self

from rtl.layouts import StackOperation


class Wait(Enum):
    """Why a request is not taken in a cycle."""

    LINE = "for a line of the cache"
    TURN = "for a step of the stack's own"
    OPERATION = "for its warp's last operation"


@dataclass
class StackStatistics:
    """Measurements of one or more simulations.

    Attributes:
        cycles, operations: Clock cycles, and requests taken.
        latencies: Cycles from each request taken to its result, for each operation.
        waits, push_waits: Cycles in which a request, or a push, was not taken.
        events: Cycles in which each event of :class:`rtl.layouts.StackEvents` occurred.
    """

    cycles: int = 0
    operations: int = 0
    latencies: dict[StackOperation, list[int]] = field(default_factory=dict)
    waits: Counter[Wait] = field(default_factory=Counter)
    push_waits: Counter[Wait] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, parts: Iterable["StackStatistics"]) -> Self:
        """The sum of several measurements."""
        whole = cls()
        for part in parts:
            whole.cycles += part.cycles
            whole.operations += part.operations
            for operation, latencies in part.latencies.items():
                whole.latencies.setdefault(operation, []).extend(latencies)
            whole.waits += part.waits
            whole.push_waits += part.push_waits
            whole.events += part.events
        return whole

    def latency_rows(self) -> list[list[Any]]:
        """A row for each operation: its count, and least, mean and most cycles from request to
        result.
        """
        return [
            [operation.name, len(cycles), min(cycles), sum(cycles) / len(cycles), max(cycles)]
            for operation, cycles in sorted(
                self.latencies.items(), key=lambda entry: entry[0].value
            )
        ]
