"""The whole machine under test, with a host that stops it, wakes warps and looks at its registers."""

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
    """Runs launches in lockstep with the warp model if wanted. There is a model for either, made when it is
    needed; with ``always`` everything is in lockstep: making one model takes longer than short runs save without it.
    """

    def __init__(self, params: SmParams, engine: type[Engine], *, always: bool = False) -> None:
        super().__init__(params)
        self._engine, self._always = engine, always
        self._machines: dict[bool, Hardware] = {}

    def hardware(self, *, check: bool) -> Hardware:
        """The machine, with or without the warp model beside it."""
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
        """Runs a launch under a driver; the result, and the launch with what the hardware left in memory. Fails at the
        first difference, in memory too, and when it does not end as ``ends`` says.
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
        """Runs a case."""
        self.debug(bench, case.name, case.launch(), case.script, case.ends, case.report_mask)
        bench.checked("cases")

    def debug(
        self, bench: Bench, what: str, launch: Launch, script: Script, ends: str, report_mask: int
    ) -> None:
        """Runs a launch whose host does what a script says."""
        self.run(
            bench,
            what,
            launch,
            _host(bench, what, launch, script),
            ends=ends,
            report_mask=report_mask,
        )


def _host(bench: Bench, what: str, launch: Launch, script: Script) -> Driver:
    """The host that does what a script says."""

    async def driver(host: HardwareHost) -> None:
        await script(Debugger(bench, what, host, launch))

    return driver


def record_case(bench: Bench, case: TrapCase) -> None:
    """Runs a case on a small machine, for the waveform, if there is to be one."""
    vcd = bench.vcd
    if vcd is None:
        return
    launch = case.launch()
    driver = _host(bench, case.name, launch, case.script)
    hardware = Hardware(PRESETS["tiny"], bench.engine, vcd=vcd)
    hardware.run(launch, 0, driver=driver)
    bench.report.cycles += hardware.cycles
    bench.report.add_waveform(vcd, save_file_of(vcd))
