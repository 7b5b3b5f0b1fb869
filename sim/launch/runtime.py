"""Memory of the runtime that compiled code calls: what kernels print, and what they allocate."""

from collections.abc import Mapping

from sim.launch.memory import Memory
from sim.toolchain.runtime import HEAP, OUTPUT

__all__ = ["HEAP_DEFAULT", "HEAP_MEMORY", "OUTPUT_DEFAULT", "OUTPUT_MEMORY", "allot"]

OUTPUT_MEMORY, HEAP_MEMORY = "kernel output", "kernel heap"
"""Names of the regions."""
OUTPUT_DEFAULT, HEAP_DEFAULT = 1 << 20, 8 << 20
"""Bytes of both, as CUDA has them."""


def allot(memory: Memory, variables: Mapping[str, int], output: int | None, heap: int | None) -> int | None:
    """Allocates output and heap, so many bytes or the defaults, if the program has the runtime's ``variables``, and
    writes there where they are. The address of the output's variable; None without it.
    """
    for name, region, size in ((OUTPUT, OUTPUT_MEMORY, OUTPUT_DEFAULT if output is None else output),
                               (HEAP, HEAP_MEMORY, HEAP_DEFAULT if heap is None else heap)):
        if name in variables:
            memory.write_number(variables[name], 8, memory.allocate(region, size))
            memory.write_number(variables[name] + 8, 8, size)
    return variables.get(OUTPUT)
