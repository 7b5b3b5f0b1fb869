"""Compiles a file of CUDA C++ to a program with NVIDIA's compiler."""

from pathlib import Path

from sim.support.reading import why_unreadable

from .cubin.elf_reader import read_object
from .cubin.loader import load
from .cuda import CompilerError, cubin_of_cuda
from .module import Module, ProgramError

__all__ = ["read_cuda_program"]


def read_cuda_program(path: str | Path) -> Module:
    """Returns the program in a file of CUDA C++.

    Raises:
        ProgramError: The file cannot be read or compiled, or the compiler is not installed. The
            message has the compiler's first error.
    """
    try:
        source = Path(path).read_bytes()
    except OSError as error:
        raise ProgramError(why_unreadable(path, error)) from error
    try:
        cubin = cubin_of_cuda(source, str(path))
    except CompilerError as error:
        lines = str(error).splitlines()
        said = next((line for line in lines if " error: " in line), lines[0])
        raise ProgramError(said if said.startswith(str(path)) else f"{path}: {said}") from error
    return load(read_object(cubin, str(path)))
