"""The whole machine: kernels, random programs and errors, every instruction in lockstep with the reference machine.

Kernels must also leave in memory what their PTX says and what threads leave that run alone. How many warps, CTAs and
lanes there are, who issues first and how slow memory is must not matter.
"""

import itertools
from collections.abc import Iterable

from rtl.isa.errors import WarpError
from rtl.issue import Policy
from rtl.params import PRESETS, SmParams
from sim.engine import Engine, PysimEngine
from sim.hardware import Hardware
from sim.launch import Launch
from sim.memory_service import LATENCY
from sim.model.thread import run as run_threads
from sim.testbench import Bench
from testbench.programs.expected import complaints
from testbench.programs.manifest import LEVELS, RUNS, Run, build
from testbench.sm_driver import SmDriver

__all__ = ["FEW", "SHORT", "check_kernels", "check_schedules", "machine_for", "run"]

SHORT = ("k06_switch_brx", "k07_switch_chain_in_loop", "k08_fib_recursion", "k10_calltable_global", "k13_early_exit",
         "k15_shared_reduce", "k16_votes", "k17_shfl_reduce", "k18_atomics_global", "k19_atomics_shared_hist",
         "k22_alu64", "k24_bitops", "k26_divrem64", "k37_cvt16", "k39_generic_addr", "k44_bar_variants",
         "k44_bar_variants:partial", "k45_vec_ldst", "k47_trap_brkpt:trap", "k47_trap_brkpt:breakpoint",
         "k48_special_regs", "k49_dynamic_shared", "k53_divergent_ret_func", "k56_many_preds", "k58_prefetch_misc")
"""Every kind of instruction."""
FEW = ("k01_vecadd", "k47_trap_brkpt:trap", "k48_special_regs")
"""What a slow simulation can do."""
SHOWN = "k15_shared_reduce"
"""The kernel in the waveform."""
MACHINES = (SmParams(warps=8, lanes=4), SmParams(warps=8, lanes=32), SmParams(warps=2, lanes=8),
            SmParams(warps=64, lanes=8, registers=2048, shared_bytes=65536))
"""Beside the default one."""
_RACE_FREE_TIMING = (1, 20, 200)
"""Latencies of memory."""


def machine_for(engine: type[Engine]) -> SmDriver:
    """The machine that an engine is fast enough for."""
    return SmDriver(PRESETS["tiny" if engine is PysimEngine else "default"], engine)


def _memory(launch: Launch) -> dict[str, bytes]:
    """Buffers and module variables."""
    return {name: launch.memory.read(*launch.memory.regions[name]) for name in (*launch.buffers, "globals")}


def _play(bench: Bench, driver: SmDriver, run: Run, level: str) -> Launch | None:
    """A run of a kernel on the machine and against what it must leave; None where it does not fit."""
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
    """Runs of kernels by name and level, against their PTX and against threads that run alone."""
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
            bench.expect(f"{name} {level}: memory that threads leave that run alone", _memory(finished), _memory(alone))
            bench.checked("kernels against threads that run alone")
    bench.figure(f"runs of kernels on {driver.params.warps} warps, {driver.params.lanes} lanes", played)


def check_schedules(bench: Bench, driver: SmDriver, runs: Iterable[str], latencies: Iterable[int]) -> None:
    """Neither who issues first nor how slow memory is matters to what is left."""
    rows = []
    for name in runs:
        for policy, latency in itertools.product(Policy, latencies):
            driver.hardware.policy, driver.hardware.latency = policy, latency
            cycles = driver.cycles
            if _play(bench, driver, RUNS[name], "O3") is not None:
                rows.append([name, policy.name.lower(), latency, driver.cycles - cycles])
    driver.hardware.policy, driver.hardware.latency = Policy.GREEDY_THEN_OLDEST, LATENCY
    bench.table("cycles", ["kernel", "who issues first", "latency of memory", "cycles"], rows)


def run(bench: Bench) -> None:
    """The testbench."""
    driver = machine_for(bench.engine)
    slow = bench.engine is PysimEngine
    names = FEW if slow else RUNS if bench.thorough else SHORT
    check_kernels(bench, driver, [(name, level) for name in names for level in (("O3",) if slow else LEVELS)])
    check_schedules(bench, driver, FEW[:1] if slow else ("k15_shared_reduce", "k44_bar_variants"),
                    (1,) if slow else _RACE_FREE_TIMING)
