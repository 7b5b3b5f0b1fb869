"""Traps of the whole machine: directed cases, injected traps, single steps.

All runs are in lockstep with the warp model. A program stopped at any cycle must leave the same
results as undisturbed, and every live warp must enter the handler once for each stop.
"""

from collections.abc import Callable, Iterable, Sequence
from random import Random

from rtl.params import PRESETS, WARP_THREADS, SmParams
from sim.checks.testbench import Bench
from sim.engine import PysimEngine
from sim.model.warp.model import WarpModel
from testbench.kernels.expected import complaints
from testbench.kernels.manifest import RUNS, build
from testbench.sm.random_programs import random_program
from testbench.trap.case import BUSY, Debugger, TrapCase
from testbench.trap.cases import CASES
from testbench.trap.driver import TrapDriver, record_case
from testbench.trap.injection import (
    HANDLERS,
    Counted,
    counted,
    in_every_state,
    inject,
    programs,
    stops_often,
)
from testbench.trap.programs import RETURN
from testbench.words import memory_left

FEW = ("rtt_goes_back", "a_bar_that_was_rolled_back_runs_again")
"""Cases that a slow simulation runs."""
SHORT = (
    "k05_triple_loop",
    "k08_fib_recursion",
    "k13_early_exit",
    "k15_shared_reduce",
    "k18_atomics_global",
    "k31_scan_shared",
    "k53_divergent_ret_func",
)
"""Kernels that diverge in all ways, synchronize at barriers and share memory."""
SHOWN = "a_bar_that_was_rolled_back_runs_again"
"""The case of the waveform."""
MACHINES = (
    SmParams(warps=4, lanes=4),
    SmParams(warps=8, lanes=32),
    SmParams(warps=64, lanes=8, registers=2048, shared_bytes=65536),
)
"""Machines besides the default one."""
_WINDOW = range(250, 1150)
"""Cycles after the start of a grid in which the short programs run."""
STATES = range(440, 2140)
"""Cycles from the start of the warps of every state until they have ended."""
_LOWER, _UPPER = 0xFFFF_FFFF, 0xFF
"""The slots of 40 warps as two registers of the host have them."""
_STARTED = 100_000
"""Timeout in cycles for that many warps to start."""
_BUSY_LIMIT = 1_000_000
"""Timeout in cycles for that many warps to end."""
_CTAS = 3
_INJECTED = 10_000
"""The minimum number of traps that the long form injects."""


def check_cases(bench: Bench, driver: TrapDriver, names: Iterable[str]) -> None:
    """Runs the cases of these names."""
    names = list(names)
    for name in bench.progress(names, "cases"):
        driver.play(bench, CASES[name])


def check_window(bench: Bench, driver: TrapDriver, cycles: Iterable[int], warps: int = 2) -> None:
    """Short programs, stopped once at each of these cycles: the results are those of the
    undisturbed program.
    """
    cycles = list(cycles)
    for name, launch in programs(warps).items():
        _stopped_once(
            bench, driver, name, lambda handler, launch=launch: counted(launch(), handler), cycles
        )


def check_states(bench: Bench, driver: TrapDriver, cycles: Iterable[int]) -> None:
    """Warps of one CTA in every state, stopped at each of these cycles, in lockstep.

    One waits at a barrier, one is diverged, one traps, one revives threads at their exit token, one
    has ended.
    """
    _stopped_once(
        bench,
        driver,
        "warps in every state",
        lambda handler: counted(in_every_state(), handler, traps_itself=True),
        list(cycles),
        check=True,
    )


def _stopped_once(
    bench: Bench,
    driver: TrapDriver,
    name: str,
    make: Callable[[Sequence[str]], Counted],
    cycles: Sequence[int],
    *,
    check: bool = False,
) -> None:
    """Stops a program once at each of these cycles, with each of the handlers, and compares its
    results with the undisturbed ones.
    """
    undisturbed = memory_left(inject(bench, driver, name, make(RETURN), iter(()), check=check))
    for cycle in bench.progress(cycles, name):
        what = f"{name}, stopped at cycle {cycle}"
        left = inject(bench, driver, what, make(HANDLERS[cycle % 2]), iter([cycle]), check=check)
        bench.expect(f"{what}: what it leaves", memory_left(left), undisturbed)


def check_kernels(
    bench: Bench,
    driver: TrapDriver,
    names: Iterable[str],
    *,
    gap: int,
    steps: int = 0,
    check: bool = False,
) -> None:
    """Kernels stopped after random numbers of instructions, at most ``gap``. Results are compared
    with the PTX interpreter; see :func:`inject`.
    """
    names = list(names)
    for number, name in enumerate(bench.progress(names, "kernels")):
        run, source = RUNS[name], Random(f"{bench.seed} {name}")
        made = counted(build(run, "O3"), HANDLERS[number % 2], traps_itself=run.traps)
        if not driver.fits(made.launch):
            continue
        left = inject(
            bench,
            driver,
            name,
            made,
            stops_often(source, gap),
            steps=steps,
            instructions=True,
            check=check,
        )
        if not run.traps:
            if wrong := complaints(run, "O3", left):
                bench.fail(wrong[0])
            bench.checked("kernels under a handler, against their PTX")


