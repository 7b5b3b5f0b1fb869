"""The whole machine under test, with a host that stops it, wakes warps and looks at its registers."""

from dataclasses import replace

from rtl.isa.errors import REPORT_MASK_RESET
from rtl.params import PRESETS, SmParams
from sim.engine import Engine
from sim.launch import Launch, lacking
from sim.machine.hardware import Hardware, HardwareResult
from sim.machine.host import Driver, Host
from sim.testbench import Bench
from sim.waves import save_file_of
from testbench.trap.case import Debugger, TrapCase

__all__ = ["TrapDriver", "record_case"]


class TrapDriver:
    """Runs launches on a machine, in lockstep with the reference machine if wanted. There is a model for either, made
    when it is needed.

    Parameters
    ----------
    params : SmParams
        The machine.
    engine : type[Engine]
        What simulates it.
    always : bool
        Whether everything is in lockstep. Making one model takes longer than short runs save without it.
    """

    def __init__(self, params: SmParams, engine: type[Engine], *, always: bool = False) -> None:
        self.params = params
        self._engine, self._always = engine, always
        self._machines: dict[bool, Hardware] = {}

    def hardware(self, *, check: bool) -> Hardware:
        """The machine, with or without the reference machine beside it."""
        check |= self._always
        if check not in self._machines:
            self._machines[check] = Hardware(self.params, self._engine, check=check)
        return self._machines[check]

    def fits(self, launch: Launch) -> bool:
        """Whether a CTA has room on the machine."""
        return lacking(launch, self.params) is None

    def run(self, bench: Bench, what: str, launch: Launch, driver: Driver, *, ends: str = "ok", check: bool = True,
            report_mask: int = REPORT_MASK_RESET) -> tuple[HardwareResult, Launch]:
        """Runs a launch under a driver; the result, and the launch with what the hardware left in memory. Fails at the
        first difference, in memory too, and when it does not end as ``ends`` says.
        """
        hardware = self.hardware(check=check)
        result = hardware.run(launch, 0, driver=driver, report_mask=report_mask)
        bench.report.cycles += hardware.cycles
        finished = replace(launch, memory=hardware.memory)
        if (lockstep := hardware.lockstep) is not None:
            if lockstep.difference is not None:
                bench.fail(f"{what}: {lockstep.difference}")
            if ends == "ok" and (left := lockstep.pending()):
                bench.fail(f"{what}: not complete in the end: {left[0]}")
            if difference := lockstep.compare_memory(hardware.memory):
                bench.fail(f"{what}: {difference}")
            bench.checked("instructions in lockstep", lockstep.compared)
            bench.checked("warps that entered or left the trap, in lockstep", lockstep.moved)
        if result.status != ends:
            bench.fail("\n".join([f"{what}: {result.status} {result.reason}, expected {ends}", *result.diagnosis]))
        return result, finished

    def play(self, bench: Bench, case: TrapCase) -> None:
        """Runs a case."""
        launch = case.launch()

        async def driver(host: Host) -> None:
            await case.script(Debugger(bench, case.name, host, launch))

        self.run(bench, case.name, launch, driver, ends=case.ends, report_mask=case.report_mask)
        bench.checked("cases")


def record_case(bench: Bench, case: TrapCase) -> None:
    """Runs a case on a small machine, for the waveform, if there is to be one."""
    vcd = bench.vcd
    if vcd is None:
        return
    hardware, launch = Hardware(PRESETS["tiny"], bench.engine, vcd=vcd), case.launch()

    async def driver(host: Host) -> None:
        await case.script(Debugger(bench, case.name, host, launch))

    hardware.run(launch, 0, driver=driver)
    bench.report.add_waveform(vcd, save_file_of(vcd))
