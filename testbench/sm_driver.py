"""The whole machine under test: launches in lockstep with the reference machine, one after the other on one model."""

from dataclasses import replace

from rtl.isa.control_code import next_address
from rtl.isa.errors import REPORT_MASK_RESET, WarpError
from rtl.isa.registers import SM_REGISTERS, GlobalError, trap_bit
from rtl.params import SmParams
from sim.engine import Engine
from sim.hardware import Hardware, HardwareResult
from sim.launch import Launch
from sim.lockstep import Lockstep
from sim.testbench import Bench

__all__ = ["LIMIT", "SmDriver"]

LIMIT = 3_000_000
"""Cycles that no launch of a testbench takes."""
_TRAPS = range(1, 8)
"""Reasons of BPT.TRAP."""


def _field(registers: dict[str, int], register: str, name: str) -> int:
    high, low = SM_REGISTERS[register].fields[name]
    return registers[register] >> low & (1 << high - low + 1) - 1


class SmDriver:
    """Runs launches on a machine and compares every instruction, the end, the error status and memory.

    Parameters
    ----------
    params : SmParams
        The machine.
    engine : type[Engine]
        What simulates it.

    Attributes
    ----------
    hardware : Hardware
        ``policy`` and ``latency`` of it may be set.
    instructions, cycles : int
        Of all launches so far.
    """

    def __init__(self, params: SmParams, engine: type[Engine]) -> None:
        self.params = params
        self.hardware = Hardware(params, engine, check=True)
        self.instructions = self.cycles = 0

    @property
    def lockstep(self) -> Lockstep:
        """The comparison of the last launch."""
        assert self.hardware.lockstep is not None
        return self.hardware.lockstep

    def fits(self, launch: Launch) -> bool:
        """Whether a CTA has room on the machine."""
        return (launch.warps <= self.params.warps and launch.warps * launch.registers <= self.params.registers
                and launch.shared <= self.params.shared_bytes)

    def run(self, bench: Bench, what: str, launch: Launch, *, status: str = "ok",
            report_mask: int = REPORT_MASK_RESET, limit: int = LIMIT) -> HardwareResult:
        """Runs a launch, whose memory becomes the reference machine's. Fails at the first difference, when the run
        does not end as ``status`` says, when an instruction is left over, or when memory differs in the end.
        """
        hardware = self.hardware
        result = hardware.run(launch, limit, report_mask=report_mask)
        bench.report.cycles += hardware.cycles
        lockstep = self.lockstep
        if lockstep.difference is not None:
            bench.fail(f"{what}: {lockstep.difference}")
        if result.status != status:
            bench.fail("\n".join([f"{what}: {result.status} {result.reason}, expected {status}", result.rejection.name,
                                  *result.diagnosis]))
        if status == "ok" and (left := lockstep.pending()):
            bench.fail(f"{what}: not complete in the end: {left[0]}")
        if difference := lockstep.compare_memory(hardware.memory):
            bench.fail(f"{what}: {difference}")
        self._check_status(bench, what, result)
        if status == "ok":
            bench.expect(f"{what}: instructions", lockstep.compared, result.instructions)
        self.instructions += lockstep.compared
        self.cycles += result.cycles
        bench.checked("instructions in lockstep", lockstep.compared)
        bench.checked("bytes of memory in the end", sum(size for _, size in launch.memory.regions.values()))
        return result

    def finished(self, launch: Launch) -> Launch:
        """The launch with what the hardware left in memory."""
        return replace(launch, memory=self.hardware.memory)

    def _check_status(self, bench: Bench, what: str, result: HardwareResult) -> None:
        """The host's error registers are what the reference machine says."""
        machine, registers = self.lockstep.machine, result.registers
        status = machine.error_status
        trapped = sum(1 << trap_bit(reason) for reason in machine.trap_reasons)
        raised = sum(1 << GlobalError[name].value for name in machine.raised)
        several = 1 << GlobalError.MULTIPLE_WARP_ERRORS.value      # the reference machine stops at the first
        bench.expect(f"{what}: HWW_GLOBAL_ESR", registers["HWW_GLOBAL_ESR"] & ~several, trapped | raised)
        if status is None:
            bench.expect(f"{what}: HWW_WARP_ESR", registers["HWW_WARP_ESR"], 0)
            return
        pc = status.pc if status.error is not WarpError.NONE else next_address(status.pc)
        found = WarpError(_field(registers, "HWW_WARP_ESR", "ERROR"))
        bench.expect(f"{what}: error", found.name, status.error.name)
        bench.expect(f"{what}: its warp", _field(registers, "HWW_WARP_ESR", "WARP_ID"), status.warp)
        bench.expect(f"{what}: its pc", registers["HWW_WARP_ESR_PC"], pc)
        bench.checked("error status")
