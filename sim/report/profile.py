"""A profile as text, as JSON, and as a page with the source beside it."""

import html
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rtl.layouts import WaitReason
from sim.machine.profile import Cost, Profile
from sim.report.timeline import REASONS

__all__ = ["content", "page", "text"]

_NUMBERS = ("cycles", "share", "issues", "threads", "lines", "passes", "conflicts")
_HEADINGS = (*_NUMBERS, "instruction", "waits")
Lines = Mapping[int, tuple[str, int]]
"""File and line of the source by pc."""
_NOT_SELECTED = "not selected"
"""Label of the cycles in which a warp could issue, and was not selected."""
_SHOWN = 3
"""Number of wait reasons of an instruction in the text."""
_STYLE = """
body { font: 13px sans-serif; margin: 16px; color: #222 }
table { border-collapse: collapse; margin-bottom: 24px } td, th { padding: 1px 10px; text-align: right }
th { border-bottom: 1px solid #888 } td.text, th.text { text-align: left; font-family: monospace; white-space: pre }
.bar { display: inline-flex; width: 220px; height: 11px } .bar i { height: 100% }
.share { background: linear-gradient(90deg, #ffab91 var(--share), transparent var(--share)) }
.key span { display: inline-block; margin-right: 12px }
.key i { display: inline-block; width: 11px; height: 11px; margin-right: 4px }
"""


def _waits(cost: Cost) -> list[tuple[str, int]]:
    """Returns the wait reasons with their cycles, the longest first, without the cycles of the
    issues.
    """
    waits_by_reason = [
        (reason.name.lower(), cycles)
        for reason, cycles in cost.waits.items()
        if reason is not WaitReason.READY
    ]
    if cost.not_selected:
        waits_by_reason.append((_NOT_SELECTED, cost.not_selected))
    return sorted(waits_by_reason, key=lambda one: -one[1])


def _summary(profile: Profile) -> str:
    """Returns the distribution of the warp cycles over reasons, the largest first."""
    parts: Counter[str] = Counter()
    for cost in profile.costs.values():
        parts.update(dict(_waits(cost)))
        parts["issue"] += cost.cycles - sum(cycles for _, cycles in _waits(cost))
    whole = _whole(profile)
    return ", ".join(
        f"{name} {100 * cycles / whole:.1f}%" for name, cycles in parts.most_common() if cycles
    )


def _cells(cost: Cost, whole: int) -> list[str]:
    """Returns the columns of an instruction from its cycles to its conflicts."""
    return [
        str(cost.cycles),
        f"{100 * cost.cycles / whole:.1f}%",
        str(cost.issues),
        f"{cost.threads / cost.issues:.1f}",
        str(cost.lines),
        str(cost.passes),
        str(cost.conflicts),
    ]


def _total(profile: Profile) -> int:
    """Returns the sum of the warp cycles."""
    return sum(cost.cycles for cost in profile.costs.values())


def _whole(profile: Profile) -> int:
    """Returns the sum of the warp cycles as a divisor, at least 1."""
    return _total(profile) or 1


