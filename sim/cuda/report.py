"""The outcomes of a program's launches: as a table, and as JSON."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sim.cuda.device import LaunchRecord
from sim.cuda.names import readable

__all__ = ["content", "table"]


def _shape(sizes: tuple[int, int, int]) -> str:
    """Returns three sizes, without trailing ones."""
    shown = list(sizes)
    while len(shown) > 1 and shown[-1] == 1:
        shown.pop()
    return ",".join(map(str, shown))


def table(launches: Sequence[LaunchRecord]) -> list[str]:
    """Returns the launches as a table of one line each."""
    rows = [
        (
            "launch",
            "kernel",
            "grid",
            "block",
            "cycles",
            "instructions",
            "cycles/instr",
            "seconds",
            "status",
        )
    ]
    for number, one in enumerate(launches, 1):
        outcome = one.outcome
        each = f"{outcome.cycles / outcome.instructions:.2f}" if outcome.instructions else "-"
        rows.append(
            (
                str(number),
                readable(one.kernel),
                _shape(one.grid),
                _shape(one.block),
                f"{outcome.cycles:,}",
                f"{outcome.instructions:,}",
                each,
                f"{one.seconds:.3f}",
                outcome.status,
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    left = {1, 8}
    return [
        "  ".join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _error(one: LaunchRecord) -> dict[str, Any] | None:
    """Returns the error of a launch, with None for unknown details; None for a launch that
    succeeded.
    """
    if not one.message:
        return None
    found, outcome = one.outcome.error, one.outcome
    return {
        "message": one.message,
        "result": one.result,
        "error": None if found is None else found.error.name,
        "warp": None if found is None else found.warp,
        "block": None if found is None else found.block,
        "thread": None if found is None else found.thread,
        "pc": None if found is None else found.pc,
        "instruction": None if found is None else found.instruction,
        "address": None if found is None else found.address,
        "reason": outcome.reason or None,
        "difference": outcome.difference,
        "assertions": list(one.assertions),
    }


def _launch(number: int, one: LaunchRecord) -> dict[str, Any]:
    """Returns one launch under the names that the page on CUDA programs explains."""
    outcome = one.outcome
    return {
        "launch": number,
        "kernel": readable(one.kernel, None),
        "symbol": one.kernel,
        "grid": one.grid,
        "block": one.block,
        "cycles": outcome.cycles,
        "instructions": outcome.instructions,
        "counters": dict(outcome.counters),
        "seconds": one.seconds,
        "status": outcome.status,
        "error": _error(one),
    }


def content(launches: Sequence[LaunchRecord], setting: Mapping[str, Any]) -> bytes:
    """Returns all launches as JSON, one on a line, after what they have in common, the ``setting``."""
    lines = ",\n ".join(json.dumps(_launch(number, one)) for number, one in enumerate(launches, 1))
    return f'{json.dumps(dict(setting))[:-1]}, "launches": [\n {lines}]}}\n'.encode()
