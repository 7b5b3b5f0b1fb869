"""The folder of what was compiled, so that it is compiled once.

It is the one named by the environment variable ``WARPSTACK_CACHE``, or ``~/.cache/warpstack``; ``WARPSTACK_CACHE_MIB``
is how much it may hold, 1024 unless said otherwise. Each file ends in a digest of what is before it: one that is
damaged counts as missing. Files come into their place as a whole, so that many processes can share the folder.
"""

import hashlib
import os
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory

from sim.engine.errors import EngineError

__all__ = ["cache_folder", "is_on", "is_sealed", "load", "model_folder", "store", "switch", "trim"]

LIMIT_MIB = 1024
"""What the folder holds unless the environment says otherwise."""
SUFFIXES = (".so", ".json")
"""What is kept: libraries, and records of what is in them."""
_SEAL = hashlib.sha256().digest_size


def cache_folder() -> Path:
    """Where models are kept."""
    return Path(os.environ.get("WARPSTACK_CACHE") or "~/.cache/warpstack").expanduser()


_switch = {"on": True}


def switch(on: bool) -> None:
    """Whether this process uses the cache: what was compiled earlier, and keeps what it compiles."""
    _switch["on"] = on


def is_on() -> bool:
    """Whether this process uses the cache."""
    return _switch["on"]


@cache
def _scratch() -> TemporaryDirectory[str]:
    """A folder for this process alone, which goes with it."""
    return TemporaryDirectory(prefix="warpstack-")


def model_folder() -> Path:
    """Where models go that are compiled now."""
    return cache_folder() if is_on() else Path(_scratch().name)


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
    """Whether the file is there and as it was written; then it is the one used last."""
    return load(path) is not None


def load(path: Path) -> bytes | None:
    """The content of a file of the folder, None when it is missing or damaged."""
    try:
        content = _unsealed(path.read_bytes())
        if content is not None:
            os.utime(path)
    except OSError:
        return None
    return content


def store(path: Path, content: bytes) -> None:
    """Puts a file into its place, with its seal."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as file:
        try:
            file.write(content + hashlib.sha256(content).digest())
            file.close()
            Path(file.name).replace(path)
        finally:
            Path(file.name).unlink(missing_ok=True)


def trim() -> None:
    """Removes the files that were not used for longest, until the rest is within the limit."""
    files = []
    for path in cache_folder().iterdir():
        with suppress(OSError):     # another process may remove it at this moment
            if path.suffix in SUFFIXES:
                state = path.stat()
                files.append((state.st_mtime, state.st_size, path))
    left = sum(size for _, size, _ in files) - _limit()
    for _, size, path in sorted(files)[:-1]:
        if left > 0:
            path.unlink(missing_ok=True)
            left -= size
