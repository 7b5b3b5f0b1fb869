"""Folders for cached files, and the fallback for one that cannot be written."""

import os
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory

__all__ = ["cache_home", "scratch", "why_unwritable"]

_ROOM = 8 << 20
"""Bytes that must be free: the size of a large machine's model."""


@cache
def _folder() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="warpstack-")


def scratch() -> Path:
    """Returns a temporary folder of this process, which is removed with it; OSError if no place is
    writable.
    """
    return Path(_folder().name)


def why_unwritable(folder: Path) -> str | None:
    """Returns why no files can be written to a folder, which is created if it is missing; None if
    they can.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=folder, prefix=".") as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, _ROOM)
            else:
                file.write(bytes(_ROOM))
                file.flush()
    except OSError as error:
        return error.strerror or str(error)
    return None


@cache
def cache_home() -> Path | None:
    """Returns the cache folder for other programs if the user's is not writable; None if they find
    one by themselves.
    """
    with suppress(RuntimeError):
        home = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
        if home.is_dir() and os.access(home, os.W_OK | os.X_OK):
            return None
        if not home.exists() and why_unwritable(home) is None:
            return None
    return scratch() / "caches"
