"""The whole machine under test, with a host that stops it, wakes warps and looks at its registers."""

from dataclasses import replace

from rtl.isa.errors import REPORT_MASK_RESET
from rtl.params import PRESETS, SmParams
from sim.engine import Engine
from sim.launch import Launch
from sim.machine.hardware import Hardware, HardwareResult
from sim.machine.host import Driver, Host
from sim.testbench import Bench
from sim.waves import save_file_of
from testbench.driver import MachineDriver
from testbench.trap.case import Debugger, TrapCase


class TrapDriver(MachineDriver):
    """Runs launches in lockstep with the reference machine if wanted. There is a model for either, made when it is
    needed; with ``always`` everything is in lockstep: making one model takes longer than short runs save without it.
    """

    def __init__(self, params: SmParams, engine: type[Engine], *, always: bool = False) -> None:
        super().__init__(params)
        self._engine, self._always = engine, always
        self._machines: dict[bool, Hardware] = {}

    def hardware(self, *, check: bool) -> Hardware:
        """The machine, with or without the reference machine beside it."""
        check |= self._always
        if check not in self._machines:
            self._machines[check] = Hardware(self.params, self._engine, check=check)
        return self._machines[check]

    def run(self, bench: Bench, what: str, launch: Launch, driver: Driver, *, ends: str = "ok", check: bool = True,
            report_mask: int = REPORT_MASK_RESET) -> tuple[HardwareResult, Launch]:
        """Runs a launch under a driver; the result, and the launch with what the hardware left in memory. Fails at the
        first difference, in memory too, and when it does not end as ``ends`` says.
        """
        hardware = self.hardware(check=check)
        result = hardware.run(launch, 0, driver=driver, report_mask=report_mask)
        self.compare(bench, what, hardware, result, ends)
        if hardware.lockstep is not None:
            bench.checked("warps that entered or left the trap, in lockstep", hardware.lockstep.moved)
        return result, replace(launch, memory=hardware.memory)

    def play(self, bench: Bench, case: TrapCase) -> None:
        """Runs a case."""
        self.run(bench, case.name, *_played(bench, case), ends=case.ends, report_mask=case.report_mask)
        bench.checked("cases")


def _played(bench: Bench, case: TrapCase) -> tuple[Launch, Driver]:
    """A case's launch, and its host."""
    launch = case.launch()

    async def driver(host: Host) -> None:
        await case.script(Debugger(bench, case.name, host, launch))

    return launch, driver


def record_case(bench: Bench, case: TrapCase) -> None:
    """Runs a case on a small machine, for the waveform, if there is to be one."""
    vcd = bench.vcd
    if vcd is None:
        return
    launch, driver = _played(bench, case)
    Hardware(PRESETS["tiny"], bench.engine, vcd=vcd).run(launch, 0, driver=driver)
    bench.report.add_waveform(vcd, save_file_of(vcd))