def text(profile: Profile, count: int | None = None) -> str:
    """Returns the distribution of all cycles, and the ``count`` most expensive instructions, as
    text.
    """
    hottest, whole = profile.hottest, _whole(profile)
    costs = hottest[:count]
    rows = [
        [
            *_cells(cost, whole),
            f"{cost.pc:04x} {cost.text}",
            ", ".join(f"{name} {cycles}" for name, cycles in _waits(cost)[:_SHOWN]),
        ]
        for cost in costs
    ]
    lines = [list(_HEADINGS), *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_HEADINGS))]
    table = "".join(
        "  ".join(
            f"{cell:{'<' if column >= len(_NUMBERS) else '>'}{width}}"
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        + "\n"
        for line in lines
    )
    spent = f"warp cycles   {_total(profile)}: {_summary(profile)}\n\n" if profile.costs else ""
    cut = len(costs) < len(hottest)
    note = f"{len(costs)} of {len(hottest)} instructions; --lines N shows more\n" if cut else ""
    return f"{spent}{table}{note}"


def _by_reason(waits: Mapping[WaitReason, int]) -> dict[str, int]:
    """Returns cycles by the names of their reasons."""
    return {reason.name.lower(): cycles for reason, cycles in waits.items()}


def content(profile: Profile, lines: Lines) -> dict[str, Any]:
    """Returns the whole profile for JSON, in the order of the program."""
    waits: Counter[WaitReason] = Counter()
    for cost in profile.costs.values():
        waits.update(cost.waits)
    return {
        "cycles": profile.timeline.grid_cycles,
        "warp_cycles": _total(profile),
        "waits": _by_reason(waits),
        "issues": sum(cost.issues for cost in profile.costs.values()),
        "not_selected": sum(cost.not_selected for cost in profile.costs.values()),
        "instructions": [
            {
                "pc": cost.pc,
                "text": cost.text,
                "issues": cost.issues,
                "threads": cost.threads,
                "cycles": cost.cycles,
                "waits": _by_reason(cost.waits),
                "not_selected": cost.not_selected,
                "latency": cost.latency,
                "ended": cost.ended,
                "lines": cost.lines,
                "passes": cost.passes,
                "conflicts": cost.conflicts,
                **({"source": list(lines[cost.pc])} if cost.pc in lines else {}),
            }
            for cost in sorted(profile.costs.values(), key=lambda cost: cost.pc)
        ],
    }


def _bar(waits: Mapping[WaitReason, int]) -> str:
    parts = "".join(
        f'<i style="flex:{cycles};background:{REASONS[reason][0]}" '
        f'title="{reason.name.lower()} {cycles}"></i>'
        for reason, cycles in sorted(waits.items(), key=lambda one: -one[1])
        if cycles
    )
    return f'<span class="bar">{parts}</span>'


def _row(
    cells: Sequence[str], waits: Mapping[WaitReason, int], words: str, cycles: int, most: int
) -> str:
    shown = "".join(f"<td>{cell}</td>" for cell in cells)
    share = f"{100 * cycles / (most or 1):.0f}%"
    return (
        f'<tr>{shown}<td>{_bar(waits)}</td><td class="text share" style="--share:{share}">{html.escape(words)}</td>'
        "</tr>\n"
    )


def page(profile: Profile, title: str, lines: Lines, sources: Mapping[str, Sequence[str]]) -> str:
    """Returns a self-contained HTML page: the most expensive instructions first, above them the
    lines of the known sources with the costs of their instructions.

    Args:
        profile: The profile.
        title: Title of the page.
        lines: File and line by pc.
        sources: Lines by file.
    """
    whole, costs = _whole(profile), profile.hottest
    most = costs[0].cycles if costs else 1
    parts = [
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f"<style>{_STYLE}</style>\n<h1>{html.escape(title)}</h1>\n<p>The grid ran {profile.timeline.grid_cycles:,} "
        f"cycles; its warps lived {whole:,} altogether, which the instructions below share: "
        f"{_summary(profile)}. "
        f'Point at a bar: how many cycles went by for each reason.</p>\n<p class="key">'
        + "".join(
            f'<span><i style="background:{colour}"></i>{reason.name.lower()}: {meaning}</span>'
            for reason, (colour, meaning) in REASONS.items()
        )
        + "</p>\n"
    ]
    for name, source in sources.items():
        parts.append(_source(profile, name, source, lines, whole))
    headings = "".join(f"<th>{heading}</th>" for heading in (*_NUMBERS, "waits"))
    parts.append(
        f'<h2>Instructions</h2>\n<table><tr>{headings}<th class="text">instruction</th></tr>\n'
    )
    for cost in costs:
        where = f"  {lines[cost.pc][0]}:{lines[cost.pc][1]}" if cost.pc in lines else ""
        parts.append(
            _row(
                _cells(cost, whole),
                cost.waits,
                f"{cost.pc:04x} {cost.text}{where}",
                cost.cycles,
                most,
            )
        )
    return "".join([*parts, "</table>\n</html>\n"])


def _source(profile: Profile, name: str, source: Sequence[str], lines: Lines, whole: int) -> str:
    """Returns the lines of a source, in their order."""
    waits: dict[int, Counter[WaitReason]] = {}
    for cost in profile.costs.values():
        file, number = lines.get(cost.pc, ("", 0))
        if file == name:
            waits.setdefault(number, Counter()).update(cost.waits)
    most = max((spent.total() for spent in waits.values()), default=1)
    rows = []
    for number, line in enumerate(source, 1):
        spent = waits.get(number, Counter())
        cells = [
            str(number),
            *((str(spent.total()), f"{100 * spent.total() / whole:.1f}%") if spent else ("", "")),
        ]
        rows.append(_row(cells, spent, line, spent.total(), most))
    return (
        f"<h2>{html.escape(name)}</h2>\n<table><tr><th>line</th><th>cycles</th><th>share</th><th>waits</th>"
        f'<th class="text">source</th></tr>\n{"".join(rows)}</table>\n'
    )
