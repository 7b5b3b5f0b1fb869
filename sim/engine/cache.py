"""The folder of what was compiled, so that it is compiled once.

It is the one named by the environment variable ``WARPSTACK_CACHE``, or ``~/.cache/warpstack``;
``WARPSTACK_CACHE_MIB`` is its limit, 1024 by default. Where it cannot be written a temporary folder
replaces it, for this process and its children, and one line reports that before anything is
compiled. Each file ends in a digest of what is before it: one that is damaged counts as missing.
Files come into their place as a whole, so that many processes can share the folder.
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
"""The environment variable that names it."""
LIMIT_MIB = 1024
"""The folder's default limit."""
SUFFIXES = (".so", ".json", ".cubin")
"""What is kept: libraries, records of what is in them, and compiled PTX of CUDA programs."""
_SEAL = hashlib.sha256().digest_size


def cache_folder() -> Path:
    """Where models are kept."""
    named = os.environ.get(VARIABLE)
    try:
        return Path(named or "~/.cache/warpstack").expanduser()
    except RuntimeError:  # there is no home
        return _instead(named or "the folder of the user", "there is no home folder")


def prepare() -> None:
    """Called before something is compiled: has a temporary folder take the place of one that cannot be written.
    EngineError when there is none, or when the limit is not an integer."""
    _limit()
    folder = cache_folder()
    if is_on() and (why := why_unwritable(folder)) is not None:
        _instead(folder, why)


def _instead(folder: Path | str, why: str) -> Path:
    """The temporary folder that replaces another one from now on; prints a line."""
    try:
        place = scratch() / "models"
        place.mkdir(exist_ok=True)
    except OSError as error:
        raise EngineError(
            f"engine compiled: no place for models: {folder}: {why}; nor a temporary folder: "
            f"{error.strerror or error}"
        ) from error
    os.environ[VARIABLE] = str(place)  # also of the processes that this one starts
    print(
        f"warning: {folder} cannot be written ({why}): models are kept for this run alone; {VARIABLE} names another "
        "folder",
        file=sys.stderr,
    )
    return place


_switch = {"on": True}


def switch(on: bool) -> None:
    """Whether this process uses the cache: what was compiled earlier, and keeps what it compiles."""
    _switch["on"] = on


def is_on() -> bool:
    """Whether this process uses the cache."""
    return _switch["on"]


def model_folder() -> Path:
    """The folder for newly compiled models."""
    if is_on():
        return cache_folder()
    try:
        return scratch()
    except OSError as error:
        raise EngineError(
            f"engine compiled: no temporary folder: {error.strerror or error}"
        ) from error


def _limit() -> int:
    """How many bytes the folder may hold."""
    text = os.environ.get("WARPSTACK_CACHE_MIB") or str(LIMIT_MIB)
    if not text.isdecimal():
        raise EngineError(f"WARPSTACK_CACHE_MIB must be a number of MiB, not {text!r}")
    return int(text) << 20


def _unsealed(content: bytes) -> bytes | None:
    """What is before the seal, None when the seal does not fit."""
    inner, seal = content[:-_SEAL], content[-_SEAL:]
    return inner if hashlib.sha256(inner).digest() == seal else None


def is_sealed(path: Path) -> bool:
    """Whether the file is there and unchanged; marks it as the last one used."""
    return load(path) is not None


def load(path: Path) -> bytes | None:
    """The content of a file of the folder, None when it is missing or damaged."""
    try:
        content = _unsealed(path.read_bytes())
    except OSError:
        return None
    if content is not None:
        with suppress(OSError):  # a folder that can only be read serves as well
            os.utime(path)
    return content


def store(path: Path, content: bytes) -> None:
    """Moves a file to its place, with its seal. OSError when it can't be written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as file:
        try:
            file.write(content + hashlib.sha256(content).digest())
            file.close()
            Path(file.name).replace(path)
        finally:
            Path(file.name).unlink(missing_ok=True)


def keep(path: Path, content: bytes) -> Path:
    """Moves a file to its place, or where that fails to the temporary folder; returns its path.
    EngineError when it is nowhere."""
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
    """Removes the files that were not used for longest, until the rest is within the limit."""
    files = []
    for path in cache_folder().iterdir():
        with suppress(OSError):  # another process may remove it at this moment
            if path.suffix in SUFFIXES:
                state = path.stat()
                files.append((state.st_mtime, state.st_size, path))
    left = sum(size for _, size, _ in files) - _limit()
    for _, size, path in sorted(files)[:-1]:
        if left > 0:
            with suppress(OSError):
                path.unlink(missing_ok=True)
            left -= size
