"""From a PTX file to an object file, a program: front end, compiler and assembler in a row."""

from dataclasses import replace
from pathlib import Path

from .assembler import assemble
from .compiler import compile_module
from .cubin import load
from .module import Module
from .object_file import ObjectFile
from .ptx.front_end import read_ptx
from .ptx.module import PtxModule

__all__ = ["object_of_ptx", "read_ptx_program"]


def object_of_ptx(path: str | Path) -> ObjectFile:
    """The object file of a PTX file; ProgramError when there is no program in it that can be compiled."""
    return _object(read_ptx(path), path)


def read_ptx_program(path: str | Path) -> Module:
    """The program in a PTX file; ProgramError when there is none that can be compiled."""
    module = read_ptx(path)
    return replace(load(_object(module, path)), refused=module.refused)


def _object(module: PtxModule, path: str | Path) -> ObjectFile:
    return assemble(compile_module(module), f"{path}, compiled")
