"""The report of a run as text."""

import numpy as np

from rtl.isa.control_code import instruction_address
from sim.launch import Launch
from sim.launch.memory import Memory
from sim.machine.diagnosis import instruction_text
from sim.machine.warp_state import WarpState, state_of
from sim.model.warp.model import Result, WarpModel
from sim.model.warp.state import Warp
from sim.report.error_status import DecodedStatus, decode, registers_of
from sim.report.surroundings import code_lines

__all__ = ["buffer_lines", "describe", "error_lines", "head_lines"]

_HEAD = 8
"""Number of elements of a buffer that are shown."""
_WORD = "b32"
"""The default type of elements."""


def buffer_lines(launch: Launch, memory: Memory) -> list[str]:
    """Returns the head of each buffer: numbers of its declared type, else hexadecimal words."""
    lines = []
    for name, (base, size) in launch.buffers.items():
        kind = launch.buffer_types.get(name, _WORD)
        bytes_each = int(kind[1:]) // 8
        shown = memory.read(base, min(size, bytes_each * _HEAD))
        elements = [
            _element(shown[at : at + bytes_each], kind) for at in range(0, len(shown), bytes_each)
        ]
        more = " ..." if size > len(shown) else ""
        lines.append(f"buffer        {name}, {size} bytes at {base:#x}: {' '.join(elements)}{more}")
    return lines


def _element(content: bytes, kind: str) -> str:
    """Formats a number of a type; bits are hexadecimal."""
    match kind[0]:
        case "f":
            return str(np.frombuffer(content, f"<{kind[0]}{len(content)}")[0])
        case "b":
            return f"{int.from_bytes(content, 'little'):0{int(kind[1:]) // 4}x}"
        case sign:
            return str(int.from_bytes(content, "little", signed=sign == "s"))


def error_lines(
    status: DecodedStatus, launch: Launch, memory: Memory, warp: WarpState | None, detail: str = ""
) -> list[str]:
    """Returns why a machine stopped, as in a driver's log and in a debugger, then the error and its
    place.

    The place is the code around it, and masks and stack of its warp if that is live. ``detail`` has
    further details of the error.
    """
    lines = status.log_lines()
    if status.exception is not None:
        lines.append(f"exception     {status.exception.symbol}, {status.exception.meaning}")
    if status.handled:
        lines.append(f"traps         {status.handled}")
    if not status.stopped:
        return lines
    lines += [
        f"error         {status.cause()}{f': {detail}' if detail else ''}",
        f"where         warp {status.warp}, pc {status.pc:#06x}",
    ]
    return (
        lines + code_lines(launch, memory, status.pc) + (warp.lines() if warp is not None else [])
    )


def _where(machine: WarpModel, warp: Warp) -> list[str]:
    """Returns what a live warp waits for, its next instruction, its masks and its stack."""
    waits = "it can continue"
    if warp.trap.paused:
        waits = "it is paused"
    elif warp.barrier is not None:
        waits = f"waits at barrier {warp.barrier}"
    return [
        f"warp {warp.slot}: {waits}",
        f"  next {instruction_text(machine.launch, machine.memory, instruction_address(warp.pc))}",
        *(f"  {line}" for line in state_of(warp).lines()),
    ]


def head_lines(launch: Launch, name: str) -> list[str]:
    """Returns the first lines of a report: the kernel and, unless it is empty, the ``name`` of the
    machine.
    """
    lines = [f"kernel        {launch.kernel.name}"]
    if name:
        lines.append(f"machine       {name}")
    return lines


def describe(machine: WarpModel, result: Result, name: str = "") -> str:
    """Returns the report of a run on the warp model as text.

    It has the machine's ``name``, status, instructions and the head of each buffer; after an error,
    its description, the code around it, and the warp's masks and stack; if the run was aborted,
    what each warp waits for.
    """
    status = result.status + (f": {result.reason}" if result.reason else "")
    if result.status == "interrupted":
        status = f"interrupted after {result.instructions:,} instructions"
    lines = [
        *head_lines(machine.launch, name),
        f"status        {status}",
        f"instructions  {result.instructions}",
    ]
    if machine.raised:
        lines.append(f"events        {' '.join(sorted(machine.raised))}")
    decoded, found = (
        decode(registers_of(machine), ended=result.status == "ok"),
        machine.error_status,
    )
    warp = None if found is None else machine.warps[found.warp]
    lines += error_lines(
        decoded,
        machine.launch,
        machine.memory,
        None if warp is None else state_of(warp),
        "" if found is None else found.detail,
    )
    if result.status in ("timeout", "interrupted"):
        lines += [line for live in machine.live for line in _where(machine, live)]
    return "\n".join(lines + buffer_lines(machine.launch, machine.memory))
