"""The error status of the whole machine: code, warp and address of every error.

The host reads the registers of the error status; a trap handler reads those of its warp.
"""

from collections.abc import Iterable

from rtl.isa.errors import WarpError
from rtl.isa.kinds import BreakpointMode
from rtl.params import PRESETS
from sim.checks.testbench import Bench
from sim.engine import PysimEngine
from sim.model.warp.model import WarpModel
from sim.toolchain.cubin.object_file import PARAMETER_BASE
from testbench.sm.errors import ALL_REPORTED, ErrorCase, error_cases
from testbench.trap.case import Debugger
from testbench.trap.driver import TrapDriver, record_case
from testbench.trap.esr_cases import REGISTERS
from testbench.trap.programs import with_handler
from testbench.words import form_of

FEW = 3
"""Number of errors that a slow simulation checks."""
SHOWN = "the_first_error_is_kept"
"""The case of the waveform."""
_WARP = 2
"""The warp that has the error; the warps below it end at once."""
_SILENT = 6000
"""Cycles in which an error would have been reported, if it were not masked."""
_LOG = 63
_HANDLER = (
    f"MOV R14, c[0x0][{PARAMETER_BASE:#x}]",
    f"MOV R15, c[0x0][{PARAMETER_BASE + 4:#x}]",
    f"IADD32I R14, R14, {4 * _LOG:#x}",
    "S2R R13, SR_WARPERRORSTATUS",
    "STG.E [R14], R13",
    "RTT.TERMINATE",
)
"""A handler that stores the error status of its warp and ends the warp."""


def _reason(case: ErrorCase) -> int:
    """The reason of the BPT.TRAP that ends a case without an error."""
    word = int(case.body[-1].split()[-1], 0)
    form = form_of(word)
    values = form.values(word)
    assert values["mode"] == BreakpointMode.TRAP.value
    return values["reason"]


async def _over(d: Debugger) -> None:
    """Waits until the grid ends or no warp runs."""
    await d.host.until(lambda host: host.ended or host.locked_down, _SILENT)


async def _see_status(d: Debugger, case: ErrorCase) -> None:
    """Compares the error status and the interrupt."""
    if case.error is WarpError.NONE:
        await d.see("HWW_WARP_ESR", _WARP << 16)
        reasons = [_reason(case)]
    else:
        await d.see_error(case.error, _WARP, case.pc(_WARP))
        reasons = []
    overflow = ["PHYSICAL_STACK_OVERFLOW"] if case.error is WarpError.STACK_OVERFLOW else []
    paused = ["BPT_PAUSE"] if await d.host.read("BPT_PAUSE_MASK") else []
    await d.see_events(*overflow, *paused, reasons=reasons)
    d.expect("interrupt", d.host.interrupted, True)


def _ends_itself(case: ErrorCase) -> bool:
    """Whether the warp ends with its error, so that no warp is left to trap."""
    return case.error is WarpError.RET_EMPTY_STACK_ERROR


def check_errors(bench: Bench, driver: TrapDriver, cases: Iterable[ErrorCase]) -> None:
    """Programs with an error: without a handler, with a handler, and with the error's code not
    reported.
    """
    cases = list(cases)
    for case in bench.progress(cases, "errors"):
        _check_paused(bench, driver, case)
        _check_handled(bench, driver, case)
        if case.error is not WarpError.NONE:
            _check_silent(bench, driver, case)
        bench.checked("errors by code, warp and pc")


def _check_paused(bench: Bench, driver: TrapDriver, case: ErrorCase) -> None:
    """Checks that without a handler the warp is paused."""

    async def script(d: Debugger) -> None:
        await _over(d)
        await _see_status(d, case)
        await d.see("BPT_PAUSE_MASK", 0 if _ends_itself(case) else 1 << _WARP)

    driver.debug(
        bench,
        f"{case.name}, no handler",
        case.launch(_WARP, drains=True),
        script,
        "error",
        ALL_REPORTED,
    )


def _check_handled(bench: Bench, driver: TrapDriver, case: ErrorCase) -> None:
    """Checks that the handler reads the error code of its warp."""
    launch = with_handler(case.launch(_WARP, drains=True), *_HANDLER, registers=16)

    async def script(d: Debugger) -> None:
        await _over(d)
        d.expect("the grid is over", d.host.ended, True)
        await _see_status(d, case)
        status = (
            case.error.value << 16 | 1 if case.error is not WarpError.NONE else 1 << _reason(case)
        )
        d.expect("SR66", d.words(_LOG, 1), [0 if _ends_itself(case) else status])

    ends = "ok" if case.error is WarpError.NONE else "error"
    driver.debug(bench, f"{case.name}, a handler", launch, script, ends, ALL_REPORTED)


def _check_silent(bench: Bench, driver: TrapDriver, case: ErrorCase) -> None:
    """Checks that an error is not reported if its code is masked, all others being reported."""

    async def script(d: Debugger) -> None:
        await _over(d)
        await d.see("HWW_WARP_ESR", 0)
        await d.see_events()
        d.expect("interrupt", d.host.interrupted, False)

    mask = ALL_REPORTED & ~(1 << case.error.value)
    ends = (
        WarpModel(case.launch(_WARP, drains=True), report_mask=mask).run(_SILENT).status
    )  # some of these programs would not end
    driver.debug(
        bench, f"{case.name}, not reported", case.launch(_WARP, drains=True), script, ends, mask
    )


def check_registers(bench: Bench, driver: TrapDriver) -> None:
    """The cases of the registers."""
    for case in bench.progress(list(REGISTERS.cases.values()), "registers"):
        driver.play(bench, case)


def record(bench: Bench) -> None:
    """Runs one case for the waveform."""
    record_case(bench, REGISTERS.cases[SHOWN])


def run(bench: Bench) -> None:
    """Runs the testbench."""
    slow = bench.engine is PysimEngine
    driver = TrapDriver(PRESETS["default" if not slow else "small"], bench.engine)
    cases = list(error_cases())
    check_errors(bench, driver, cases[:FEW] if slow else cases if bench.thorough else cases[::3])
    if not slow:
        check_registers(bench, driver)
    if bench.thorough and not slow:
        for preset in ("small", "full"):
            check_errors(bench, TrapDriver(PRESETS[preset], bench.engine), cases)
    record(bench)
