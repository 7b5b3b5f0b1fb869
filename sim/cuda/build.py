"""Builds the CUDA libraries that programs load: libcuda.so.1 and libcudart.so.

Their C source in ``sim/cuda/library`` is compiled at first use, by the compiler that the compiled
engine needs, and cached by the digest of the sources. Each library is one translation unit, so that
the further names of a function (``_ptds``, ``_ptsz``) can be aliases. Every public name without a
function gets a stub that reports it.
"""

import hashlib
import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from sim.cuda.errors import c_results
from sim.cuda.protocol import c_header
from sim.engine.build import compiler, missing_tool
from sim.engine.cache import cache_folder
from sim.support.command import CommandError

__all__ = ["LIBRARIES", "SOURCES", "LibraryError", "library_folder", "sources"]

SOURCES = Path(__file__).parent / "library"
"""The folder of the C sources."""
_DRIVER_FILES = (
    "connection.c",
    "context.c",
    "device.c",
    "memory.c",
    "module.c",
    "stream.c",
    "graph.c",
)
_COMMON = (
    "-x",
    "c",
    "-std=gnu11",
    "-O2",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-pthread",
)
"""Compiler arguments of every library."""
LIBRARIES = ("libcuda.so.1", "libcudart.so.11.0", "libcudart.so.12")
"""File names of the libraries."""
_REASONS: Mapping[str, str] = {
    "cuTex": "there are no textures",
    "cuSurf": "there are no surfaces",
    "cuArray": "there are no arrays",
    "cuMipmappedArray": "there are no arrays",
    "cuMemcpyA": "there are no arrays",
    "cuMemcpyHtoA": "there are no arrays",
    "cuMemcpyDtoA": "there are no arrays",
    "cuMemAddress": "there is no virtual memory management",
    "cuMemCreate": "there is no virtual memory management",
    "cuMemMap": "there is no virtual memory management",
    "cuMemUnmap": "there is no virtual memory management",
    "cuMemSetAccess": "there is no virtual memory management",
    "cuMemRelease": "there is no virtual memory management",
    "cuGraphics": "there is no graphics",
    "cuMulticast": "there is one device",
    "cuGreenCtx": "sm_50 has no partitions",
    "cuLaunchCooperativeKernelMultiDevice": "sm_50 has no cooperative launch",
}
"""The reason why functions are missing, by the prefix of their names."""


class LibraryError(CommandError):
    """A library that cannot be built. The message is one line with the reason."""


def _symbols() -> list[tuple[str, str, int]]:
    """Returns symbol, name and CUDA version of all public names."""
    rows = [
        line.split()
        for line in (SOURCES / "symbols.txt").read_text().splitlines()
        if not line.startswith("#")
    ]
    return [(symbol, name, int(version)) for symbol, name, version in rows]


def _symbols_header() -> str:
    """Returns the public names as a C header."""
    rows = "\n".join(
        f'    {{"{symbol}", "{name}", {version}}},' for symbol, name, version in _symbols()
    )
    return (
        "/* Made from symbols.txt. */\n#pragma once\nstruct symbol_version {\n    const char *symbol, *name;\n"
        f"    int version;\n}};\nstatic const struct symbol_version SYMBOLS[] = {{\n{rows}\n}};\n"
    )


def _defined(text: str, prefix: str) -> set[str]:
    """Returns the functions that a source defines: the names behind EXPORT, and those that the
    macros for fills define.
    """
    names = set(re.findall(rf"^EXPORT [\w ]+?\*?\b({prefix}\w+)\(", text, re.M))
    for name in re.findall(r"^FILL(?:_2D)?\((\w+),", text, re.M):
        names |= {f"cuMemset{name}_v2", f"cuMemset{name}Async"}
    return names


def _others(symbols: Iterable[str], defined: set[str]) -> str:
    """Returns C with aliases of defined functions, and stubs for undefined ones."""
    lines = []
    for symbol in symbols:
        if symbol in defined:
            continue
        base = re.sub(r"_pt[ds]s?z?$", "", symbol)
        if base in defined and base != symbol:
            lines.append(f'EXPORT __typeof({base}) {symbol} __attribute__((alias("{base}")));')
        else:
            why = next((text for start, text in _REASONS.items() if symbol.startswith(start)), "")
            lines.append(
                f'EXPORT CUresult {symbol}(void) {{ return refuse("{symbol}", "{why}"); }}'
            )
    return "\n".join(dict.fromkeys(lines)) + "\n"


