"""Compiles a PTX file to an object file or a program: front end, compiler and assembler."""

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
    """The assembler refuses code of the compiler. This is an error of this project, not of
    the PTX.
    """


def compiled_object(ptx: PtxModule, name: str, registers: int = REGISTERS) -> ObjectFile:
    """Returns the object file of a PTX module. ``registers`` is the most registers that a thread
    may use.

    Raises:
        ProgramError: A construct cannot be compiled; the message gives its place in the PTX. An
            error of the compiler itself raises the subclass CompilerFaultError.
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
    """Returns the object file of a PTX file.

    Raises:
        ProgramError: The file cannot be read or compiled.
    """
    with without_garbage_collection():
        return compiled_object(read_ptx(path), str(path))


def read_ptx_program(path: str | Path) -> Module:
    """Returns the program of a PTX file.

    Raises:
        ProgramError: The file cannot be read or compiled.
    """
    return program_of_ptx(read_ptx(path), str(path))


def program_of_ptx(ptx: PtxModule, name: str, registers: int = REGISTERS) -> Module:
    """Returns the program of a PTX module. See :func:`compiled_object`."""
    module = load(compiled_object(ptx, name, registers))
    kernels = {
        kernel: _typed(found, ptx.functions[kernel]) for kernel, found in module.kernels.items()
    }
    return replace(module, kernels=kernels, refused=ptx.refused)


def _typed(kernel: EntryPoint, function: PtxFunction) -> EntryPoint:
    """Returns the kernel with types and names of its parameters; object files contain only the
    sizes.
    """
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
