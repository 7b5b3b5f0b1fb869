"""Databases of results: SQLite files of this project's own tables."""

import sqlite3
from pathlib import Path

__all__ = ["open_database"]


def open_database(path: Path, script: str) -> sqlite3.Connection:
    """Opens a database, which is made if it is not there; ``script`` makes the tables that are missing.

    sqlite3.Error for what is no database, and for one with tables that the script does not make: it
    is another program's, and stays as it is.
    """
    own = _tables(_scripted(sqlite3.connect(":memory:"), script))
    file = sqlite3.connect(path)
    try:
        if others := _tables(file) - own:
            raise sqlite3.DatabaseError(
                f"is another program's database: it has a table {min(others)}"
            )
        return _scripted(file, script)
    except sqlite3.Error:
        file.close()
        raise


def _scripted(file: sqlite3.Connection, script: str) -> sqlite3.Connection:
    """The database, in which the script has run."""
    file.executescript(script)
    return file


def _tables(file: sqlite3.Connection) -> set[str]:
    """Names of the tables, without SQLite's own."""
    rows = file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    return {name for (name,) in rows if not name.startswith("sqlite_")}
