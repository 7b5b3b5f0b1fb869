"""The results of a campaign, in an SQLite file; a campaign continues where it ended."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from sim.support.command import CommandError
from sim.support.database import open_database
from testbench.fuzz.coverage import Coverage
from testbench.fuzz.player import Outcome

__all__ = ["Store", "StoreError"]

_TABLES = """
CREATE TABLE IF NOT EXISTS campaign (seed INTEGER NOT NULL, preset TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS cases (
    number INTEGER PRIMARY KEY, kind TEXT NOT NULL, status TEXT NOT NULL, instructions INTEGER NOT NULL,
    cycles INTEGER NOT NULL, seconds REAL NOT NULL, failure TEXT);
CREATE TABLE IF NOT EXISTS coverage (
    instruction TEXT NOT NULL, state TEXT NOT NULL, times INTEGER NOT NULL, PRIMARY KEY (instruction, state));
"""


class StoreError(CommandError):
    """The file is not a file of this campaign; the message is one line with the reason."""


class Store:
    """The file of a campaign, which is created if it does not exist.

    Raises StoreError if it belongs to another campaign or is no such file.
    """

    def __init__(self, path: Path, seed: int, preset: str) -> None:
        try:
            self._file = open_database(path, _TABLES)
            kept = self._file.execute("SELECT seed, preset FROM campaign").fetchone()
        except sqlite3.Error as error:
            raise StoreError(f"{path}: {error}") from error
        if kept is None:
            with self._file:
                self._file.execute("INSERT INTO campaign VALUES (?, ?)", (seed, preset))
        elif kept != (seed, preset):
            raise StoreError(f"{path}: is the campaign of seed {kept[0]}, preset {kept[1]}")

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def add(self, outcome: Outcome) -> None:
        """Stores an outcome in one transaction; one that is stored already is not changed."""
        with self._file:
            fresh = self._file.execute(
                "INSERT OR IGNORE INTO cases VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    outcome.number,
                    outcome.kind,
                    outcome.status,
                    outcome.instructions,
                    outcome.cycles,
                    outcome.seconds,
                    outcome.failure,
                ),
            ).rowcount
            if fresh:
                self._file.executemany(
                    "INSERT INTO coverage VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET times = times + excluded.times",
                    [(*key, times) for key, times in outcome.coverage.items()],
                )

    def missing(self) -> Iterator[int]:
        """Yields the numbers of cases that have not run, without end."""
        played = {number for (number,) in self._file.execute("SELECT number FROM cases")}
        number = 0
        while True:
            if number not in played:
                yield number
            number += 1

    @property
    def coverage(self) -> Coverage:
        """Returns the coverage of all cases."""
        rows = self._file.execute("SELECT instruction, state, times FROM coverage")
        return Coverage({(name, state): times for name, state, times in rows})

    @property
    def failures(self) -> list[tuple[int, str]]:
        """Returns the cases that failed, and their failures."""
        return list(
            self._file.execute(
                "SELECT number, failure FROM cases WHERE failure IS NOT NULL ORDER BY number"
            )
        )

    @property
    def sums(self) -> dict[str, tuple[int, int, int, float]]:
        """Returns for each kind: cases, instructions, cycles, seconds of processor time."""
        rows = self._file.execute(
            "SELECT kind, COUNT(*), SUM(instructions), SUM(cycles), SUM(seconds) FROM cases "
            "GROUP BY kind ORDER BY kind"
        )
        return {kind: tuple(counts) for kind, *counts in rows}
