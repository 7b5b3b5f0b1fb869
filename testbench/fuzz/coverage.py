"""Coverage: which instructions were executed in which states of their warp, and in which states
warps entered the trap.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from math import log10

from rtl.isa.table import FORMS, find
from rtl.isa.tokens import CACHED_TOKENS, TokenKind
from sim.model.warp.faults import WarpFaultError
from sim.model.warp.state import Warp

__all__ = ["ENTRY", "INSTRUCTIONS", "STATES", "Coverage", "page", "states_of", "table"]

Coverage = Counter[tuple[str, str]]
"""(Instruction or ENTRY, state) -> number of events."""
INSTRUCTIONS = tuple(sorted({form.name for form in FORMS}))
NO_INSTRUCTION = "(none)"
"""Name of a word that is no instruction."""
ENTRY = "(trap entry)"
"""Name of a warp's entry into the trap."""
_TOPS = {kind: f"top {kind.name}" for kind in TokenKind if kind is not TokenKind.ILLEGAL}
STATES = {
    "whole": "all threads that have not ended are active",
    "diverged": "some of them are not",
    "flat": "nothing is on its stack",
    "on chip": "its stack is in the cache",
    "spilled": "some of its stack is in memory",
    "in call": "counted calls are open",
    "in trap": "it is in the trap",
    "partial": "it has fewer than 32 threads, or some were killed",
    **{name: f"the topmost token of its stack is {kind.name}" for kind, name in _TOPS.items()},
}
"""States of a warp."""
ENTRY_STATES = {
    "at barrier": "it waited at a barrier",
    "paused": "it was paused, and the host has woken it",
    "after error": "its last instruction had an error",
}
"""Further states of a warp that enters the trap."""
_SHADES = ((0, "#f6d5d5"), (10, "#fff3c4"), (100, "#d9f0d3"), (1000, "#9fd69a"))
"""Lower limits of a count, and the colour of each range."""
_BAR, _ROW = 360, 18
"""Width of the longest bar of a plot, and height of a row, in pixels."""


@cache
def instruction_of(word: int) -> str:
    """Returns the name of the word's instruction."""
    form = find(word)
    return NO_INSTRUCTION if form is None else form.name


@cache
def _names(
    diverged: bool, spilled: bool, called: bool, trapped: bool, partial: bool, top: TokenKind | None
) -> tuple[str, ...]:
    stack = "spilled" if spilled else "flat" if top is None else "on chip"
    found = ["diverged" if diverged else "whole", stack]
    found += [
        name
        for name, holds in (("in call", called), ("in trap", trapped), ("partial", partial))
        if holds
    ]
    if top in _TOPS:
        found.append(_TOPS[top])
    return tuple(found)


def states_of(warp: Warp) -> tuple[str, ...]:
    """Returns the states of a warp."""
    masks, depth = warp.masks, warp.stack.depth
    # Threads that are pending on a token are in no mask: they are the threads that have not ended
    # and are not active.
    missing = (masks.active | masks.exited | masks.killed) != (1 << 32) - 1
    top = None
    if depth:
        try:
            top = warp.stack.token(depth - 1).kind
        except WarpFaultError:
            top = TokenKind.ILLEGAL
    return _names(
        missing,
        depth > CACHED_TOKENS,
        warp.api_call_depth > 0,
        warp.in_trap,
        masks.killed != 0,
        top,
    )


