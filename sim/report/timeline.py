"""Exports a timeline of a run: as an HTML page, as a trace for Perfetto and Chrome, as a log for
Konata.
"""

import json
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from rtl.layouts import WaitReason
from sim.machine.diagnosis import REASON_TEXTS
from sim.machine.timeline import Timeline

__all__ = ["REASONS", "konata", "page", "trace"]

_TEMPLATE = Path(__file__).with_name("timeline.html")
_COLOURS = {
    WaitReason.READY: "#2e7d32",
    WaitReason.STALL: "#d5d8da",
    WaitReason.SCOREBOARD: "#e57373",
    WaitReason.LANES: "#81c8f7",
    WaitReason.UNIT: "#3f51b5",
    WaitReason.FLOW: "#ffb300",
    WaitReason.FETCH: "#8d6e63",
    WaitReason.DRAIN: "#00a99d",
    WaitReason.RESUME: "#b57edc",
    WaitReason.TRAP: "#d5007f",
}
REASONS = {reason: (colour, REASON_TEXTS[reason]) for reason, colour in _COLOURS.items()}
"""Colour and description of the reasons why a warp does not issue."""


def page(timeline: Timeline, title: str) -> str:
    """Returns a self-contained HTML page, with a row for each warp and the cycles from left to
    right.
    """
    texts: dict[str, int] = {}
    reasons = list(REASONS)
    spans: list[list[int]] = [[] for _ in range(timeline.params.warps)]
    executed: list[list[int]] = [[] for _ in range(timeline.params.warps)]
    for span in sorted(timeline.spans, key=lambda span: span.begin):
        spans[span.warp] += [span.begin, span.end, reasons.index(span.reason)]
    for one in timeline.executed:
        text = texts.setdefault(one.text, len(texts))
        end = timeline.end if one.end is None else one.end
        executed[one.warp] += [one.cycle, end, one.pc, text, one.active, one.error.value]
    content = {
        "title": title,
        "cycles": timeline.end,
        "ran": timeline.grid_cycles,
        "texts": list(texts),
        "spans": spans,
        "executed": executed,
        "reasons": [[reason.name.lower(), *REASONS[reason]] for reason in reasons],
    }
    written = json.dumps(content, separators=(",", ":")).replace("</", "<\\/")
    return _TEMPLATE.read_text(encoding="utf-8").replace("TIMELINE_CONTENT", written)


def trace(timeline: Timeline) -> str:
    """Returns the timeline as Chrome's trace events, which Perfetto also reads; a microsecond is a
    cycle.

    Each warp has two tracks: its wait reasons, and its issued instructions.
    """
    events: list[dict[str, object]] = []
    for warp in range(timeline.params.warps):
        for track, name in ((2 * warp, f"warp {warp}"), (2 * warp + 1, f"warp {warp}: issued")):
            events.append(
                {"ph": "M", "pid": 0, "tid": track, "name": "thread_name", "args": {"name": name}}
            )
    events += (
        {
            "ph": "X",
            "pid": 0,
            "tid": 2 * span.warp,
            "ts": span.begin,
            "dur": span.end - span.begin,
            "name": span.reason.name.lower(),
            "cat": "state",
        }
        for span in timeline.spans
    )
    events += (
        {
            "ph": "X",
            "pid": 0,
            "tid": 2 * one.warp + 1,
            "ts": one.cycle,
            "dur": 1,
            "name": one.text,
            "cat": "instruction",
            "args": {
                "pc": f"{one.pc:#06x}",
                "active": f"{one.active:08x}",
                "complete": one.end,
                "error": one.error.name,
            },
        }
        for one in timeline.executed
    )
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}) + "\n"


def konata(timeline: Timeline) -> str:
    """Returns a log in the format Kanata 0004 of Konata: an instruction is in stage X from issue to
    completion.
    """

    def lines() -> Iterator[tuple[int, str]]:
        for number, one in enumerate(timeline.executed):
            end = timeline.cycles if one.end is None else max(one.end, one.cycle + 1)
            yield one.cycle, f"I\t{number}\t{number}\t{one.warp}"
            yield one.cycle, f"L\t{number}\t0\twarp {one.warp} {one.pc:#06x} {one.text}"
            yield one.cycle, f"L\t{number}\t1\tactive {one.active:08x}, {one.error.name}"
            yield one.cycle, f"S\t{number}\t0\tX"
            yield end, f"E\t{number}\t0\tX"
            yield end, f"R\t{number}\t{number}\t{int(one.end is None)}"

    written, now = ["Kanata\t0004", "C=\t0"], 0
    for cycle, group in groupby(
        sorted(lines(), key=lambda line: line[0]), key=lambda line: line[0]
    ):
        if cycle > now:
            written.append(f"C\t{cycle - now}")
        written += (line for _, line in group)
        now = cycle
    return "\n".join(written) + "\n"
