"""The results of mutants, in a file of SQLite; the next call continues where that ends."""

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from sim.checks.mutation.mutants import Mutant
from sim.checks.mutation.trial import Baseline, MutantState, Trial, TrialPlan
from sim.checks.mutation.units import Unit
from sim.support.command import CommandError
from sim.support.database import open_database

__all__ = ["Store", "StoreError", "StoredResult", "digest_of"]

_TABLES = """
CREATE TABLE IF NOT EXISTS baselines (
    unit TEXT NOT NULL, sources TEXT NOT NULL, netlists TEXT NOT NULL, PRIMARY KEY (unit, sources));
CREATE TABLE IF NOT EXISTS tests (
    unit TEXT NOT NULL, name TEXT NOT NULL, is_test INTEGER NOT NULL, alone REAL NOT NULL, kills INTEGER NOT NULL,
    spent REAL NOT NULL, PRIMARY KEY (unit, name));
CREATE TABLE IF NOT EXISTS lines (
    unit TEXT NOT NULL, sources TEXT NOT NULL, record BLOB NOT NULL, PRIMARY KEY (unit, sources));
CREATE TABLE IF NOT EXISTS mutants (
    file TEXT NOT NULL, source TEXT NOT NULL, scope TEXT NOT NULL, change TEXT NOT NULL, state TEXT NOT NULL,
    killer TEXT NOT NULL, seconds REAL NOT NULL, PRIMARY KEY (file, source, scope, change));
"""


class StoreError(CommandError):
    """A file that can't be read or written; one line with the reason."""


@dataclass(frozen=True)
class StoredResult:
    """What is kept of a mutant."""

    state: MutantState
    by: str
    seconds: float


def digest_of(paths: Iterable[Path]) -> str:
    """Of the content of files."""
    return sha256(b"\0".join(path.read_bytes() for path in sorted(paths))).hexdigest()


class Store:
    """The file, which is made if it is not there. A mutant's result is kept for one text of its
    source file: after a change of that file it is determined again. StoreError for what is no such
    file."""

    def __init__(self, path: Path) -> None:
        try:
            self._file = open_database(path, _TABLES)
        except sqlite3.Error as error:
            raise StoreError(f"{path}: {error}") from error

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def netlists(self, unit: Unit, sources: str) -> tuple[str, ...] | None:
        """Digests of a unit's netlists, if it was run without a mutant, on these sources."""
        row = self._file.execute(
            "SELECT netlists FROM baselines WHERE unit = ? AND sources = ?", (unit.name, sources)
        ).fetchone()
        return row and tuple(row[0].split())

    def add_baseline(self, found: Baseline, sources: str) -> None:
        """Keeps what a unit's tests take without a mutant."""
        with self._file:
            self._file.execute(
                "INSERT OR REPLACE INTO baselines VALUES (?, ?, ?)",
                (found.unit, sources, " ".join(found.netlists)),
            )
            self._file.execute(
                "INSERT OR REPLACE INTO lines VALUES (?, ?, ?)", (found.unit, sources, found.lines)
            )
            for is_test, times in ((1, found.tests), (0, found.stages)):
                self._file.executemany(
                    "INSERT INTO tests VALUES (?, ?, ?, ?, 0, 0) ON CONFLICT DO UPDATE SET alone = excluded.alone",
                    [(found.unit, name, is_test, seconds) for name, seconds in times.items()],
                )

    def lines(self, unit: Unit, sources: str) -> bytes:
        """Which tests run which lines of a unit of host code that was run without a mutant, on these sources."""
        (record,) = self._file.execute(
            "SELECT record FROM lines WHERE unit = ? AND sources = ?", (unit.name, sources)
        ).fetchone()
        return record

    def plan(self, unit: Unit, sources: str) -> TrialPlan:
        """The best order of a unit's tests, for sources on which they were run without a mutant: by
        killed mutants a second; a new test counts as if it killed the next one."""
        rows = list(
            self._file.execute(
                "SELECT name, is_test, alone, kills, spent FROM tests WHERE unit = ?", (unit.name,)
            )
        )
        rate = {
            name: (1 + kills) / (1 + alone + spent)
            for name, is_test, alone, kills, spent in rows
            if is_test
        }
        return TrialPlan(
            tuple(sorted(rate, key=lambda name: (-rate[name], name))),
            {row[0]: row[2] for row in rows},
            self.netlists(unit, sources) or (),
        )

    def add(self, unit: Unit, source: str, trial: Trial) -> None:
        """Keeps what became of a mutant of a file with this digest."""
        with self._file:
            self._file.execute(
                "INSERT OR REPLACE INTO mutants VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    trial.mutant.file,
                    source,
                    trial.mutant.scope,
                    trial.mutant.change,
                    trial.state.name,
                    trial.by,
                    trial.seconds,
                ),
            )
            self._file.executemany(
                "UPDATE tests SET kills = kills + ?, spent = spent + ? WHERE unit = ? AND name = ?",
                [
                    (int(name == trial.by), seconds, unit.name, name)
                    for name, seconds in trial.spent.items()
                ],
            )

    def of(self, mutant: Mutant, source: str) -> StoredResult | None:
        """What became of a mutant of a file with this digest, if that is known."""
        row = self._file.execute(
            "SELECT state, killer, seconds FROM mutants WHERE file = ? AND source = ? AND scope = ? AND change = ?",
            (mutant.file, source, mutant.scope, mutant.change),
        ).fetchone()
        return row and StoredResult(MutantState[row[0]], row[1], row[2])
