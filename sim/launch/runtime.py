"""Memory of the runtime that compiled code calls: kernel output, and the kernel heap."""

from collections.abc import Callable, Mapping

from sim.launch.memory import Memory
from sim.toolchain.runtime import HEAP, OUTPUT

__all__ = [
    "HEAP_DEFAULT",
    "HEAP_MEMORY",
    "OUTPUT_DEFAULT",
    "OUTPUT_MEMORY",
    "allot",
    "empty_output",
    "output_range",
]

OUTPUT_MEMORY, HEAP_MEMORY = "kernel output", "kernel heap"
"""Names of the regions of output and heap."""
OUTPUT_DEFAULT, HEAP_DEFAULT = 1 << 20, 8 << 20
"""Their default sizes in bytes, as in CUDA."""


def allot(
    memory: Memory,
    variables: Mapping[str, int],
    output: int | None,
    heap: int | None,
    region: Callable[[str], str] = str,
) -> int | None:
    """Allocates output and heap if the program has the runtime's ``variables``, and writes their
    addresses and sizes there.

    Args:
        memory: The memory.
        variables: Addresses of the runtime's variables by name.
        output: Bytes of the output; None: the default.
        heap: Bytes of the heap; None: the default.
        region: Makes the name of a region.

    Returns:
        The address of the output's variable; None without it.
    """
    for name, name_of_region, size in (
        (OUTPUT, OUTPUT_MEMORY, OUTPUT_DEFAULT if output is None else output),
        (HEAP, HEAP_MEMORY, HEAP_DEFAULT if heap is None else heap),
    ):
        if name in variables:
            memory.write_number(variables[name], 8, memory.allocate(region(name_of_region), size))
            memory.write_number(variables[name] + 8, 8, size)
    return variables.get(OUTPUT)


def output_range(memory: Memory, variable: int) -> tuple[int, int]:
    """Returns address and size of the text that kernels have printed, from the output's variable."""
    address, size, used = (memory.read_number(variable + 8 * index, 8) for index in range(3))
    return address, min(size, used)


def empty_output(memory: Memory, variable: int) -> None:
    """Discards the text that kernels have printed, and resets the counts of used and lost bytes."""
    memory.write(variable + 16, bytes(16))
