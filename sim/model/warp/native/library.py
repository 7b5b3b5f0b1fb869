"""Compiles C++ text, caches the libraries by content, and loads them: the core, and translated
instructions.

The compiler is that of the compiled engine (:mod:`sim.engine.build`), the folder that of its cache
(:mod:`sim.engine.cache`). Beside every library of functions is a record for each of them, by the
digest of its text and of everything that the compilation depends on, so that a later run also finds
functions compiled for other kernels.
"""

import ctypes
import json
import os
import platform
import shlex
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from subprocess import PIPE
from tempfile import TemporaryDirectory

from rtl.isa.barriers import BARRIERS, PACKED_COUNT
from rtl.isa.control_code import GROUP_BYTES, INSTRUCTION_BYTES
from rtl.isa.kinds import AtomicOperation, BarrierMode, BarrierReduction
from rtl.isa.syntax import PT
from rtl.isa.tokens import API_CALL_LIMIT, TOKENS_PER_LINE, TokenKind
from sim.engine import cache as kept
from sim.engine.build import compiler, compiler_identity, link_options
from sim.engine.errors import EngineError
from sim.launch import LOCAL_WINDOW, SHARED_WINDOW, WINDOW_BYTES
from sim.support.children import Children

from ..state import BARRIER_FIELDS
from ..unwind import CALL_DEPTHS

__all__ = ["CompiledFunctions", "core_library", "has_compiler"]

_FOLDER = Path(__file__).parent
FLAGS = (
    "-O3 -std=c++17 -fPIC -w -fwrapv -fno-strict-aliasing -ffp-contract=off -fno-math-errno -fno-trapping-math "
    "-fno-exceptions -fno-asynchronous-unwind-tables"
)
"""Integers wrap around and each floating-point operation is rounded by itself, as in numpy."""
_OWN_PROCESSOR = "-march=native"
_ROUNDING = """#include <cfenv>
static __attribute__((noinline)) f64 fused_rounded(f64 a, f64 b, f64 c, int mode) {
    volatile f64 first = a, second = b, third = c;
    std::fesetround(mode);
    volatile f64 result = __builtin_fma(first, second, third);
    std::fesetround(FE_TONEAREST);
    return result;
}
"""


def _definitions() -> str:
    """Returns the constants of the machine language that the C++ text needs."""
    names: dict[str, int] = {
        "PT": PT,
        "BARRIERS": BARRIERS,
        "GROUP_BYTES": GROUP_BYTES,
        "INSTRUCTION_BYTES": INSTRUCTION_BYTES,
        "PACKED_COUNT_MASK": PACKED_COUNT.mask,
        "PACKED_COUNT_AT": PACKED_COUNT.pieces[0][0],
        "EXPECTED_BITS": BARRIER_FIELDS["expected"][1],
        "POPULATION_BITS": BARRIER_FIELDS["population"][1],
        "API_CALL_LIMIT": API_CALL_LIMIT,
        "CALL_DEPTHS": CALL_DEPTHS,
        "TOKENS_PER_LINE": TOKENS_PER_LINE,
        "SHARED_WINDOW": SHARED_WINDOW,
        "LOCAL_WINDOW": LOCAL_WINDOW,
        "WINDOW_BYTES": WINDOW_BYTES,
    }
    names |= {f"TOKEN_{kind.name}": kind.value for kind in TokenKind}
    names |= {f"BAR_{mode.name}": mode.value for mode in BarrierMode}
    names |= {f"REDUCTION_{reduction.name}": reduction.value for reduction in BarrierReduction}
    names |= {f"ATOMIC_{operation.name}": operation.value for operation in AtomicOperation}
    return "".join(f"#define ISA_{name} {value:#x}\n" for name, value in names.items())


def _processor() -> str:
    """Identifies processors that execute the same code."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")


@cache
def _made_with() -> str:
    """Returns everything that a library depends on besides its own text."""
    sources = [(_FOLDER / "core.h").read_text(), Path(__file__).read_text(), _definitions()]
    return "\0".join([compiler_identity(), platform.machine(), _processor(), *sources])


def _digest(text: str) -> str:
    return sha256(f"{_made_with()}\0{text}".encode()).hexdigest()[:24]


def _built(text: str) -> bytes:
    """Compiles one translation unit to a library; EngineError if that fails."""
    command = compiler()
    if command is None:
        raise EngineError("the warp model: there is no C++ compiler")
    with TemporaryDirectory() as work, Children() as compilers:
        source, library = Path(work, "unit.cc"), Path(work, "unit.so")
        source.write_text(text)
        # Some compilers do not support the option, or not this processor.
        for processor in ([_OWN_PROCESSOR], []):
            flags = shlex.split(FLAGS) + processor
            done = compilers.run(
                [
                    *command,
                    *link_options(command),
                    *flags,
                    "-shared",
                    f"-I{_FOLDER}",
                    "-o",
                    library,
                    source,
                ],
                stdout=PIPE,
                stderr=PIPE,
            )
            if not done.returncode:
                return library.read_bytes()
    errors = [
        line for line in done.stderr.splitlines() if "error" in line
    ] or done.stderr.splitlines()[-1:]
    raise EngineError(f"the warp model: {command[0]} failed: {' '.join(errors[:1])}")


def _library(text: str) -> Path:
    """Returns the library of a text, from the cache or newly compiled."""
    target = kept.model_folder() / f"warp-{_digest(text)}.so"
    return target if kept.is_sealed(target) else kept.keep(target, _built(text))


def core_library() -> ctypes.CDLL:
    """Returns the core; EngineError if it cannot be compiled."""
    kept.prepare()
    return ctypes.CDLL(str(_library(f"{_definitions()}{(_FOLDER / 'core.cc').read_text()}")))


class CompiledFunctions:
    """Addresses of compiled functions by name.

    Attributes:
        builds: Number of libraries that this object has compiled.
    """

    def __init__(self) -> None:
        self._found: dict[str, int] = {}
        self._libraries: dict[str, ctypes.CDLL] = {}
        self.builds = 0

    def __getitem__(self, name: str) -> int:
        return self._found[name]

    def __contains__(self, name: str) -> bool:
        return name in self._found

    def _open(self, path: Path, names: Iterable[str]) -> None:
        library = self._libraries.setdefault(str(path), ctypes.CDLL(str(path)))
        for name in names:
            self._found[name] = ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0

    def load(self, texts: Mapping[str, str]) -> list[str]:
        """Loads the cached ones of some functions, text by name; returns the names of the others."""
        missing = []
        for name, text in texts.items():
            if name in self._found:
                continue
            record = kept.load(kept.model_folder() / f"warp-{_digest(text)}.json")
            path = (
                kept.model_folder() / json.loads(record)["library"] if record is not None else None
            )
            if path is not None and (str(path) in self._libraries or kept.is_sealed(path)):
                self._open(path, [name])
            else:
                missing.append(name)
        return missing

    def compile(self, texts: Mapping[str, str]) -> None:
        """Compiles functions to one library and caches it; EngineError if that fails."""
        kept.prepare()
        rounding = _ROUNDING if any("fused_rounded(" in text for text in texts.values()) else ""
        path = _library("".join(['#include "core.h"\n', rounding, *texts.values()]))
        self.builds += 1
        for text in texts.values():
            record = json.dumps({"library": path.name}).encode()
            kept.keep(path.parent / f"warp-{_digest(text)}.json", record)
        self._open(path, texts)


def has_compiler() -> bool:
    """Whether there is a compiler."""
    command: Sequence[str] | None = compiler()
    return command is not None and os.name == "posix"
