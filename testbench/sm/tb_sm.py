"""The whole machine: kernels, random programs and errors in lockstep with the warp model.

Kernels must also leave the memory that the PTX interpreter and the thread model leave, those of
CUDA C++ that of the same source compiled for the host. The result must not depend on the number of
warps, CTAs and lanes, the scheduling policy and the latency of memory.
"""

import itertools
from collections.abc import Iterable
from random import Random

from rtl.isa.errors import WarpError
from rtl.layouts import Policy
from rtl.params import PRESETS, SmParams
from sim.checks.testbench import Bench, CheckError
from sim.engine import Engine, PysimEngine
from sim.launch import Launch
from sim.machine.hardware import Hardware
from sim.machine.memory_service import LATENCY
from sim.model.thread.run import run as run_threads
from sim.model.warp.model import WarpModel
from sim.waves import save_file_of
from testbench.kernels.expected import complaints
from testbench.kernels.manifest import LEVELS, RUNS, Run, build
from testbench.programs.cuda.runs import CUDA_LEVELS, CUDA_RUNS
from testbench.programs.cuda.runs import complaints as cuda_complaints
from testbench.sm.driver import LIMIT, SmDriver
from testbench.sm.errors import ALL_REPORTED, ErrorCase, error_cases, launch_text
from testbench.sm.quarter import close_program
from testbench.sm.random_programs import Program, random_program, shrink
from testbench.words import contents, memory_left

SHORT = (
    "k06_switch_brx",
    "k07_switch_chain_in_loop",
    "k08_fib_recursion",
    "k10_calltable_global",
    "k13_early_exit",
    "k15_shared_reduce",
    "k16_votes",
    "k17_shfl_reduce",
    "k18_atomics_global",
    "k19_atomics_shared_hist",
    "k22_alu64",
    "k24_bitops",
    "k26_divrem64",
    "k37_cvt16",
    "k39_generic_addr",
    "k44_bar_variants",
    "k44_bar_variants:partial",
    "k45_vec_ldst",
    "k47_trap_brkpt:trap",
    "k47_trap_brkpt:breakpoint",
    "k48_special_regs",
    "k49_dynamic_shared",
    "k53_divergent_ret_func",
    "k56_many_preds",
    "k58_prefetch_misc",
    "k70_bits64",
    "k71_clamp",
)
"""Kernels that together have every kind of instruction."""
FEW = ("k01_vecadd", "k47_trap_brkpt:trap", "k48_special_regs")
"""Kernels that a slow simulation runs."""
SHOWN = "k01_vecadd"
"""The kernel of the waveform."""
MACHINES = (
    PRESETS["least"],
    SmParams(warps=8, lanes=4, stack_tokens=8),
    SmParams(warps=8, lanes=32, stack_tokens=32),
    SmParams(warps=2, lanes=8, stack_tokens=64),
    SmParams(warps=64, lanes=8, registers=2048, shared_bytes=65536),
)
"""Machines besides the default one."""
_CTAS, _CTA_THREADS = 40, 64
_REVERSE = f""".kernel reverse
.param out 8
.shared {4 * _CTA_THREADS}
    S2R R0, SR_TID.X
    S2R R1, SR_CTAID.X
    XMAD R4, R1, c[0x0][0x8], R0
    SHL R2, R0, 0x2
    STS [R2], R4
    LOP32I.XOR R2, R2, {4 * (_CTA_THREADS - 1):#x}
    BAR.SYNC 0x0
    LDS.U.32 R5, [R2]
    ISCADD R2.CC, R4, c[0x0][out], 0x2
    IADD.X R3, RZ, c[0x0][out+4]
    STG.E [R2], R5
    EXIT
"""
_LOOPS = 5000
"""Limit of instructions: a program that executes more never ends if its error is not reported."""
NEVER_RAISED = {
    WarpError.PC_OVERFLOW,
    WarpError.ILLEGAL_SPH_INSTR_COMBO,
    WarpError.GEOMETRY_SM_ERROR,
    WarpError.WARP_EXIT,
}
"""Errors of graphics, or without a public definition."""
_RANDOM_LIMIT = 200_000
"""Timeout in cycles of a random program."""
_LATENCIES = (1, 20, 200)
"""Latencies of memory in cycles."""


def machine_for(engine: type[Engine]) -> SmDriver:
    """The machine of suitable size for an engine."""
    return SmDriver(PRESETS["tiny" if engine is PysimEngine else "default"], engine)


def _play(bench: Bench, driver: SmDriver, run: Run, level: str) -> Launch | None:
    """Runs a kernel and compares the memory that it leaves; returns None if the machine is too
    small for it.
    """
    launch = build(run, level)
    if not driver.fits(launch):
        return None
    what = f"{run.name} {level}"
    driver.run(bench, what, launch, status="error" if run.traps else "ok")
    finished = driver.finished(launch)
    if wrong := complaints(run, level, finished):
        bench.fail(wrong[0])
    bench.checked("kernels against their PTX")
    return finished


def check_kernels(bench: Bench, driver: SmDriver, runs: Iterable[tuple[str, str]]) -> None:
    """Runs kernels by name and level, against their PTX and the thread model."""
    runs, played = list(runs), 0
    for name, level in bench.progress(runs, "kernels"):
        run = RUNS[name]
        finished = _play(bench, driver, run, level)
        if finished is None:
            continue
        played += 1
        if not run.compared:
            alone = build(run, level)
            run_threads(alone)
            bench.expect(
                f"{name} {level}: memory that threads leave that run alone",
                memory_left(finished),
                memory_left(alone),
            )
            bench.checked("kernels against threads that run alone")
    bench.figure(
        f"runs of kernels on {driver.params.warps} warps, {driver.params.lanes} lanes", played
    )