def _runtime_source(major: int) -> str:
    """Returns the source of libcudart as one file, with the names of a major version of CUDA."""
    text = (SOURCES / "runtime.c").read_text()
    rows = [
        line.split()
        for line in (SOURCES / "runtime_symbols.txt").read_text().splitlines()
        if line[0] != "#"
    ]
    defined, lines = _defined(text, "cuda"), []
    for symbol, *majors in rows:
        base = re.sub(r"_pt[ds]s?z?$", "", symbol)
        if symbol in defined or str(major) not in majors:
            continue
        if base in defined and base != symbol:
            lines.append(f'EXPORT __typeof({base}) {symbol} __attribute__((alias("{base}")));')
        else:
            lines.append(
                f"EXPORT cudaError_t {symbol}(void) {{\n    static int said;\n"
                f'    return refuse("{symbol}", &said);\n}}'
            )
    return '#include "runtime.c"\n' + "\n".join(lines) + "\n"


def _driver_source() -> str:
    """Returns the source of libcuda as one file."""
    text = "\n".join((SOURCES / name).read_text() for name in _DRIVER_FILES)
    includes = "\n".join(f'#include "{name}"' for name in _DRIVER_FILES)
    others = _others(dict.fromkeys(symbol for symbol, _, _ in _symbols()), _defined(text, "cu"))
    return f"#define _GNU_SOURCE\n{includes}\n{others}"


def sources() -> dict[str, str]:
    """Returns all C files, text by name: the generated ones and those of the folder."""
    made = {
        "protocol.h": c_header(),
        "results.h": c_results(),
        "symbols.h": _symbols_header(),
        "libcuda.c": _driver_source(),
        "libcudart_11.c": _runtime_source(11),
        "libcudart_12.c": _runtime_source(12),
    }
    return (
        made
        | {path.name: path.read_text() for path in sorted(SOURCES.glob("*.[ch]"))}
        | {"runtime.map": (SOURCES / "runtime.map").read_text()}
    )


def _compile(command: list[str], folder: Path, arguments: list[str]) -> None:
    done = subprocess.run(
        [*command, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        lines = [
            line for line in done.stderr.splitlines() if "error" in line
        ] or done.stderr.splitlines()[-1:]
        raise LibraryError(
            f"the CUDA libraries do not compile: {lines[0] if lines else 'no message'}"
        )


def library_folder() -> Path:
    """Returns the folder with the libraries, which are built on first use; LibraryError if that
    fails.
    """
    files = sources()
    if (reason := missing_tool()) is not None:
        raise LibraryError(f"the CUDA libraries need a compiler: {reason}")
    digest = hashlib.sha256(
        "\0".join(f"{name}\0{text}" for name, text in files.items()).encode()
    ).hexdigest()[:16]
    folder = cache_folder() / f"cuda-{digest}"
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder.parent) as scratch:
        libraries = _build(files, Path(scratch))
        try:
            libraries.rename(folder)
        except OSError:
            if not folder.is_dir():  # Otherwise another process was first
                raise
    return folder


def _build(files: Mapping[str, str], source: Path) -> Path:
    """Compiles the libraries from these sources in a folder; returns the subfolder with the
    libraries.
    """
    command = compiler() or []
    libraries = source / "libraries"
    libraries.mkdir()
    for name, text in files.items():
        (source / name).write_text(text)
    _compile(
        command,
        source,
        [*_COMMON, "libcuda.c", "-Wl,-soname,libcuda.so.1", "-o", "libraries/libcuda.so.1"],
    )
    for name in LIBRARIES[1:]:
        major = name.removeprefix("libcudart.so.").partition(".")[0]
        (source / "runtime.map").write_text(files["runtime.map"].replace("@VERSION@", name))
        _compile(
            command,
            source,
            [
                *_COMMON,
                f"-DRUNTIME_MAJOR={major}",
                f"libcudart_{major}.c",
                "-x",
                "none",
                "libraries/libcuda.so.1",
                "-Wl,--version-script,runtime.map",
                f"-Wl,-soname,{name}",
                "-Wl,-rpath,$ORIGIN",
                "-o",
                f"libraries/{name}",
            ],
        )
    for link, target in (("libcuda.so", "libcuda.so.1"), ("libcudart.so", "libcudart.so.12")):
        os.symlink(target, libraries / link)
    return libraries