class Observer:
    """Counts the events of a lockstep run."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[int | str, tuple[str, ...]]] = Counter()

    def __call__(self, warp: Warp, word: int) -> None:
        """Counts an executed instruction."""
        self._counts[word, states_of(warp)] += 1

    def entered(self, warp: Warp, waited: bool, failed: bool) -> None:
        """Counts a warp's entry into the trap, from a barrier if it ``waited``, after an error if
        it has ``failed``.
        """
        holds = zip(ENTRY_STATES, (waited, warp.trap.paused, failed), strict=True)
        self._counts[ENTRY, (*states_of(warp), *(name for name, holds in holds if holds))] += 1

    @property
    def coverage(self) -> Coverage:
        """Returns the coverage so far."""
        found: Coverage = Counter()
        for (what, states), times in self._counts.items():
            name = what if isinstance(what, str) else instruction_of(what)
            for state in states:
                found[name, state] += times
        return found


def _rows(coverage: Coverage) -> Iterable[tuple[str, list[int]]]:
    for name in (*INSTRUCTIONS, NO_INSTRUCTION):
        yield name, [coverage[name, state] for state in STATES]


def _entries(coverage: Coverage) -> list[tuple[str, int]]:
    """Returns the number of entries into the trap in each state."""
    return [(state, coverage[ENTRY, state]) for state in (*STATES, *ENTRY_STATES)]


def table(coverage: Coverage) -> str:
    """Returns a text: the number of instructions in each state, those never executed in it, and
    trap entries by state.
    """
    rows = list(_rows(coverage))
    lines = ["state          instructions that met it     entries into the trap"]
    for place, (state, entries) in enumerate(_entries(coverage)):
        met = (
            f"{sum(counts[place] > 0 for _, counts in rows):3} of {len(rows)}"
            if state in STATES
            else " " * 10
        )
        lines.append(f"{state:13} {met}{entries:>34,}")
    never = [name for name, counts in rows if not any(counts)]
    return "\n".join([*lines, f"never executed: {' '.join(never) or 'none'}"]) + "\n"


def _plot(title: str, bars: Sequence[tuple[str, int]]) -> str:
    """Returns bars with their names; lengths are logarithmic."""
    longest = max((log10(1 + number) for _, number in bars), default=0) or 1
    rows = "".join(
        f'<text x="0" y="{_ROW * row + 13}">{escape(name)}</text>'
        f'<rect x="110" y="{_ROW * row + 2}" height="{_ROW - 4}" width="{_BAR * log10(1 + number) / longest:.0f}" '
        f'fill="#7bb4d8"/><text x="{118 + _BAR * log10(1 + number) / longest:.0f}" y="{_ROW * row + 13}">'
        f"{number:,}</text>"
        for row, (name, number) in enumerate(bars)
    )
    return (
        f'<figure><figcaption>{escape(title)}</figcaption><svg width="{_BAR + 240}" height="{_ROW * len(bars)}" '
        f'font-size="12">{rows}</svg></figure>\n'
    )


def page(coverage: Coverage, title: str, facts: Iterable[tuple[str, str]]) -> str:
    """Returns a self-contained HTML page: plots and all numbers."""

    def cell(count: int) -> str:
        shade = next(colour for least, colour in reversed(_SHADES) if count >= least)
        return f'<td style="background:{shade}">{count:,}</td>'

    rows = list(_rows(coverage))
    head = "".join(
        f'<th title="{escape(meaning)}">{escape(state)}</th>' for state, meaning in STATES.items()
    )
    body = "".join(
        f"<tr><th>{escape(name)}</th>{''.join(map(cell, counts))}</tr>\n" for name, counts in rows
    )
    fact_rows = "".join(f"<li>{escape(name)}: {escape(value)}</li>" for name, value in facts)
    met = [
        (state, sum(counts[place] > 0 for _, counts in rows)) for place, state in enumerate(STATES)
    ]
    executed = [
        (state, sum(counts[place] for _, counts in rows)) for place, state in enumerate(STATES)
    ]
    plots = (
        _plot(f"Instructions, of {len(rows)}, that met each state (logarithmic)", met)
        + _plot("Warp instructions executed in each state (logarithmic)", executed)
        + _plot("Entries into the trap in each state (logarithmic)", _entries(coverage))
    )
    return (
        f"<!doctype html>\n<html lang=en><meta charset=utf-8><title>{escape(title)}</title>\n"
        "<style>body{font:14px sans-serif;margin:2em}table{border-collapse:collapse}"
        "td,th{padding:2px 8px;text-align:right;border:1px solid #ddd}tr th:first-child{text-align:left}"
        "thead th{position:sticky;top:0;background:#fff}figure{display:inline-block;vertical-align:top}</style>\n"
        f"<h1>{escape(title)}</h1>\n<ul>{fact_rows}</ul>\n{plots}"
        f"<table><thead><tr><th>instruction</th>{head}</tr></thead>\n<tbody>{body}</tbody></table></html>\n"
    )
