"""The results of mutants, in a file of SQLite, with which the next call continues."""

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
    """A file that cannot be read or written. The message is one line with the reason."""


@dataclass(frozen=True)
class StoredResult:
    """The stored result of a mutant."""

    state: MutantState
    by: str
    seconds: float


def digest_of(paths: Iterable[Path]) -> str:
    """Returns the digest of the content of files."""
    return sha256(b"\0".join(path.read_bytes() for path in sorted(paths))).hexdigest()


class Store:
    """The results file, which is created if it is missing; StoreError for any other file.

    A mutant's result is valid for one version of its source file: after a change of that file it is
    determined again.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._file = open_database(path, _TABLES)
        except sqlite3.Error as error:
            raise StoreError(f"{path}: {error}") from error

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def netlists(self, unit: Unit, sources: str) -> tuple[str, ...] | None:
        """Returns the digests of a unit's netlists, if it was run without a mutant on these
        sources.
        """
        row = self._file.execute(
            "SELECT netlists FROM baselines WHERE unit = ? AND sources = ?", (unit.name, sources)
        ).fetchone()
        return row and tuple(row[0].split())

    def add_baseline(self, found: Baseline, sources: str) -> None:
        """Stores the times and results of a unit's tests without a mutant."""
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
        """Returns which tests run which lines of a unit of host code, which must have been run
        without a mutant on these sources.
        """
        (record,) = self._file.execute(
            "SELECT record FROM lines WHERE unit = ? AND sources = ?", (unit.name, sources)
        ).fetchone()
        return record

    def plan(self, unit: Unit, sources: str) -> TrialPlan:
        """Returns the best order of a unit's tests, which must have been run without a mutant on
        these sources.

        Tests are ordered by killed mutants per second; a new test counts as if it killed the next
        one.
        """
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
        """Stores the result of a mutant of a file with this digest."""
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
        """Returns the result of a mutant of a file with this digest; None if it is unknown."""
        row = self._file.execute(
            "SELECT state, killer, seconds FROM mutants WHERE file = ? AND source = ? AND scope = ? AND change = ?",
            (mutant.file, source, mutant.scope, mutant.change),
        ).fetchone()
        return row and StoredResult(MutantState[row[0]], row[1], row[2])
