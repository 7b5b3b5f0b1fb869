"""Compiles C++ to a model that can be loaded. Models are cached by content, see
:mod:`sim.engine.cache`.

The compiler is the one that ``CXX`` names, else the first of g++, clang++ and zig that is
installed; ``CXXFLAGS`` replaces its flags.
"""

import hashlib
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from subprocess import PIPE
from tempfile import TemporaryDirectory

from sim.engine import cache
from sim.engine.errors import EngineError
from sim.support.children import Children

__all__ = ["compiler", "compiler_identity", "link_options", "missing_tool", "shared_object"]

FLAGS = "-O1 -std=c++17 -fPIC"
_ZIG_COMPILES = ["-fno-sanitize=undefined"]
"""Disables zig's default checks for undefined behaviour, which make models slower."""
_ZIG_LINKS = ["-nostdlib"]
"""Links against the C library of this process. Otherwise zig first compiles its own libraries, for
a minute.

Not used where the system requires every library to be named.
"""
RUNTIME = tuple(Path(__file__).with_name(name) for name in ("runtime.h", "runtime.cc"))
"""The source of the runtime that all models share."""


def compiler() -> list[str] | None:
    """Returns the command that compiles C++; None without a compiler."""
    if named := os.environ.get("CXX"):
        return shlex.split(named)
    for name in ("g++", "clang++"):
        if shutil.which(name):
            return [name]
    if shutil.which("zig"):
        return ["zig", "c++"]
    if find_spec("ziglang"):
        return [sys.executable, "-m", "ziglang", "c++"]
    return None


def _is_zig(command: Sequence[str]) -> bool:
    """Whether a compiler is zig's."""
    return any(Path(word).stem in ("zig", "ziglang") for word in command)


def missing_tool() -> str | None:
    """Returns what must be installed before models can be built; None if nothing is missing."""
    if compiler() is None:
        return "there is no C++ compiler: install g++ or clang++, or pip install -e '.[fast]'"
    return None


def _command() -> list[str]:
    """Returns the compiler with its flags."""
    if reason := missing_tool():
        raise EngineError(f"engine compiled: {reason}")
    found = compiler() or []
    return [
        *found,
        *_ZIG_COMPILES * _is_zig(found),
        *shlex.split(os.environ.get("CXXFLAGS", FLAGS)),
    ]


def link_options(command: Sequence[str]) -> list[str]:
    """Returns the flags for linking."""
    return _ZIG_LINKS * (_is_zig(command) and sys.platform == "linux")


def _linker(command: list[str]) -> list[str]:
    """Returns the command that links object files to a shared object."""
    return [*command, "-shared", *link_options(command)]


def compiler_identity() -> str:
    """Identifies the compiler: its flags, and its file, with size and time of modification."""
    command = _command()
    found = shutil.which(command[0])
    state = Path(found).resolve().stat() if found else None
    return "\0".join(
        [*command, str(state and (Path(found or "").resolve(), state.st_size, state.st_mtime_ns))]
    )


def _compile(compilers: Children, command: list[str], source: Path) -> Path:
    """Compiles a translation unit; returns the object file."""
    made = source.with_suffix(".o")
    done = compilers.run(
        [*command, "-c", f"-I{RUNTIME[0].parent}", "-o", made, source], stdout=PIPE, stderr=PIPE
    )
    if done.returncode:
        errors = [
            line for line in done.stderr.splitlines() if "error" in line
        ] or done.stderr.splitlines()[-1:]
        raise EngineError(
            f"engine compiled: {command[0]} failed on the model: {' '.join(errors[:1])}"
        )
    return made


def _link(command: list[str], units: Sequence[str]) -> bytes:
    """Returns the shared object linked from translation units."""
    with TemporaryDirectory() as work:
        sources = [Path(work, f"unit{number}.cc") for number in range(len(units))]
        for source, unit in zip(sources, units, strict=True):
            source.write_text(f'#include "runtime.h"\n{unit}')
        with ThreadPoolExecutor(os.cpu_count()) as pool, Children() as compilers:
            objects = list(pool.map(lambda source: _compile(compilers, command, source), sources))
            linked = Path(work, "model.so")
            done = compilers.run(
                [*_linker(command), "-o", linked, *objects], stdout=PIPE, stderr=PIPE
            )
        if done.returncode:
            raise EngineError(
                f"engine compiled: {command[0]} can't link the model: {done.stderr.splitlines()[-1]}"
            )
        return linked.read_bytes()


def shared_object(units: Sequence[str], folder: Path) -> Path:
    """Compiles the translation units of a model to a shared object in the folder; returns its path.

    A file there with the same content is used again. EngineError if the compilation fails.
    """
    command = _command()
    made_by = [
        compiler_identity(),
        *(path.read_text() for path in RUNTIME),
        Path(__file__).read_text(),
    ]
    key = hashlib.sha256("\0".join([*units, *made_by]).encode())
    target = folder / f"{key.hexdigest()[:24]}.so"
    if cache.is_sealed(target):
        return target
    return cache.keep(target, _link(command, units))
