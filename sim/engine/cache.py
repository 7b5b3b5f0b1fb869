"""The folder of compiled models and programs, so that each is compiled once.

It is the one named by the environment variable ``WARPSTACK_CACHE``, or ``~/.cache/warpstack``;
``WARPSTACK_CACHE_MIB`` is its limit in MiB, 1024 by default. If it is not writable a temporary
folder replaces it, for this process and its children, and one line reports that before anything is
compiled. Each file ends in a digest of its content; a damaged file is treated as missing. Files are
moved into place as a whole, so that many processes can share the folder.
"""

import hashlib
import os
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

from sim.engine.errors import EngineError
from sim.support.scratch import scratch, why_unwritable

__all__ = [
    "VARIABLE",
    "cache_folder",
    "is_on",
    "is_sealed",
    "keep",
    "load",
    "model_folder",
    "prepare",
    "store",
    "switch",
    "trim",
]

VARIABLE = "WARPSTACK_CACHE"
"""The environment variable that names the folder."""
LIMIT_MIB = 1024
"""The default limit of the folder's size in MiB."""
SUFFIXES = (".so", ".json", ".cubin")
"""Suffixes of cached files: libraries, records of their content, and compiled PTX of CUDA programs."""
_SEAL = hashlib.sha256().digest_size


def cache_folder() -> Path:
    """Returns the path of the cache folder."""
    named = os.environ.get(VARIABLE)
    try:
        return Path(named or "~/.cache/warpstack").expanduser()
    except RuntimeError:  # There is no home directory.
        return _instead(named or "the folder of the user", "there is no home folder")


def prepare() -> None:
    """Replaces a cache folder that is not writable by a temporary one. Call it before something is
    compiled.

    Raises:
        EngineError: There is no writable folder, or the limit is not an integer.
    """
    _limit()
    folder = cache_folder()
    if is_on() and (why := why_unwritable(folder)) is not None:
        _instead(folder, why)


def _instead(folder: Path | str, why: str) -> Path:
    """Replaces a folder by a temporary one from now on, and prints a line; returns the new folder."""
    try:
        place = scratch() / "models"
        place.mkdir(exist_ok=True)
    except OSError as error:
        raise EngineError(
            f"engine compiled: no place for models: {folder}: {why}; nor a temporary folder: "
            f"{error.strerror or error}"
        ) from error
    os.environ[VARIABLE] = str(place)  # Child processes inherit it.
    print(
        f"warning: {folder} cannot be written ({why}): models are kept for this run alone; {VARIABLE} names another "
        "folder",
        file=sys.stderr,
    )
    return place


_switch = {"on": True}


def switch(on: bool) -> None:
    """Sets whether this process uses the cache, both to load earlier results and to store new ones."""
    _switch["on"] = on


def is_on() -> bool:
    """Whether this process uses the cache."""
    return _switch["on"]


def model_folder() -> Path:
    """Returns the folder for newly compiled models."""
    if is_on():
        return cache_folder()
    try:
        return scratch()
    except OSError as error:
        raise EngineError(
            f"engine compiled: no temporary folder: {error.strerror or error}"
        ) from error


def _limit() -> int:
    """Returns the limit of the folder's size in bytes."""
    text = os.environ.get("WARPSTACK_CACHE_MIB") or str(LIMIT_MIB)
    if not text.isdecimal():
        raise EngineError(f"WARPSTACK_CACHE_MIB must be a number of MiB, not {text!r}")
    return int(text) << 20


def _unsealed(content: bytes) -> bytes | None:
    """Returns the content before the digest; None if the digest does not match."""
    inner, seal = content[:-_SEAL], content[-_SEAL:]
    return inner if hashlib.sha256(inner).digest() == seal else None


def is_sealed(path: Path) -> bool:
    """Whether the file exists and is intact; marks it as the most recently used."""
    return load(path) is not None


def load(path: Path) -> bytes | None:
    """Returns the content of a file of the folder; None if it is missing or damaged."""
    try:
        content = _unsealed(path.read_bytes())
    except OSError:
        return None
    if content is not None:
        with suppress(OSError):  # A read-only folder is usable, too.
            os.utime(path)
    return content


def store(path: Path, content: bytes) -> None:
    """Stores a file with its digest; OSError if it cannot be written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as file:
        try:
            file.write(content + hashlib.sha256(content).digest())
            file.close()
            Path(file.name).replace(path)
        finally:
            Path(file.name).unlink(missing_ok=True)


def keep(path: Path, content: bytes) -> Path:
    """Stores a file, in the temporary folder if need be; returns its path. EngineError if both
    fail.
    """
    try:
        store(path, content)
        return path
    except OSError as error:
        place = _instead(path.parent, error.strerror or str(error)) / path.name
    try:
        store(place, content)
    except OSError as error:
        raise EngineError(f"engine compiled: {place}: {error.strerror or error}") from error
    return place


def trim() -> None:
    """Removes the least recently used files until the rest is within the limit."""
    files = []
    for path in cache_folder().iterdir():
        with suppress(OSError):  # Another process may remove it at this moment.
            if path.suffix in SUFFIXES:
                state = path.stat()
                files.append((state.st_mtime, state.st_size, path))
    left = sum(size for _, size, _ in files) - _limit()
    for _, size, path in sorted(files)[:-1]:
        if left > 0:
            with suppress(OSError):
                path.unlink(missing_ok=True)
            left -= size
