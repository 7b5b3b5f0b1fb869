"""Switches in a netlist: which of their arms exclude each other, and which become selections by
index.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sim.engine.internals import Matches, PriorityMatch

__all__ = ["Switch", "Switches", "arms_by_number"]

_CHOICE = 8
"""Limit in bits of a value that indexes a table."""
_FEW = 4
"""Limit of rivals that are tested one by one; beyond it all earlier arms are tested, a test that
other arms share.
"""
_Pattern = tuple[int, int]
"""The mask of the bits of a value that are compared, and their required values."""


@dataclass(frozen=True, eq=False)
class Switch:
    """A selection between arms by the patterns of a value, where it is enabled."""

    enable: Any
    value: Any
    patterns: tuple[tuple[_Pattern, ...], ...]

    def choose(self, results: Mapping[int, int], otherwise: int) -> tuple[int, ...]:
        """Returns, for each value, the result of its arm, or ``otherwise``."""
        return tuple(
            results.get(arm, otherwise) for arm in arms_by_number(len(self.value), self.patterns)
        )


@cache
def arms_by_number(width: int, patterns: tuple[tuple[_Pattern, ...], ...]) -> tuple[int, ...]:
    """Returns, for each number of this width, the index of the first arm that matches it, or -1."""
    return tuple(
        next(
            (
                arm
                for arm, each in enumerate(patterns)
                if any(number & care == wanted for care, wanted in each)
            ),
            -1,
        )
        for number in range(1 << width)
    )


class Switches:
    """The switches among cells."""

    def __init__(self, cells: Sequence[Any]) -> None:
        self._cells = cells
        self._matches: dict[int, tuple[Any, tuple[_Pattern, ...]]] = {}
        self._found: dict[int, Switch | None] = {}

    def of(self, net: Any) -> Switch | None:
        """Returns the switch to which a condition belongs as an arm; None if none selects by a
        small number.
        """
        if net.is_const or not isinstance(self._cells[net.cell], PriorityMatch):
            return None
        if net.cell not in self._found:
            self._found[net.cell] = self._switch(self._cells[net.cell])
        return self._found[net.cell]

    def rivals(self, cell: Any, number: int) -> Sequence[Any]:
        """Returns the earlier inputs of a priority cell that can be 1 together with this one."""
        before = cell.inputs[:number]
        mine = self._patterns(cell.inputs[number])
        if mine is None:
            return before
        rivals = []
        for net in before:
            other = self._patterns(net)
            if (
                other is None
                or other[0] != mine[0]
                or any(
                    not (one[0] & two[0] & (one[1] ^ two[1])) for one in mine[1] for two in other[1]
                )
            ):
                rivals.append(net)
        return rivals if len(rivals) <= _FEW else before

    def _patterns(self, net: Any) -> tuple[Any, tuple[_Pattern, ...]] | None:
        """Returns the value that a match compares, and the patterns."""
        if net.is_const or not isinstance(cell := self._cells[net.cell], Matches):
            return None
        if net.cell not in self._matches:
            self._matches[net.cell] = (
                cell.value,
                tuple(
                    (
                        int("0" + pattern.replace("0", "1").replace("-", "0"), 2),
                        int("0" + pattern.replace("-", "0"), 2),
                    )
                    for pattern in cell.patterns
                ),
            )
        return self._matches[net.cell]

    def _switch(self, cell: Any) -> Switch | None:
        arms = [self._patterns(net) for net in cell.inputs]
        values = {arm[0] for arm in arms if arm is not None}
        if len(values) != 1 or None in arms:
            return None
        (value,) = values
        if len(value) > _CHOICE:
            return None
        return Switch(cell.en, value, tuple(arm[1] for arm in arms if arm is not None))
