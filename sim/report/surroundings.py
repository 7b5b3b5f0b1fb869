"""The instructions around a given one, for reports."""

from rtl.isa.control_code import GROUP_BYTES, INSTRUCTION_BYTES
from sim.launch import Launch
from sim.launch.memory import Memory, MemoryFaultError
from sim.toolchain.assembly.spelling import spell

__all__ = ["before", "code_lines"]

_AROUND = 3
"""Number of instructions shown before and after the one that failed."""


def _neighbours(pc: int) -> list[int]:
    """Returns the addresses of the instructions around one, without control words."""
    before, after = [], []
    step = pc
    while len(before) < _AROUND and step > INSTRUCTION_BYTES:
        step -= INSTRUCTION_BYTES
        if step % GROUP_BYTES:
            before.append(step)
    step = pc
    while len(after) < _AROUND:
        step += INSTRUCTION_BYTES
        if step % GROUP_BYTES:
            after.append(step)
    return [*reversed(before), pc, *after]


def before(address: int) -> int:
    """Returns the address of the instruction before the one at an address."""
    address -= INSTRUCTION_BYTES
    return address if address % GROUP_BYTES else address - INSTRUCTION_BYTES


def code_lines(launch: Launch, memory: Memory, pc: int) -> list[str]:
    """Returns the disassembly around a pc, as far as there is code."""
    lines = []
    for address in _neighbours(pc):
        try:
            word = memory.read_number(launch.program_base + address, INSTRUCTION_BYTES)
        except MemoryFaultError:
            continue
        mark = "->" if address == pc else "  "
        lines.append(f"  {mark} {address:#06x}  {word:016x}  {spell(word, address)}")
    return lines
