"""Parts of random programs: statements, and the registers that these keep for themselves."""

from collections.abc import Iterator
from dataclasses import dataclass

__all__ = [
    "ADDRESS",
    "CONDITION",
    "COUNTER",
    "INDEX",
    "LEVELS",
    "OTHER",
    "SELF",
    "SHARED",
    "TURN",
    "Statement",
]

SELF, INDEX, SHARED, OTHER, ADDRESS, COUNTER, LEVELS, TURN = 12, 13, 14, 15, 16, 20, 25, 26
"""Registers: the thread's number; a place in a table; own and neighbour's shared memory; its first piece's address, a
pair; loop counters from the first on; levels of recursion that are to go; turns of the whole body that are."""
CONDITION = 6
"""The predicate of loops."""


@dataclass(frozen=True)
class Statement:
    """``before``, statements, ``middle``, other statements, ``after``. ``%`` is replaced by a
    unique number in labels. One without statements in it is only its lines."""

    before: tuple[str, ...]
    first: tuple["Statement", ...] = ()
    middle: tuple[str, ...] = ()
    second: tuple["Statement", ...] = ()
    after: tuple[str, ...] = ()

    def lines(self, numbers: Iterator[int]) -> Iterator[str]:
        """The text."""
        number = str(next(numbers))
        yield from (line.replace("%", number) for line in self.before)
        for statement in self.first:
            yield from statement.lines(numbers)
        yield from (line.replace("%", number) for line in self.middle)
        for statement in self.second:
            yield from statement.lines(numbers)
        yield from (line.replace("%", number) for line in self.after)
