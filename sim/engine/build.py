"""From a design's RTLIL to a loaded model: write_cxxrtl, a C++ compiler, ctypes. Models are cached by content.

The cache is the folder named by the environment variable ``WARPSTACK_CACHE``, or ``~/.cache/warpstack``. The compiler
is the one that ``CXX`` names, or the first of g++, clang++ and zig that is there; ``CXXFLAGS`` replaces its flags.
"""

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from tqdm import tqdm

from sim.engine.errors import EngineError
from sim.engine.internals import BuiltinYosys, YosysError

__all__ = ["cache_folder", "compiler", "missing_tool", "shared_object"]

FLAGS = "-O2 -std=c++17 -fPIC -shared -DNDEBUG -D__always_inline__=__unused__"
"""The last one leaves it to the compiler what to inline: forced to, it takes many minutes for a unit of some size."""
CACHED_MODELS = 64
"""The cache keeps this many models, those used last."""
SHIM = Path(__file__).with_name("shim.cc")


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
    if not BuiltinYosys.available():
        return "the extra 'fast' is not installed: pip install -e '.[fast]'"
    if compiler() is None:
        return "there is no C++ compiler: install g++ or clang++, or pip install ziglang"
    return None


def without_locations(rtlil: str) -> str:
    """The text without source locations, except those of assertions and prints, which are reported.

    A model then depends on what the design does, not on the lines where its source says so.
    """
    return re.sub(r'^ *attribute \\src ".*"\n(?!(?: *attribute .*\n)* *cell \$(?:check|print) )', "", rtlil, flags=re.M)


def settles(cxx: str, rtlil: str) -> bool:
    """Whether the model needs an evaluation after every change of an input.

    Otherwise nothing but a rising clock edge changes its state: no word-level feedback that takes several rounds, no
    register with a falling edge or an asynchronous reset, no assertion outside a clock domain.
    """
    return ("bool converged = false;" in cxx or "negedge_" in cxx or "cell $adff" in rtlil
            or "parameter \\TRG_ENABLE 0" in rtlil)


def _source(rtlil: str) -> str:
    """The C++ of the model, with the shim."""
    script = f"read_rtlil <<rtlil\n{rtlil}\nrtlil\nwrite_cxxrtl\n"
    try:
        cxx = BuiltinYosys.run(["-q", "-"], script, ignore_warnings=True)
    except YosysError as error:
        raise EngineError(f"engine cxxrtl cannot translate this design: {str(error).splitlines()[-1]}") from error
    constants = {"MODEL_SETTLES": settles(cxx, rtlil), "MODEL_READS_MEMORY": "parameter \\CLK_ENABLE 0" in rtlil}
    defines = "".join(f"#define {name} {int(value)}\n" for name, value in constants.items())
    return cxx + defines + SHIM.read_text()


def _drop_old(folder: Path) -> None:
    """Removes the models that were not used for longest."""
    models = sorted(folder.glob("*.so"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in models[CACHED_MODELS:]:
        path.unlink(missing_ok=True)


def shared_object(rtlil: str) -> Path:
    """The compiled model of a design: a shared object in the cache. EngineError when it cannot be made."""
    if reason := missing_tool():
        raise EngineError(f"engine cxxrtl: {reason}")
    command = [*(compiler() or ()), *shlex.split(os.environ.get("CXXFLAGS", FLAGS))]
    rtlil = without_locations(rtlil)
    made_by = [SHIM.read_text(), Path(__file__).read_text()]
    key = hashlib.sha256("\0".join([rtlil, str(BuiltinYosys.version()), *command, *made_by]).encode())
    folder = cache_folder()
    target = folder / f"{key.hexdigest()[:24]}.so"
    if target.exists():
        os.utime(target)
        return target
    folder.mkdir(parents=True, exist_ok=True)
    source, made = (target.with_suffix(f".{os.getpid()}.{suffix}") for suffix in ("cc", "tmp"))
    runtime = BuiltinYosys.data_dir() / "include" / "backends" / "cxxrtl" / "runtime"
    if sys.stderr.isatty():
        tqdm.write("compiling the model of this design, once", file=sys.stderr)
    try:
        source.write_text(_source(rtlil))
        done = subprocess.run([*command, f"-I{runtime}", "-o", made, source], capture_output=True, text=True)
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines()[-1:]
            raise EngineError(f"engine cxxrtl: {command[0]} failed on the model: {' '.join(errors[:1])}")
        made.rename(target)
    finally:
        source.unlink(missing_ok=True)
        made.unlink(missing_ok=True)
    _drop_old(folder)
    return target
