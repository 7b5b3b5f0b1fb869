"""NVIDIA's compilers of CUDA 11.8: from CUDA C++ to PTX or a cubin (NVRTC), from PTX to a cubin (ptxas)."""

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
"""What installs them."""
_OPTIONS = ("--std=c++17", "--device-int128")
_ARCHITECTURES = {"PTX": "compute_50", "CUBIN": "sm_50"}
_DEBUG_OPTION = "--device-debug"


class CompilerError(Exception):
    """A compiler that is not installed, or the errors that one has found in a kernel."""


class MissingCompilerError(CompilerError):
    """A compiler that is not installed."""


def _tool(package: str, file: str) -> Path:
    """A file of an installed package."""
    with contextlib.suppress(ModuleNotFoundError):
        if (found := find_spec(package)) is not None:
            for folder in found.submodule_search_locations or ():
                if (path := Path(folder) / file).exists():
                    return path
    raise MissingCompilerError(
        f"{Path(file).name} of CUDA 11.8 is not installed (CUDA 13 cannot compile for sm_50): {INSTALL}"
    )


def ptx_of_cuda(source: str, name: str, *, debug: bool) -> str:
    """The PTX of a source, for sm_50; with ``debug`` not optimised, and with tables for a debugger.

    The same text each time: in a process of its own, because NVRTC numbers the calls of all programs of a process, and
    in the root folder, because a debugger's tables name the folder. Raises CompilerError.
    """
    return (
        _compiled("PTX", source.encode(), name, _DEBUG_OPTION if debug else None)
        .rstrip(b"\0")
        .decode()
    )


def cubin_of_cuda(source: bytes, name: str) -> bytes:
    """The cubin of a source, for sm_50, optimised. Raises CompilerError."""
    return _compiled("CUBIN", source, name, None)


def _compiled(what: str, source: bytes, name: str, option: str | None) -> bytes:
    """What NVRTC makes of a source: PTX or a CUBIN. Raises CompilerError."""
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
    """What a source becomes and True, or what is wrong with it and False."""
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
    """What the assembler makes of PTX, for sm_50: the ``program``, or that of the installed package. Raises
    CompilerError."""
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