def check_random_times(bench: Bench, driver: TrapDriver, rounds: int, gap: int) -> None:
    """Short programs of four warps, stopped many times, in more CTAs than the machine holds at
    once.
    """
    for name, launch in programs(4, grid=_CTAS).items():
        undisturbed = memory_left(inject(bench, driver, name, counted(launch()), iter(())))
        for number in range(rounds):
            source = Random(f"{bench.seed} {name} {number}")
            left = inject(
                bench,
                driver,
                name,
                counted(launch(), HANDLERS[number % 2]),
                stops_often(source, gap),
                steps=100 * (number % 3 == 2),
                check=number % 2 == 0,
            )
            bench.expect(f"{name}: what it leaves", memory_left(left), undisturbed)


def check_random_programs(
    bench: Bench, driver: TrapDriver, count: int, size: int, gap: int
) -> None:
    """Random programs in lockstep, stopped many times. The results of one warp alone do not depend
    on timing.
    """
    for number in bench.progress(range(count), "random programs"):
        source, alone = Random(f"{bench.seed} {number}"), number % 2 == 0
        program = (
            random_program(source, size, WARP_THREADS, 1) if alone else random_program(source, size)
        )
        what, launch = f"random program {number}", program.launch
        made = counted(launch(), HANDLERS[number // 2 % 2])
        if not driver.fits(made.launch):
            continue
        left = inject(
            bench, driver, what, made, stops_often(source, gap), steps=50 * (number % 3), check=True
        )
        if alone:
            undisturbed = launch()
            WarpModel(undisturbed).run()
            bench.expect(f"{what}: what it leaves", memory_left(left), memory_left(undisturbed))
        bench.checked("random programs")


def check_many_warps(bench: Bench, driver: TrapDriver) -> None:
    """Warps in slots above the first 32, which are in registers of their own."""

    async def script(d: Debugger) -> None:
        for _ in range(_STARTED // 20):
            if await d.host.read("WARP_VALID_MASK_1") == _UPPER:
                break
            await d.run(20)
        await d.stop()
        await d.lock_down()
        for name, slots in (
            ("WARP_VALID_MASK", _LOWER),
            ("WARP_VALID_MASK_1", _UPPER),
            ("BPT_PAUSE_MASK", _LOWER),
            ("BPT_PAUSE_MASK_1", _UPPER),
            ("BPT_TRAP_MASK_1", 0),
        ):
            await d.see(name, slots)
        await d.write("BPT_PAUSE_MASK_1", ~2)
        await d.run(200)
        await d.see("BPT_PAUSE_MASK", _LOWER)
        await d.see("BPT_PAUSE_MASK_1", _UPPER & ~2)
        await (
            d.run_trigger()
        )  # first, since without the stop trigger the warp at RTT leaves and the trap ends
        await d.control(STOP_TRIGGER=0)
        await d.end(_BUSY_LIMIT)

    busy = (
        "MOV32I R23, 0x400",
        *BUSY[1:],
    )  # the first warp must still run when the last one starts
    driver.play(
        bench,
        TrapCase(
            "warps beyond the first 32",
            script,
            (*busy, "EXIT"),
            ("BPT.PAUSE", "RTT"),
            warps=4,
            grid=10,
        ),
    )


def record(bench: Bench) -> None:
    """Runs one case for the waveform."""
    record_case(bench, CASES[SHOWN])


def run(bench: Bench) -> None:
    """Runs the testbench."""
    driver = TrapDriver(PRESETS["default"], bench.engine, always=not bench.thorough)
    if bench.engine is PysimEngine:
        check_cases(bench, TrapDriver(PRESETS["tiny"], bench.engine), FEW)
        record(bench)
        return
    check_cases(bench, driver, CASES)
    if not bench.thorough:
        check_window(bench, driver, _WINDOW[::60])
        check_states(bench, driver, STATES[30::67])
        check_random_times(bench, driver, 1, 120)
        check_random_programs(bench, driver, 8, 12, 200)
        check_kernels(bench, driver, SHORT[1:4], gap=200)
        record(bench)
        return
    check_window(bench, driver, _WINDOW)
    check_states(bench, driver, STATES)
    check_random_times(bench, driver, 40, 120)
    check_random_programs(bench, driver, 200, 12, 200)
    check_kernels(bench, driver, RUNS, gap=200, steps=400, check=True)
    check_kernels(bench, driver, RUNS, gap=50)
    for params in MACHINES:
        other = TrapDriver(params, bench.engine)
        check_random_times(bench, other, 10, 120)
        check_kernels(bench, other, SHORT, gap=100)
        if params.warps > 32:
            check_many_warps(bench, other)
    bench.expect(
        "as many traps as there should be", bench.report.checks["traps injected"] >= _INJECTED, True
    )
    record(bench)
