"""Why a file that a command was given can't be read."""

import os
from pathlib import Path

__all__ = ["why_unreadable"]

_ROOT = Path(__file__).parents[2]


def why_unreadable(path: str | Path, error: OSError) -> str:
    """One line: the path and the reason. A relative path that leads somewhere from the project's
    folder is often one of the manual, given in another folder: where the file is stands behind it."""
    line = f"{path}: {error.strerror}"
    target = _ROOT / path
    if isinstance(error, FileNotFoundError) and not Path(path).is_absolute() and target.is_file():
        line += f"; there is {os.path.relpath(target)}"
    return line
