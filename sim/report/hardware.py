"""The outcome of a run of the hardware, as text."""

from rtl.layouts import LaunchRejection
from sim.launch import Launch
from sim.machine.base import BaseMachine, HardwareResult
from sim.report.error_status import decode
from sim.report.run import buffer_lines, error_lines, head_lines

__all__ = ["describe_hardware"]

_SHOWN = {
    "instructions": "instructions",
    "lane_operations": "lane ops",
    "idle": "idle cycles",
    "divergences": "divergences",
    "pushes": "pushes",
    "spills": "spills",
    "fills": "fills",
    "memory_lines": "memory lines",
}
"""The counters that a report shows, with their labels."""


def describe_hardware(
    launch: Launch,
    hardware: BaseMachine,
    result: HardwareResult,
    difference: str | None,
    name: str = "",
) -> str:
    """Returns the report of a run as text.

    It has the machine's ``name``, status, cycles and counters; after an error, its description;
    after a hang or Ctrl-C, what each warp waits for; and the head of each buffer.
    """
    lines = [
        *head_lines(launch, name),
        f"status        {result.outcome}",
        f"cycles        {result.cycles}",
    ]
    lines += [
        f"{label:13} {result.counters[name]}"
        for name, label in _SHOWN.items()
        if name in result.counters
    ]
    if hardware.lockstep is not None:
        lines.append(f"compared      {hardware.lockstep.compared} instructions with the warp model")
    errors = decode(result.registers, ended=result.status == "ok")
    if errors.events:
        lines.append(f"events        {' '.join(errors.events)}")
    if difference is not None:
        return "\n".join([*lines, difference])
    if result.rejection is not LaunchRejection.NONE:
        lines.append(f"rejected      {result.rejection.name}")
    else:
        lines += error_lines(errors, launch, hardware.memory, result.warps.get(errors.warp))
    if result.status in ("timeout", "interrupted"):
        lines += result.diagnosis
    return "\n".join(lines + buffer_lines(launch, hardware.memory))