def check_cuda_kernels(bench: Bench, driver: SmDriver, runs: Iterable[tuple[str, str]]) -> None:
    """Runs kernels of CUDA C++ by name and level, against the results of the host's code."""
    for name, level in bench.progress(list(runs), "kernels of CUDA C++"):
        run = CUDA_RUNS[name]
        launch = build(run, level)
        driver.run(bench, f"{name} {level}", launch)
        if wrong := cuda_complaints(run, driver.finished(launch)):
            bench.fail(f"{level}: {wrong[0]}")
        bench.checked("kernels of CUDA C++ against a host")


def check_schedules(
    bench: Bench, driver: SmDriver, runs: Iterable[str], latencies: Iterable[int]
) -> None:
    """The results do not depend on the scheduling policy and the latency of memory."""
    rows = []
    for name in runs:
        for policy, latency in itertools.product(Policy, latencies):
            driver.hardware.policy, driver.hardware.latency = policy, latency
            cycles = driver.cycles
            if _play(bench, driver, RUNS[name], "O3") is not None:
                rows.append([name, policy.name.lower(), latency, driver.cycles - cycles])
    driver.hardware.policy, driver.hardware.latency = Policy.GREEDY_THEN_OLDEST, LATENCY
    bench.table("cycles", ["kernel", "who issues first", "latency of memory", "cycles"], rows)


def check_grid(bench: Bench, driver: SmDriver) -> None:
    """A grid with more CTAs than fit, as many in flight as possible; each reverses its numbers
    through shared memory.
    """
    launch = launch_text(_REVERSE, words=_CTAS * _CTA_THREADS, block=_CTA_THREADS, grid=_CTAS)
    result = driver.run(bench, "a grid", launch)
    bench.expect("CTAs", result.counters["ctas"], _CTAS)
    bench.expect(
        "what the grid leaves",
        contents(driver.finished(launch), "out"),
        [number ^ _CTA_THREADS - 1 for number in range(_CTAS * _CTA_THREADS)],
    )


def check_errors(bench: Bench, driver: SmDriver, cases: Iterable[ErrorCase]) -> None:
    """Programs with an error, which is reported to the host; those that end without the report also
    with the error masked.
    """
    cases = list(cases)
    for case in bench.progress(cases, "errors"):
        driver.run(bench, case.name, case.launch(), status="error", report_mask=ALL_REPORTED)
        status = driver.lockstep.machine.error_status
        assert status is not None
        bench.expect(f"{case.name}: error of the warp model", status.error.name, case.error.name)
        silent = WarpModel(case.launch(), report_mask=0).run(_LOOPS)
        if silent.status != "timeout":
            driver.run(
                bench,
                f"{case.name}, not reported",
                case.launch(),
                status=silent.status,
                report_mask=0,
            )


def check_close(bench: Bench, driver: SmDriver) -> None:
    """Instructions of the full lanes at the least distance from others."""
    driver.run(bench, f"a quarter's rate, {driver.params.lanes} lanes", close_program(bench.random))
    bench.checked("programs at a quarter of the rate")


def check_random(bench: Bench, driver: SmDriver, count: int, size: int) -> None:
    """Random programs; a failing one is reduced before it is reported."""
    for number in bench.progress(range(count), "random programs"):
        source = Random(f"{bench.seed} {number}")
        program = random_program(
            source, size, floats=driver.params.floats, doubles=driver.params.doubles
        )
        if (failure := _failure(bench, driver, program)) is not None:
            least = shrink(program, lambda smaller: _failure(bench, driver, smaller) is not None)
            bench.fail(
                f"random program {number}: {_failure(bench, driver, least) or failure}\n{least.text}"
            )
        bench.checked("random programs")


def _failure(bench: Bench, driver: SmDriver, program: Program) -> str | None:
    """The message with which a program fails; None if it passes."""
    try:
        driver.run(bench, "a random program", program.launch(), limit=_RANDOM_LIMIT)
    except CheckError as error:
        return str(error)
    return None


def check_machines(bench: Bench) -> None:
    """Machines with other numbers of warps and lanes."""
    for params in MACHINES:
        driver = SmDriver(params, bench.engine)
        check_close(bench, driver)
        check_kernels(bench, driver, itertools.product(RUNS, LEVELS))
        if params.floats:
            check_random(bench, driver, 50, 12)


def record(bench: Bench) -> None:
    """Runs a kernel for the waveform."""
    vcd = bench.vcd
    if vcd is None:
        return
    hardware = Hardware(PRESETS["tiny"], bench.engine, vcd=vcd)
    hardware.run(build(RUNS[SHOWN], "O3"), LIMIT)
    bench.report.cycles += hardware.cycles
    bench.report.add_waveform(vcd, save_file_of(vcd))


def run(bench: Bench) -> None:
    """Runs the testbench."""
    driver = machine_for(bench.engine)
    slow = bench.engine is PysimEngine
    names = FEW if slow else RUNS if bench.thorough else SHORT
    check_kernels(
        bench, driver, [(name, level) for name in names for level in (("O3",) if slow else LEVELS)]
    )
    check_schedules(
        bench,
        driver,
        FEW[:1] if slow else ("k15_shared_reduce", "k44_bar_variants"),
        (1,) if slow else _LATENCIES,
    )
    if not slow:
        check_grid(bench, driver)
    check_close(bench, driver)
    check_errors(bench, driver, itertools.islice(error_cases(), 3) if slow else error_cases())
    check_random(bench, driver, 1 if slow else 400 if bench.thorough else 16, 1 if slow else 12)
    if bench.thorough:
        check_cuda_kernels(bench, driver, itertools.product(CUDA_RUNS, CUDA_LEVELS))
        check_machines(bench)
    record(bench)
