"""From a PTX file to an object file, a program: front end, compiler and assembler in a row."""

from dataclasses import replace
from pathlib import Path

from sim.support.garbage_collection import without_garbage_collection

from .assembly.assembler import assemble_statements
from .compiler import compile_statements
from .compiler.regalloc.color import REGISTERS
from .cubin.loader import load
from .cubin.object_file import ObjectFile
from .grammar import SourceError
from .module import EntryPoint, Module, ProgramError
from .ptx.front_end import read_ptx
from .ptx.module import PtxFunction, PtxModule, PtxVariable

__all__ = [
    "CompilerFaultError",
    "compiled_object",
    "object_of_ptx",
    "program_of_ptx",
    "read_ptx_program",
]


class CompilerFaultError(ProgramError):
    """The compiler made code that the assembler refuses: an error of this project, whatever the PTX."""


def compiled_object(ptx: PtxModule, name: str, registers: int = REGISTERS) -> ObjectFile:
    """The object file of a PTX module, whose threads have at most so many registers. ProgramError says what of it
    cannot be compiled, and where in the PTX that stands; a CompilerFaultError does so for what is the compiler's fault.
    """
    if (
        not any(function.entry and function.body is not None for function in ptx.functions.values())
        and not ptx.refused
    ):
        raise ProgramError(f"{name}: has no entry")
    try:
        return assemble_statements(compile_statements(ptx, registers), name)
    except ProgramError as error:
        place = error if isinstance(error, SourceError) else error.__cause__
        if not isinstance(place, SourceError):
            raise
        raise CompilerFaultError(
            f"{name}:{place.line}:{place.column}: this is compiled wrong, which is an error of "
            f"this project: {place}"
        ) from error


def object_of_ptx(path: str | Path) -> ObjectFile:
    """The object file of a PTX file; ProgramError when there is no program in it that can be compiled."""
    with without_garbage_collection():
        return compiled_object(read_ptx(path), str(path))


def read_ptx_program(path: str | Path) -> Module:
    """The program in a PTX file; ProgramError when there is none that can be compiled."""
    return program_of_ptx(read_ptx(path), str(path))


def program_of_ptx(ptx: PtxModule, name: str, registers: int = REGISTERS) -> Module:
    """The program of a PTX module; see :func:`compiled_object`."""
    module = load(compiled_object(ptx, name, registers))
    kernels = {
        kernel: _typed(found, ptx.functions[kernel]) for kernel, found in module.kernels.items()
    }
    return replace(module, kernels=kernels, refused=ptx.refused)


def _typed(kernel: EntryPoint, function: PtxFunction) -> EntryPoint:
    """The kernel with the types and names of its parameters, of which object files know the sizes only."""
    variables = function.parameters
    types = [
        variable.type.value if isinstance(variable, PtxVariable) and variable.count == 1 else None
        for variable in variables
    ]
    return replace(
        kernel,
        parameters=tuple(
            replace(
                parameter,
                type=types[parameter.ordinal],
                name=str(variables[parameter.ordinal].name),
            )
            for parameter in kernel.parameters
        ),
    )
