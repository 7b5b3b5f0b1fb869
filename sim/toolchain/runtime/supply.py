"""Adds the runtime to binaries: its functions, compiled once, are appended to a program's code."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import chain

from sim.support.alignment import round_up
from sim.toolchain.assembly.assembler import assemble_statements
from sim.toolchain.compiler import compile_statements
from sim.toolchain.cubin.loader import load
from sim.toolchain.cubin.object_file import CODE_GRANULE
from sim.toolchain.module import EntryPoint, Module, Patch, SectionData
from sim.toolchain.ptx.front_end import parse_ptx

from . import FUNCTIONS, runtime_text

__all__ = ["supplied"]

_NAME = "the runtime"


def supplied(module: Module) -> Module:
    """Returns the program with the runtime appended if it refers to a runtime function that it does
    not define, else the program itself.
    """
    if not (FUNCTIONS - module.code.symbols.keys()).intersection(_addressed(module)):
        return module
    runtime = _runtime()
    own = runtime.kernel()
    code = _joined(module.code, runtime.code, CODE_GRANULE)
    at = len(code.content) - len(runtime.code.content)
    return replace(
        module,
        code=code,
        data=_joined(module.data, runtime.data, runtime.data.alignment),
        sections=(
            *module.sections,
            *(range(at + extent.start, at + extent.stop) for extent in runtime.sections),
        ),
        kernels={name: _with(kernel, own) for name, kernel in module.kernels.items()},
    )


def _addressed(module: Module) -> Iterator[str]:
    """Yields the names whose addresses are in code, variables or constants; CUDA 12.9 calls through
    a constant bank.
    """
    banks = [kernel.constants.values() for kernel in module.kernels.values()]
    for data in (module.code, module.data, *module.constants.values(), *chain.from_iterable(banks)):
        for patch in data.patches:
            yield patch.symbol


@cache
def _runtime() -> Module:
    """Returns the runtime as a program. Its functions have the names that other programs use."""
    found = load(
        assemble_statements(
            compile_statements(parse_ptx(runtime_text(), _NAME), library=True), _NAME
        )
    )
    prefix = f"${found.kernel().name}$"
    return replace(
        found,
        code=replace(
            found.code,
            symbols={
                name.removeprefix(prefix): place for name, place in found.code.symbols.items()
            },
            patches=tuple(_plain(patch, prefix) for patch in found.code.patches),
        ),
    )


def _plain(patch: Patch, prefix: str) -> Patch:
    return replace(patch, symbol=patch.symbol.removeprefix(prefix))


def _joined(first: SectionData, second: SectionData, granule: int) -> SectionData:
    """Concatenates two sections."""
    at = round_up(len(first.content), granule)
    return SectionData(
        first.content.ljust(at, b"\0") + second.content,
        max(first.alignment, second.alignment),
        {**{name: at + place for name, place in second.symbols.items()}, **first.symbols},
        (*first.patches, *(replace(patch, offset=at + patch.offset) for patch in second.patches)),
        {**second.sizes, **first.sizes},
    )


def _with(kernel: EntryPoint, runtime: EntryPoint) -> EntryPoint:
    """Returns the kernel with the runtime's requirements added, as the runtime may be called from
    the deepest level.
    """
    return replace(
        kernel,
        registers=max(kernel.registers, runtime.registers),
        local=kernel.local + runtime.local,
        crs=kernel.crs + runtime.crs if kernel.crs else 0,
    )
