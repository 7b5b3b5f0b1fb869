"""Programs by file name."""

from collections.abc import Callable, Mapping
from pathlib import Path

from sim.toolchain.assembler import read_sass
from sim.toolchain.cubin import read_cubin
from sim.toolchain.from_ptx import read_ptx_program
from sim.toolchain.module import Module, ProgramError

__all__ = ["SUFFIXES", "read_program"]

_READERS: Mapping[str, Callable[[str], Module]] = {".cubin": read_cubin, ".ptx": read_ptx_program, ".sass": read_sass}

SUFFIXES = tuple(_READERS)
"""Suffixes of the files that can be run."""


def read_program(path: str) -> Module:
    """The program in a file; ProgramError when there is none that can be run."""
    suffix = Path(path).suffix
    if suffix not in _READERS:
        *most, last = SUFFIXES
        raise ProgramError(f"{path}: a program is a file with the suffix {', '.join(most)} or {last}")
    return _READERS[suffix](path)
