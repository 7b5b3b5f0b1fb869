"""From C++ to a model that can be loaded. Models are cached by content.

The cache is the folder named by the environment variable ``WARPSTACK_CACHE``, or ``~/.cache/warpstack``. The compiler
is the one that ``CXX`` names, or the first of g++, clang++ and zig that is there; ``CXXFLAGS`` replaces its flags.
"""

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from tqdm import tqdm

from sim.engine.errors import EngineError

__all__ = ["cache_folder", "compiler", "missing_tool", "shared_object"]

FLAGS = "-O1 -std=c++17 -fPIC"
CACHED_MODELS = 64
"""The cache keeps this many models, those used last."""
RUNTIME = tuple(Path(__file__).with_name(name) for name in ("runtime.h", "runtime.cc"))
"""What all models share."""


def cache_folder() -> Path:
    """Where models are kept."""
    return Path(os.environ.get("WARPSTACK_CACHE") or "~/.cache/warpstack").expanduser()


def compiler() -> list[str] | None:
    """The command that compiles C++, None when there is none."""
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


def missing_tool() -> str | None:
    """What has to be installed before models can be built, None when all is there."""
    if compiler() is None:
        return "there is no C++ compiler: install g++ or clang++, or pip install -e '.[fast]'"
    return None


def _drop_old(folder: Path) -> None:
    """Removes the models that were not used for longest."""
    models = sorted(folder.glob("*.so"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in models[CACHED_MODELS:]:
        path.unlink(missing_ok=True)


def _compile(command: list[str], source: Path, folder: Path) -> Path:
    """The object file of a translation unit."""
    made = source.with_suffix(".o")
    done = subprocess.run([*command, "-c", f"-I{folder}", "-o", made, source], capture_output=True, text=True)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines()[-1:]
        raise EngineError(f"engine cxxrtl: {command[0]} failed on the model: {' '.join(errors[:1])}")
    return made


def shared_object(units: Sequence[str]) -> Path:
    """The compiled model of a design, made of translation units: a shared object in the cache. EngineError when it
    cannot be made.
    """
    if reason := missing_tool():
        raise EngineError(f"engine cxxrtl: {reason}")
    command = [*(compiler() or ()), *shlex.split(os.environ.get("CXXFLAGS", FLAGS))]
    made_by = [*(path.read_text() for path in RUNTIME), Path(__file__).read_text()]
    key = hashlib.sha256("\0".join([*units, *command, *made_by]).encode())
    folder = cache_folder()
    target = folder / f"{key.hexdigest()[:24]}.so"
    if target.exists():
        os.utime(target)
        return target
    folder.mkdir(parents=True, exist_ok=True)
    if sys.stderr.isatty():
        tqdm.write("compiling the model of this design, once", file=sys.stderr)
    with TemporaryDirectory(dir=folder) as work:
        sources = [Path(work, f"unit{number}.cc") for number in range(len(units))]
        for source, unit in zip(sources, units, strict=True):
            source.write_text(f'#include "runtime.h"\n{unit}')
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            objects = list(pool.map(lambda source: _compile(command, source, RUNTIME[0].parent), sources))
        linked = Path(work, "model.so")
        done = subprocess.run([*command, "-shared", "-o", linked, *objects], capture_output=True, text=True)
        if done.returncode:
            raise EngineError(f"engine cxxrtl: {command[0]} can't link the model: {done.stderr.splitlines()[-1]}")
        linked.rename(target)
    _drop_old(folder)
    return target
