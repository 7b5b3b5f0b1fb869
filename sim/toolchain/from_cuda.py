"""From a file of CUDA C++ to a program, by NVIDIA's compiler."""

from pathlib import Path

from sim.support.reading import why_unreadable

from .cubin.elf_reader import read_object
from .cubin.loader import load
from .cuda import CompilerError, cubin_of_cuda
from .module import Module, ProgramError

__all__ = ["read_cuda_program"]


def read_cuda_program(path: str | Path) -> Module:
    """The program in a file of CUDA C++; ProgramError with the first error of the compiler when there is none, or when
    the compiler is not installed."""
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
