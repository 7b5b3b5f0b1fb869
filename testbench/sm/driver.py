"""The whole machine under test: runs launches in lockstep with the warp model, one after the other
on one machine.
"""

from dataclasses import replace

from rtl.isa.errors import REPORT_MASK_RESET, WarpError
from rtl.isa.registers import SM_REGISTERS
from rtl.params import SmParams
from sim.checks.testbench import Bench
from sim.engine import Engine
from sim.launch import Launch
from sim.machine.hardware import Hardware, HardwareResult
from sim.machine.lockstep import Lockstep
from testbench.driver import MachineDriver

LIMIT = 60_000_000
"""Timeout in cycles of a launch."""


def _field(registers: dict[str, int], register: str, name: str) -> int:
    return SM_REGISTERS[register].get(name, registers[register])


class SmDriver(MachineDriver):
    """Runs launches and compares every instruction, the end, the error status and memory.

    Attributes:
        hardware: The machine. Its ``policy`` and ``latency`` may be set.
        instructions, cycles: Totals of all launches so far.
    """

    def __init__(self, params: SmParams, engine: type[Engine]) -> None:
        super().__init__(params)
        self.hardware = Hardware(params, engine, check=True)
        self.instructions = self.cycles = 0

    @property
    def lockstep(self) -> Lockstep:
        """The comparison with the warp model in the last launch."""
        assert self.hardware.lockstep is not None
        return self.hardware.lockstep

    def run(
        self,
        bench: Bench,
        what: str,
        launch: Launch,
        *,
        status: str = "ok",
        report_mask: int = REPORT_MASK_RESET,
        limit: int = LIMIT,
    ) -> HardwareResult:
        """Runs a launch on the warp model and the machine.

        Fails at the first difference, unless the run ends with ``status``, if an instruction is
        left over, or if memory differs at the end.
        """
        result = self.hardware.run(launch, limit, report_mask=report_mask)
        self.compare(bench, what, self.hardware, result, status)
        lockstep = self.lockstep
        self._check_status(bench, what, result)
        if status == "ok":
            bench.expect(
                f"{what}: instructions", lockstep.compared + lockstep.moved, result.instructions
            )
        self.instructions += lockstep.compared
        self.cycles += result.cycles
        bench.checked(
            "bytes of memory in the end", sum(size for _, size in launch.memory.regions.values())
        )
        return result

    def finished(self, launch: Launch) -> Launch:
        """The launch with the memory that the hardware left."""
        return replace(launch, memory=self.hardware.memory)

    def _check_status(self, bench: Bench, what: str, result: HardwareResult) -> None:
        """Compares the host's error registers with the warp model. Which of several errors was
        first may differ.
        """
        lockstep, registers = self.lockstep, result.registers
        for name in ("HWW_GLOBAL_ESR", "BPT_PAUSE_MASK", "BPT_TRAP_MASK"):
            bench.expect(f"{what}: {name}", registers[name], lockstep.host.read(name))
        errors = {(error.error.name, error.warp, error.pc) for error in lockstep.machine.log.errors}
        if errors:
            found = WarpError(_field(registers, "HWW_WARP_ESR", "ERROR"))
            first = (
                found.name,
                _field(registers, "HWW_WARP_ESR", "WARP_ID"),
                registers["HWW_WARP_ESR_PC"],
            )
            if first not in errors:
                bench.fail(
                    f"{what}: error, its warp and its pc are {first}, of the warp model {errors}"
                )
            bench.checked("error status")
            return
        for name in (
            ("HWW_WARP_ESR", "HWW_WARP_ESR_PC")
            if lockstep.machine.error_status
            else ("HWW_WARP_ESR",)
        ):
            bench.expect(f"{what}: {name}", registers[name], lockstep.host.read(name))
