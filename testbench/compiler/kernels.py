"""The manifest's kernels compiled by this project's compiler: their code, launches of it, and their
expected results.
"""

from functools import cache

import numpy as np

from sim.launch import Launch, prepare
from sim.launch.memory import Memory
from sim.toolchain.assembly.assembler import assemble
from sim.toolchain.compiler import compile_module
from sim.toolchain.compiler.layout import HANDLE_BYTES
from sim.toolchain.compiler.regalloc.color import REGISTERS
from sim.toolchain.cubin.loader import load
from sim.toolchain.cubin.object_file import ObjectFile
from sim.toolchain.module import Module
from sim.toolchain.ptx.front_end import read_ptx
from testbench.compiler.runs import arguments
from testbench.kernels.expected import expected
from testbench.kernels.manifest import RUNS, Run, cubin
from testbench.kernels.outcome import Exact, Outcome

KERNELS = sorted({run.kernel for run in RUNS.values()})
_BY_ADDRESS = "k12_callprototype_param"
"""Kernel whose parameter is a function's address: here the handle of the function in compiled code."""


@cache
def kernel_file(kernel: str, registers: int = REGISTERS) -> ObjectFile:
    """Returns a kernel's object file, compiled for this number of registers."""
    source = cubin(kernel, "O3").parent / f"{kernel}.ptx"
    return assemble(compile_module(read_ptx(source), registers), kernel)


@cache
def kernel_module(kernel: str, registers: int = REGISTERS) -> Module:
    """Returns the program in the kernel's object file."""
    return load(kernel_file(kernel, registers))


def kernel_launch(run: Run, registers: int = REGISTERS) -> Launch:
    """Returns a launch of the run's kernel, in a memory of its own."""
    module = kernel_module(run.kernel, registers)
    values = {}
    if run.kernel == _BY_ADDRESS:
        values["fp"] = HANDLE_BYTES  # the handle of the first function
    return prepare(
        module,
        arguments(run, values),
        grid=run.grid,
        block=run.block,
        dynamic_shared=run.dynamic_shared,
    )


def _expected(run: Run) -> dict[str, Outcome]:
    if run.kernel == _BY_ADDRESS:
        return {
            "out": Exact(np.array([thread + 3 * thread for thread in range(run.threads)], "<u4"))
        }
    return expected(run, "O3")


def complaints(run: Run, finished: Launch, memory: Memory | None = None) -> list[str]:
    """Checks the buffers after a launch, in ``memory`` or by default in the launch's memory: one
    line for each error.
    """
    left = memory or finished.memory
    return [
        f"{run.name}: {name}: {line}"
        for name, outcome in _expected(run).items()
        for line in outcome.complaints(left.read(*finished.buffers[name]))
    ]
