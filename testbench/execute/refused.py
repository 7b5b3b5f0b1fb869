"""The words of a program that the machine refuses."""

from rtl.isa.control_code import GROUP_BYTES, INSTRUCTION_BYTES
from rtl.isa.errors import WarpError
from rtl.isa.legality import encoding_error
from sim.toolchain.module import Module

__all__ = ["refused_words"]


def refused_words(module: Module) -> list[str]:
    """The refused words of a module with their places and errors. The number of registers is that
    of the kernel that has most.
    """
    registers, code = max(entry.registers for entry in module.kernels.values()), module.code.content
    words = {
        place: int.from_bytes(code[place : place + INSTRUCTION_BYTES], "little")
        for place in range(0, len(code), INSTRUCTION_BYTES)
        if place % GROUP_BYTES
    }
    return [
        f"{word:#018x} at {place:#x}: {error.name}"
        for place, word in words.items()
        if (error := encoding_error(word, registers)) is not WarpError.NONE
    ]
