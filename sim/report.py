"""What a run came to, for people."""

from rtl.isa.control_code import GROUP_BYTES, INSTRUCTION_BYTES
from rtl.isa.errors import WarpError
from sim.launch import Launch
from sim.memory import Memory, MemoryFaultError
from sim.model.faults import WarpFaultError
from sim.model.state import Warp
from sim.model.warp import ErrorStatus, Machine, Result
from sim.toolchain.spelling import spell

__all__ = ["before", "buffer_lines", "code_lines", "describe", "stack_lines", "warp_lines"]

_HEAD = 8
"""Words of a buffer that are shown."""
_TOKENS = 16
"""Tokens of the stack that are shown."""
_AROUND = 3
"""Instructions shown before and after the one that failed."""


def buffer_lines(launch: Launch, memory: Memory) -> list[str]:
    """The head of each buffer."""
    lines = []
    for name, (base, size) in launch.buffers.items():
        shown = memory.read(base, min(size, 4 * _HEAD))
        words = [f"{int.from_bytes(shown[at:at + 4], 'little'):08x}" for at in range(0, len(shown), 4)]
        more = " ..." if size > 4 * _HEAD else ""
        lines.append(f"buffer        {name}, {size} bytes at {base:#x}: {' '.join(words)}{more}")
    return lines


def _neighbours(pc: int) -> list[int]:
    """Addresses of the instructions around one, control words left out."""
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
    """The address of the instruction before the one at an address."""
    address -= INSTRUCTION_BYTES
    return address if address % GROUP_BYTES else address - INSTRUCTION_BYTES


def code_lines(launch: Launch, memory: Memory, pc: int) -> list[str]:
    """The disassembly around a pc, as far as there is code."""
    lines = []
    for address in _neighbours(pc):
        try:
            word = memory.read_number(launch.program_base + address, INSTRUCTION_BYTES)
        except MemoryFaultError:
            continue
        mark = "->" if address == pc else "  "
        lines.append(f"  {mark} {address:#06x}  {word:016x}  {spell(word, address)}")
    return lines


def stack_lines(warp: Warp) -> list[str]:
    """The topmost tokens, as far as they can be read."""
    lines, depth = [], warp.stack.depth
    for index in reversed(range(max(0, depth - _TOKENS), depth)):
        try:
            lines.append(f"     {warp.stack.token(index)}")
        except WarpFaultError as fault:
            return [*lines, f"     {index + 1} tokens in memory that faults: {fault.detail}"]
    return lines if depth <= _TOKENS else [*lines, f"     {depth - _TOKENS} more"]


def warp_lines(warp: Warp) -> list[str]:
    """Masks and stack."""
    masks = {name: getattr(warp.masks, name) for name in type(warp.masks).__slots__}
    lines = ["masks         " + " ".join(f"{name} {mask:08x}" for name, mask in masks.items() if mask)]
    lines.append(f"stack         {warp.stack.depth} tokens, {warp.api_call_depth} counted calls open"
                 + (", top first" if warp.stack.depth else ""))
    return lines + stack_lines(warp)


def _lines_of_error(machine: Machine, status: ErrorStatus) -> list[str]:
    """What stopped the machine, and where."""
    if status.error is WarpError.NONE:
        cause = f"BPT.TRAP, reasons so far: {' '.join(map(str, status.trap_reasons))}"
    else:
        cause = f"{status.error.name}, code {status.error.value:#04x}{f': {status.detail}' if status.detail else ''}"
    lines = [f"error         {cause}", f"where         warp {status.warp}, pc {status.pc:#06x}"]
    lines += code_lines(machine.launch, machine.memory, status.pc)
    if (warp := machine.warps[status.warp]) is not None:
        lines += warp_lines(warp)
    return lines


def describe(machine: Machine, result: Result) -> str:
    """A run's result as text: status, instructions, the head of each buffer; after an error, what it was, the code
    around it, and the warp's masks and stack.
    """
    status = result.status + (f": {result.reason}" if result.reason else "")
    lines = [f"kernel        {machine.launch.kernel.name}", f"status        {status}",
             f"instructions  {result.instructions}"]
    if machine.raised:
        lines.append(f"events        {' '.join(sorted(machine.raised))}")
    if result.error_status is not None:
        lines += _lines_of_error(machine, result.error_status)
    return "\n".join(lines + buffer_lines(machine.launch, machine.memory))
