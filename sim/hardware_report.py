"""What a run of the hardware came to: its error status decoded, and all of it as text."""

from dataclasses import dataclass

from rtl.isa.errors import WarpError
from rtl.isa.registers import SM_REGISTERS, GlobalError
from rtl.layouts import LaunchRejection
from sim.hardware import Hardware, HardwareResult
from sim.launch import Launch
from sim.report import before, buffer_lines, code_lines, warp_lines

__all__ = ["HardwareError", "decode_error", "describe_hardware", "events_of"]

_SHOWN = ("instructions", "lane_operations", "idle", "divergences", "pushes", "spills", "fills", "memory_lines")


@dataclass(frozen=True)
class HardwareError:
    """The error status registers, decoded. ``error`` is NONE for a BPT.TRAP, whose ``reasons`` are those so far; ``pc``
    is the instruction's own."""

    error: WarpError
    warp: int
    pc: int
    reasons: tuple[int, ...]
    events: tuple[str, ...]


def _field(registers: dict[str, int], register: str, name: str) -> int:
    high, low = SM_REGISTERS[register].fields[name]
    return registers[register] >> low & (1 << high - low + 1) - 1


def decode_error(registers: dict[str, int]) -> HardwareError | None:
    """What stopped the machine; None when nothing did."""
    error = WarpError(_field(registers, "HWW_WARP_ESR", "ERROR"))
    traps = _field(registers, "HWW_GLOBAL_ESR", "TRAP_REASONS")
    reasons = tuple(reason + 1 for reason in range(traps.bit_length()) if traps >> reason & 1)
    events = tuple(one.name for one in GlobalError if registers["HWW_GLOBAL_ESR"] >> one.value & 1)
    if error is WarpError.NONE and not reasons:
        return None
    pc = registers["HWW_WARP_ESR_PC"]
    return HardwareError(error, _field(registers, "HWW_WARP_ESR", "WARP_ID"),
                         before(pc) if error is WarpError.NONE else pc, reasons, events)


def events_of(result: HardwareResult) -> list[str]:
    """The bits of the global error status that are set, by name."""
    return [one.name for one in GlobalError if result.registers.get("HWW_GLOBAL_ESR", 0) >> one.value & 1]


def _error_lines(launch: Launch, hardware: Hardware, result: HardwareResult) -> list[str]:
    """What stopped the machine, and where."""
    if result.rejection is not LaunchRejection.NONE:
        return [f"rejected      {result.rejection.name}"]
    status = decode_error(result.registers)
    if status is None:
        return []
    if status.error is WarpError.NONE:
        cause = f"BPT.TRAP, reasons so far: {' '.join(map(str, status.reasons))}"
    else:
        cause = f"{status.error.name}, code {status.error.value:#04x}"
    lines = [f"error         {cause}", f"where         warp {status.warp}, pc {status.pc:#06x}"]
    lines += code_lines(launch, hardware.memory, status.pc)
    if hardware.lockstep is not None and (warp := hardware.lockstep.machine.warps[status.warp]) is not None:
        lines += warp_lines(warp)
    return lines


def describe_hardware(launch: Launch, hardware: Hardware, result: HardwareResult, difference: str | None) -> str:
    """A run as text: status, cycles, instructions, what there was of divergence, spills and so on; after an error what
    it was, after a hang what each warp waits for; the head of each buffer."""
    status = result.status + (f": {result.reason}" if result.reason else "")
    lines = [f"kernel        {launch.kernel.name}", f"status        {status}", f"cycles        {result.cycles}"]
    lines += [f"{name.replace('_', ' '):13} {result.counters[name]}" for name in _SHOWN if name in result.counters]
    if hardware.lockstep is not None:
        lines.append(f"compared      {hardware.lockstep.compared} instructions with the reference machine")
    if events := events_of(result):
        lines.append(f"events        {' '.join(events)}")
    if difference is not None:
        return "\n".join([*lines, difference])
    lines += _error_lines(launch, hardware, result)
    if result.status == "timeout":
        lines += result.diagnosis
    return "\n".join(lines + buffer_lines(launch, hardware.memory))
