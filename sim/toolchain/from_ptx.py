"""From a PTX file to assembly text, an object file, a program: front end, compiler and assembler in a row."""

from pathlib import Path

from sim.collector import collector_off

from .assembler import assemble_statements
from .compiler import compile_module, compile_statements
from .cubin import load
from .module import Module
from .object_file import ObjectFile
from .ptx.front_end import read_ptx

__all__ = ["assembly_of_ptx", "object_of_ptx", "read_ptx_program"]


def assembly_of_ptx(path: str | Path) -> str:
    """The assembly text of a PTX file; ProgramError when there is no program in it that can be compiled."""
    with collector_off():
        return compile_module(read_ptx(path))


def object_of_ptx(path: str | Path) -> ObjectFile:
    """The object file of a PTX file; ProgramError when there is no program in it that can be compiled."""
    with collector_off():
        return assemble_statements(compile_statements(read_ptx(path)), f"{path}, compiled")


def read_ptx_program(path: str | Path) -> Module:
    """The program in a PTX file; ProgramError when there is none that can be compiled."""
    return load(object_of_ptx(path))
