"""Programs by file name."""

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path

from sim.toolchain.module import Module, ProgramError

__all__ = ["SUFFIXES", "read_program"]

_READERS: Mapping[str, tuple[str, str]] = {
    ".cubin": ("sim.toolchain.cubin.loader", "read_cubin"),
    ".ptx": ("sim.toolchain.from_ptx", "read_ptx_program"),
    ".sass": ("sim.toolchain.assembly.assembler", "read_sass"),
    ".cu": ("sim.toolchain.from_cuda", "read_cuda_program"),
}
"""Module and function of each reader, by suffix. They are imported on demand: a binary needs no
assembler, and the assembler no compiler.
"""

SUFFIXES = tuple(_READERS)
"""Suffixes of the program files."""


def read_program(path: str) -> Module:
    """Reads the program in a file; ProgramError if it cannot be run."""
    suffix = Path(path).suffix
    if suffix not in _READERS:
        *most, last = SUFFIXES
        hint = f"; a CUDA program in Python: python -m sim.cuda -- python {path}"
        raise ProgramError(
            f"{path}: a program is a file with the suffix {', '.join(most)} or {last}"
            f"{hint * (suffix == '.py')}"
        )
    module, function = _READERS[suffix]
    reader: Callable[[str], Module] = getattr(import_module(module), function)
    return reader(path)
