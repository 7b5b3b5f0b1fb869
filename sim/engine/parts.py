"""Values taken apart: where they are cut into words."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sim.engine.graph import WORD

__all__ = ["Part", "cut", "runs"]


@dataclass(frozen=True)
class Part:
    """Bits of a cell's output, from ``start`` on."""

    start: int
    width: int


def runs(nets: Sequence[Any]) -> list[int]:
    """Where a value is put together: the places between bits that are no neighbours at their source."""
    marks = []
    for at in range(1, len(nets)):
        before, net = nets[at - 1], nets[at]
        if net != before + 1 and net != before and not (net.is_const and before.is_const):
            marks.append(at)
    return marks


def cut(width: int, marks: Iterable[int], firm: Iterable[int] = ()) -> list[Part]:
    """Parts of up to 64 bits, at marks where possible, and at each firm one."""
    ends = sorted({*firm, width} - {0})
    parts, start = [], 0
    wanted = [mark for mark in marks if 0 < mark < width]
    for end in ends:
        if end > width:
            break
        while end - start > WORD:
            index = bisect_right(wanted, start + WORD) - 1
            mark = wanted[index] if index >= 0 and wanted[index] > start else start + WORD
            parts.append(Part(start, mark - start))
            start = mark
        if end > start:
            parts.append(Part(start, end - start))
            start = end
    return parts
