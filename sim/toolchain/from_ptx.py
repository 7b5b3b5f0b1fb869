"""From a PTX file to assembly text, an object file, a program: front end, compiler and assembler in a row."""

from pathlib import Path

from .assembler import assemble
from .compiler import Assembly, compile_module
from .cubin import load
from .grammar import SourceError
from .module import Module, ProgramError
from .object_file import ObjectFile
from .ptx.front_end import read_ptx
from .ptx.module import PtxModule

__all__ = ["CompilerFaultError", "assembly_of_ptx", "object_of_module", "object_of_ptx", "read_ptx_program"]


class CompilerFaultError(ProgramError):
    """The compiler made assembly text that the assembler refuses: an error of this project, whatever the PTX."""


def assembly_of_ptx(path: str | Path) -> Assembly:
    """The assembly text of a PTX file; ProgramError when there is no program in it that can be compiled."""
    return compile_module(read_ptx(path))


def object_of_module(module: PtxModule) -> ObjectFile:
    """The object file of a PTX module. ProgramError says what of it cannot be compiled, and where in the PTX that
    stands; a CompilerFaultError does so for what is the compiler's fault.
    """
    if not any(function.entry and function.body is not None for function in module.functions.values()):
        raise ProgramError(f"{module.name}: has no entry")
    text = compile_module(module)
    try:
        return assemble(text, module.name)
    except ProgramError as error:
        if not isinstance(error.__cause__, SourceError):
            raise
        made = error.__cause__.line
        line, column = text.origin(made)
        raise CompilerFaultError(f"{module.name}:{line}:{column}: this is compiled wrong, which is an error of this "
                                 f"project: {text.splitlines()[made - 1].strip()}: {error.__cause__}") from error


def object_of_ptx(path: str | Path) -> ObjectFile:
    """The object file of a PTX file; ProgramError when there is no program in it that can be compiled."""
    return object_of_module(read_ptx(path))


def read_ptx_program(path: str | Path) -> Module:
    """The program in a PTX file; ProgramError when there is none that can be compiled."""
    return load(object_of_ptx(path))
