"""Statements of random programs, and the registers reserved for them."""

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
"""Registers: thread number; index into a table; addresses of own and neighbour's shared memory;
address of the thread's first piece (a pair); first loop counter; remaining levels of recursion;
remaining iterations of the body.
"""
CONDITION = 6
"""The predicate of loop conditions."""


@dataclass(frozen=True)
class Statement:
    """A statement: lines ``before``, nested statements, lines ``middle``, nested statements, lines
    ``after``.

    ``%`` in a label is replaced by a unique number.
    """

    before: tuple[str, ...]
    first: tuple["Statement", ...] = ()
    middle: tuple[str, ...] = ()
    second: tuple["Statement", ...] = ()
    after: tuple[str, ...] = ()

    def lines(self, numbers: Iterator[int]) -> Iterator[str]:
        """The lines of text."""
        number = str(next(numbers))
        yield from (line.replace("%", number) for line in self.before)
        for statement in self.first:
            yield from statement.lines(numbers)
        yield from (line.replace("%", number) for line in self.middle)
        for statement in self.second:
            yield from statement.lines(numbers)
        yield from (line.replace("%", number) for line in self.after)
