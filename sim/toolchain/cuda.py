"""NVIDIA's compilers of CUDA 11.8: NVRTC compiles CUDA C++ to PTX or a cubin, ptxas PTX to a
cubin.
"""

import contextlib
import ctypes
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

__all__ = [
    "INSTALL",
    "CompilerError",
    "MissingCompilerError",
    "cubin_of_cuda",
    "cubin_of_ptx",
    "ptx_of_cuda",
]

_NVRTC = ("nvidia.cuda_nvrtc", "lib/libnvrtc.so.11.2")
_PTXAS = ("nvidia.cuda_nvcc", "bin/ptxas")
INSTALL = "pip install -e '.[cuda]'"
"""The command that installs the compilers."""
_OPTIONS = ("--std=c++17", "--device-int128")
_ARCHITECTURES = {"PTX": "compute_50", "CUBIN": "sm_50"}
_DEBUG_OPTION = "--device-debug"


class CompilerError(Exception):
    """A compiler that is not installed, or the errors that one has found in a kernel."""


class MissingCompilerError(CompilerError):
    """A compiler that is not installed."""


def _tool(package: str, file: str) -> Path:
    """Returns the path of a file in an installed package."""
    with contextlib.suppress(ModuleNotFoundError):
        if (found := find_spec(package)) is not None:
            for folder in found.submodule_search_locations or ():
                if (path := Path(folder) / file).exists():
                    return path
    raise MissingCompilerError(
        f"{Path(file).name} of CUDA 11.8 is not installed (CUDA 13 cannot compile for sm_50): {INSTALL}"
    )


def ptx_of_cuda(source: str, name: str, *, debug: bool) -> str:
    """Returns the PTX of a source for sm_50. With ``debug`` it is not optimised, and has debug
    tables.

    The text is reproducible. The compiler runs in a process of its own, because NVRTC numbers the
    calls of all programs of a process, and in the root folder, because debug tables contain the
    folder.

    Raises:
        CompilerError: The compiler is not installed, or reports an error.
    """
    return (
        _compiled("PTX", source.encode(), name, _DEBUG_OPTION if debug else None)
        .rstrip(b"\0")
        .decode()
    )


def cubin_of_cuda(source: bytes, name: str) -> bytes:
    """Returns the optimised cubin of a source for sm_50.

    Raises:
        CompilerError: The compiler is not installed, or reports an error.
    """
    return _compiled("CUBIN", source, name, None)


def _compiled(what: str, source: bytes, name: str, option: str | None) -> bytes:
    """Returns the output of NVRTC for a source: PTX or a CUBIN.

    Raises:
        CompilerError: The compiler is not installed, or reports an error.
    """
    options = (
        f"--gpu-architecture={_ARCHITECTURES[what]}",
        *_OPTIONS,
        *([] if option is None else [option]),
    )
    done = subprocess.run(
        [sys.executable, "-I", __file__, _tool(*_NVRTC), what, name, *options],
        input=source,
        capture_output=True,
        cwd="/",
    )
    if done.returncode:
        raise CompilerError(done.stderr.decode().rstrip())
    return done.stdout


def _compile(
    library: ctypes.CDLL, source: bytes, what: str, name: str, options: Sequence[str]
) -> tuple[bytes, bool]:
    """Returns the compiled source and True, or the error message and False."""
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    library.nvrtcCreateProgram(ctypes.byref(program), source, name.encode(), 0, None, None)
    given = [option.encode() for option in options]
    failed = library.nvrtcCompileProgram(
        program, len(given), (ctypes.c_char_p * len(given))(*given)
    )
    wanted = "ProgramLog" if failed else what
    getattr(library, f"nvrtcGet{wanted}Size")(program, ctypes.byref(size))
    content = ctypes.create_string_buffer(size.value)
    getattr(library, f"nvrtcGet{wanted}")(program, content)
    return (content.value if failed else content.raw), not failed


def cubin_of_ptx(ptx: str, *options: str, program: Path | None = None) -> bytes:
    """Returns the cubin that ptxas makes of PTX for sm_50. ``program`` is the path of ptxas, by
    default that of the installed package.

    Raises:
        CompilerError: The assembler is not installed, or reports an error.
    """
    ptxas = program or _tool(*_PTXAS)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "k.ptx").write_text(ptx)
        done = subprocess.run(
            [ptxas, "-arch=sm_50", *options, "k.ptx", "-o", "k.cubin"],
            cwd=folder,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise CompilerError((done.stdout + done.stderr).rstrip())
        return Path(folder, "k.cubin").read_bytes()


if __name__ == "__main__":
    result, fine = _compile(
        ctypes.CDLL(sys.argv[1]), sys.stdin.buffer.read(), sys.argv[2], sys.argv[3], sys.argv[4:]
    )
    (sys.stdout if fine else sys.stderr).buffer.write(result)
    sys.exit(not fine)
