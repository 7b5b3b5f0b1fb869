"""The whole machine under test, with a host that stops it, wakes warps and reads its registers."""

from dataclasses import replace

from rtl.isa.errors import REPORT_MASK_RESET
from rtl.params import PRESETS, SmParams
from sim.checks.testbench import Bench
from sim.engine import Engine
from sim.launch import Launch
from sim.machine.hardware import Hardware, HardwareResult
from sim.machine.host import Driver, HardwareHost
from sim.waves import save_file_of
from testbench.driver import MachineDriver
from testbench.trap.case import Debugger, Script, TrapCase


class TrapDriver(MachineDriver):
    """Runs launches on the machine, with or without the warp model in lockstep.

    Each of the two machines is made when it is first needed. With ``always`` every launch runs in
    lockstep: for a few short runs that takes less time than making both.
    """

    def __init__(self, params: SmParams, engine: type[Engine], *, always: bool = False) -> None:
        super().__init__(params)
        self._engine, self._always = engine, always
        self._machines: dict[bool, Hardware] = {}

    def hardware(self, *, check: bool) -> Hardware:
        """The machine, with the warp model in lockstep if ``check``."""
        check |= self._always
        if check not in self._machines:
            self._machines[check] = Hardware(self.params, self._engine, check=check)
        return self._machines[check]

    def run(
        self,
        bench: Bench,
        what: str,
        launch: Launch,
        driver: Driver,
        *,
        ends: str = "ok",
        check: bool = True,
        report_mask: int = REPORT_MASK_RESET,
    ) -> tuple[HardwareResult, Launch]:
        """Runs a launch under a driver.

        Returns:
            The result, and the launch with the memory that the hardware left.

        Fails at the first difference from the warp model, also in memory, and unless the run ends
        as ``ends`` says.
        """
        hardware = self.hardware(check=check)
        result = hardware.run(launch, 0, driver=driver, report_mask=report_mask)
        self.compare(bench, what, hardware, result, ends)
        if hardware.lockstep is not None:
            bench.checked(
                "warps that entered or left the trap, in lockstep", hardware.lockstep.moved
            )
        return result, replace(launch, memory=hardware.memory)

    def play(self, bench: Bench, case: TrapCase) -> None:
        """Runs a case with the script of its host."""
        self.debug(bench, case.name, case.launch(), case.script, case.ends, case.report_mask)
        bench.checked("cases")

    def debug(
        self, bench: Bench, what: str, launch: Launch, script: Script, ends: str, report_mask: int
    ) -> None:
        """Runs a launch with a script of the host."""
        self.run(
            bench,
            what,
            launch,
            _host(bench, what, launch, script),
            ends=ends,
            report_mask=report_mask,
        )


def _host(bench: Bench, what: str, launch: Launch, script: Script) -> Driver:
    """A host that executes a script."""

    async def driver(host: HardwareHost) -> None:
        await script(Debugger(bench, what, host, launch))

    return driver


def record_case(bench: Bench, case: TrapCase) -> None:
    """Runs a case on a small machine for the waveform, if the bench records one."""
    vcd = bench.vcd
    if vcd is None:
        return
    launch = case.launch()
    driver = _host(bench, case.name, launch, case.script)
    hardware = Hardware(PRESETS["tiny"], bench.engine, vcd=vcd)
    hardware.run(launch, 0, driver=driver)
    bench.report.cycles += hardware.cycles
    bench.report.add_waveform(vcd, save_file_of(vcd))
