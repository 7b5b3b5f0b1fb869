"""Programs by file name."""

from collections.abc import Callable, Mapping
from pathlib import Path

from sim.toolchain.assembler import read_sass
from sim.toolchain.cubin import read_cubin
from sim.toolchain.module import Module, ProgramError

__all__ = ["SUFFIXES", "read_program"]

_READERS: Mapping[str, Callable[[str], Module]] = {".cubin": read_cubin, ".sass": read_sass}

SUFFIXES = tuple(_READERS)
"""Suffixes of the files that can be run."""


def read_program(path: str) -> Module:
    """The program in a file; ProgramError when there is none that can be run."""
    suffix = Path(path).suffix
    if suffix not in _READERS:
        raise ProgramError(f"{path}: a program is a file with the suffix {' or '.join(SUFFIXES)}")
    return _READERS[suffix](path)
