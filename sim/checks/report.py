"""The report of a testbench."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Report", "near"]


@dataclass
class Report:
    """The results of a testbench.

    Attributes:
        name: The unit.
        title: What it checks, in one line.
        engine: The simulation engine.
        seed: The random seed.
        checks: The passed checks, and their counts.
        figures: Measured values with units, by name.
        tables: Tables of figures: title, and rows, the first of which has the headings.
        cycles: Clock cycles of all simulations.
        waveforms: VCD files, and the save files that show them.
        failure: The first failed check; None without one.
        seconds: Duration in seconds.
        is_recording: Whether only a waveform was recorded, and nothing checked.
    """

    name: str
    title: str
    engine: str
    seed: int
    checks: dict[str, int] = field(default_factory=dict)
    figures: dict[str, tuple[float, str]] = field(default_factory=dict)
    tables: list[tuple[str, list[list[Any]]]] = field(default_factory=list)
    cycles: int = 0
    waveforms: list[tuple[Path, Path | None]] = field(default_factory=list)
    failure: str | None = None
    seconds: float = 0.0
    is_recording: bool = False

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return self.failure is None

    def add_waveform(self, vcd: Path, save: Path | None) -> None:
        """Adds a written waveform; one with the same path is the same file."""
        if (vcd, save) not in self.waveforms:
            self.waveforms.append((vcd, save))

    def text(self) -> str:
        """Returns the report as text."""
        lines = [
            f"{self.name}: {self.title}" if self.title else self.name,
            f"engine {self.engine}, seed {self.seed}",
        ]
        if self.checks:
            lines += [
                "",
                "checked",
                *_aligned([[f"{count:,}", what] for what, count in self.checks.items()], "><"),
            ]
        figures = {"cycles": (self.cycles, ""), **self.figures}
        if not self.is_recording:
            lines += [
                "",
                "figures",
                *_aligned(
                    [[name, _number(value), unit] for name, (value, unit) in figures.items()], "<><"
                ),
            ]
        for title, rows in self.tables:
            cells = [
                [cell if isinstance(cell, str) else _number(cell) for cell in row] for row in rows
            ]
            lines += ["", title, *_aligned(cells, "<" + ">" * (len(rows[0]) - 1))]
        if self.failure is not None:
            end = f"FAIL {self.failure}"
        elif self.is_recording:
            end = f"recorded {self.cycles:,} cycles in {self.seconds:.1f} s"
        else:
            end = f"PASS in {self.seconds:.1f} s"
        lines += ["", end]
        lines += [
            f"waveform {near(vcd)}"
            + (f", shown by: gtkwave {near(save)}" if save is not None else "")
            for vcd, save in self.waveforms
        ]
        return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    """Formats a figure: integers in full, others with four digits."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"


def near(path: Path) -> str:
    """Returns a path as a user would type it in the current folder."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


def _aligned(rows: Sequence[Sequence[str]], sides: str) -> list[str]:
    """Returns the rows' cells in columns; ``sides`` has ``<`` or ``>`` for each."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(sides))]
    lines = (
        "  ".join(
            f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True)
        )
        for row in rows
    )
    return [f"  {line}".rstrip() for line in lines]
