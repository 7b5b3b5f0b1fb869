"""Instructions that fail in the trap handler: a warp that the host wakes continues after them."""

from collections.abc import Iterable
from functools import partial

import pytest

from rtl.isa.errors import WarpError
from rtl.isa.registers import trap_bit
from rtl.isa.trap_status import TRAP_REASONS
from rtl.params import PRESETS, WARP_THREADS
from sim.checks.testbench import Bench
from sim.engine import CompiledEngine
from testbench import simulation
from testbench.engine.designs import needs_compiled
from testbench.model.trap_machine import events, on
from testbench.sm.errors import ALL_REPORTED
from testbench.trap.case import LOG_AT, Debugger
from testbench.trap.driver import TrapDriver
from testbench.trap.handler_errors import HandlerErrors, handler_errors

CASES = tuple(handler_errors())
_SEEN = 4
"""Cycles from the lock-down until the host's registers show its cause."""
_PATIENCE = 100_000
"""Timeout in cycles of a case, also on a serial machine."""

passes = partial(simulation.passes, "trap", engine=CompiledEngine)


def check(bench: Bench, driver: TrapDriver, cases: Iterable[HandlerErrors]) -> None:
    """Runs cases on the hardware, in lockstep with the warp model."""
    for case in cases:

        async def script(d: Debugger, case: HandlerErrors = case) -> None:
            trapped = [1]
            for failure, pc in case.places(d.handler):
                await d.host.until(lambda host: host.locked_down, _PATIENCE)
                await d.run(_SEEN)
                await d.see_events(
                    *failure.events, reasons=trapped + [failure.reason] * bool(failure.reason)
                )
                if failure.error is WarpError.NONE:
                    await d.see("HWW_WARP_ESR", 0)
                else:
                    await d.see_error(failure.error, 0, pc)
                await d.clear()
                await d.run_trigger()
                trapped = []
            await d.end(_PATIENCE, words=range(WARP_THREADS), entries=[case.threads])
            await d.see_events()

        driver.debug(bench, case.name, case.launch(), script, "ok", ALL_REPORTED)


@needs_compiled
@pytest.mark.parametrize("preset", ["default", "least"])
def test_on_the_machine_a_woken_warp_continues_after_the_failed_instruction(preset):
    driver = TrapDriver(PRESETS[preset], CompiledEngine, always=True)
    cases = [case for case in CASES if driver.params.floats or not case.floats]
    passes(lambda bench: check(bench, driver, cases))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_on_the_model_a_woken_warp_continues_after_the_failed_instruction(case):
    machine, host = on(case.launch(), report_mask=ALL_REPORTED)
    trapped = {1}
    for failure, pc in case.places(machine.traps.handler or 0):
        result, status = machine.run(), machine.error_status
        assert status is not None
        assert (result.status, status.error, events(host)) == (
            "error",
            failure.error,
            failure.events,
        )
        assert failure.error is WarpError.NONE or status.pc == pc
        word = host.read("HWW_GLOBAL_ESR")
        reasons = {reason for reason in TRAP_REASONS if word >> trap_bit(reason) & 1}
        assert reasons == trapped | ({failure.reason} if failure.reason else set())
        host.clear_errors()
        host.run_trigger()
        trapped = set()
    assert (machine.run().status, machine.error_status, events(host)) == ("ok", None, set())
    base, _ = machine.launch.buffers["out"]
    words = [machine.memory.read_number(base + 4 * at, 4) for at in range(LOG_AT + 1)]
    assert (words[:WARP_THREADS], words[LOG_AT]) == (list(range(WARP_THREADS)), case.threads)
