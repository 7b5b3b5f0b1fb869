"""Programs by file name: binaries as they are, sources by way of the toolchain."""

from pathlib import Path

from sim.toolchain.cubin import read_cubin
from sim.toolchain.module import Module, ProgramError

__all__ = ["read_program"]


def read_program(path: str | Path) -> Module:
    """The program in a file; ProgramError when there is none that can be run."""
    suffix = Path(path).suffix
    match suffix:
        case ".cubin":
            return read_cubin(path)
        case _:
            raise ProgramError(f"{path}: a program is a .cubin file, not {suffix or 'one without a suffix'}")
