"""Which instructions met which states of their warp."""

from collections import Counter
from collections.abc import Iterable
from functools import cache
from html import escape

from rtl.isa.table import FORMS, find
from rtl.isa.tokens import CACHED_TOKENS
from sim.model.state import Warp

__all__ = ["INSTRUCTIONS", "STATES", "Coverage", "page", "states_of", "table"]

Coverage = Counter[tuple[str, str]]
"""(Instruction, state) -> how often."""
INSTRUCTIONS = tuple(sorted({form.name for form in FORMS}))
NO_INSTRUCTION = "(none)"
"""A word that is no instruction."""
STATES = {
    "whole": "all threads that have not ended are active", "diverged": "some of them are not",
    "flat": "nothing is on its stack", "on chip": "its stack is in the cache",
    "spilled": "some of its stack is in memory", "in trap": "it is in the trap",
    "partial": "it has fewer than 32 threads"}
"""States of a warp."""
_SHADES = ((0, "#f6d5d5"), (10, "#fff3c4"), (100, "#d9f0d3"), (1000, "#9fd69a"))
"""Colour of a number, and of larger ones."""


@cache
def instruction_of(word: int) -> str:
    """The instruction's name."""
    form = find(word)
    return NO_INSTRUCTION if form is None else form.name


def states_of(warp: Warp) -> tuple[str, ...]:
    """The states that a warp is in."""
    masks, depth = warp.masks, warp.stack.depth
    waiting = masks.broken | masks.continued | masks.returned | masks.longjumped
    stack = "flat" if not depth else "on chip" if depth <= CACHED_TOKENS else "spilled"
    # Threads that wait on the stack are in no mask: who has neither ended nor is active is among them.
    missing = ~(masks.active | masks.exited | masks.killed) & (1 << 32) - 1
    found = ["diverged" if waiting | missing else "whole", stack]
    if warp.in_trap:
        found.append("in trap")
    if warp.masks.killed:
        found.append("partial")
    return tuple(found)


class Observer:
    """Counts what a lockstep tells.

    Attributes:
        coverage: So far.
    """

    def __init__(self) -> None:
        self.coverage: Coverage = Counter()

    def __call__(self, warp: Warp, word: int) -> None:
        name = instruction_of(word)
        for state in states_of(warp):
            self.coverage[name, state] += 1


def _rows(coverage: Coverage) -> Iterable[tuple[str, list[int]]]:
    for name in (*INSTRUCTIONS, NO_INSTRUCTION):
        yield name, [coverage[name, state] for state in STATES]


def table(coverage: Coverage) -> str:
    """As text: how many instructions met each state, and which never did."""
    rows = list(_rows(coverage))
    lines = ["state          instructions that met it"]
    for place, state in enumerate(STATES):
        met = sum(counts[place] > 0 for _, counts in rows)
        lines.append(f"{state:12}  {met:3} of {len(rows)}")
    never = [name for name, counts in rows if not any(counts)]
    return "\n".join([*lines, f"never executed: {' '.join(never) or 'none'}"]) + "\n"


def page(coverage: Coverage, title: str, facts: Iterable[tuple[str, str]]) -> str:
    """As a page of HTML that needs nothing else."""
    def cell(count: int) -> str:
        shade = next(colour for least, colour in reversed(_SHADES) if count >= least)
        return f'<td style="background:{shade}">{count:,}</td>'

    head = "".join(f'<th title="{escape(meaning)}">{escape(state)}</th>' for state, meaning in STATES.items())
    body = "".join(f"<tr><th>{escape(name)}</th>{''.join(map(cell, counts))}</tr>\n"
                   for name, counts in _rows(coverage))
    told = "".join(f"<li>{escape(name)}: {escape(value)}</li>" for name, value in facts)
    return (f"<!doctype html>\n<html lang=en><meta charset=utf-8><title>{escape(title)}</title>\n"
            "<style>body{font:14px sans-serif;margin:2em}table{border-collapse:collapse}"
            "td,th{padding:2px 8px;text-align:right;border:1px solid #ddd}tr th:first-child{text-align:left}"
            "thead th{position:sticky;top:0;background:#fff}</style>\n"
            f"<h1>{escape(title)}</h1>\n<ul>{told}</ul>\n"
            f"<table><thead><tr><th>instruction</th>{head}</tr></thead>\n<tbody>{body}</tbody></table></html>\n")
