"""What a run came to, for people."""

from sim.launch import Launch
from sim.launch.memory import Memory
from sim.machine.warp_state import WarpState, state_of
from sim.model.warp import Machine, Result
from sim.report.error_status import DecodedStatus, decode, registers_of
from sim.report.surroundings import code_lines

__all__ = ["buffer_lines", "describe", "error_lines"]

_HEAD = 8
"""Words of a buffer that are shown."""


def buffer_lines(launch: Launch, memory: Memory) -> list[str]:
    """The head of each buffer."""
    lines = []
    for name, (base, size) in launch.buffers.items():
        shown = memory.read(base, min(size, 4 * _HEAD))
        words = [f"{int.from_bytes(shown[at:at + 4], 'little'):08x}" for at in range(0, len(shown), 4)]
        more = " ..." if size > 4 * _HEAD else ""
        lines.append(f"buffer        {name}, {size} bytes at {base:#x}: {' '.join(words)}{more}")
    return lines


def error_lines(status: DecodedStatus, launch: Launch, memory: Memory, warp: WarpState | None,
                detail: str = "") -> list[str]:
    """What stopped a machine, as a driver's log and a debugger would say it, then the error and its place: the code
    around it, and masks and stack of its warp if that lives. ``detail`` is what else is known of the error.
    """
    lines = status.log_lines()
    if status.exception is not None:
        lines.append(f"exception     {status.exception.symbol}, {status.exception.meaning}")
    if status.handled:
        lines.append(f"traps         {status.handled}")
    if not status.stopped:
        return lines
    lines += [f"error         {status.cause()}{f': {detail}' if detail else ''}",
              f"where         warp {status.warp}, pc {status.pc:#06x}"]
    return lines + code_lines(launch, memory, status.pc) + (warp.lines() if warp is not None else [])


def describe(machine: Machine, result: Result) -> str:
    """A run's result as text: status, instructions, the head of each buffer; after an error, what it was, the code
    around it, and the warp's masks and stack.
    """
    status = result.status + (f": {result.reason}" if result.reason else "")
    lines = [f"kernel        {machine.launch.kernel.name}", f"status        {status}",
             f"instructions  {result.instructions}"]
    if machine.raised:
        lines.append(f"events        {' '.join(sorted(machine.raised))}")
    decoded, found = decode(registers_of(machine), ended=result.status == "ok"), machine.error_status
    warp = None if found is None else machine.warps[found.warp]
    lines += error_lines(decoded, machine.launch, machine.memory, None if warp is None else state_of(warp),
                         "" if found is None else found.detail)
    return "\n".join(lines + buffer_lines(machine.launch, machine.memory))
