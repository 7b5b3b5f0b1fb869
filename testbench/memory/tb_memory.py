"""The memory unit: results and errors of every load, store, atomic operation and shuffle.

Random instructions of several warps are executed by the warp model first. The unit must have the
same registers, predicates, memory, shared memory, errors and order. Accesses with known patterns
must take as many requests as they have lines, and as many cycles as their bank conflicts cost.
"""

import itertools
from collections import Counter
from dataclasses import replace
from typing import Any

from rtl.isa.errors import REPORT_MASK_RESET
from rtl.isa.kinds import AtomicOperation, MemorySize
from rtl.isa.table import BY_NAME, find
from rtl.params import SmParams
from sim.checks.testbench import Bench
from sim.machine.memory_port import MemoryBehaviour
from testbench.handmade import encode
from testbench.memory.cases import (
    POINTER,
    atomics,
    counted,
    edges,
    faults,
    fills,
    float_sums,
    rates,
    shared_counted,
    shuffles,
    swaps,
)
from testbench.memory.coverage import MemoryCoverage
from testbench.memory.driver import PARAMS, MemoryDriver
from testbench.memory.random_accesses import random_world
from testbench.memory.world import BUFFER, WARPS, MemoryStep, MemoryWorld, buffer_of

ALL_REPORTED = 0x00FF_FFFF
_EVERYBODY = (1 << 32) - 1
HANDS_OFF = MemoryBehaviour(latency=(1, 1))
UNRULY = MemoryBehaviour(latency=(1, 30), interval=2, stall=0.2, reorder=True, late=True)
FEW_LANES = SmParams(warps=WARPS, lanes=4, registers=256, shared_bytes=4096)
LEAST_LANES = SmParams(warps=WARPS, lanes=2, registers=256, shared_bytes=4096)
ALL_LANES = SmParams(warps=WARPS, lanes=32, registers=256, shared_bytes=8192)
MANY_LANES = SmParams(warps=WARPS, lanes=16, registers=256, shared_bytes=8192)
SERIAL = SmParams(
    warps=WARPS, lanes=1, registers=256, shared_bytes=4096, floats=False, doubles=False
)
SIZES = (FEW_LANES, PARAMS, ALL_LANES, MANY_LANES)
"""Machines on which the checks run; the last one only in the long form."""


def _play(bench: Bench, world: MemoryWorld, params: SmParams = PARAMS, **how: Any) -> MemoryDriver:
    """Executes the steps of a world on the hardware."""
    driver = MemoryDriver(bench, world, params, **how)
    driver.run()
    return driver


def check_random(bench: Bench) -> MemoryCoverage:
    """Random instructions, compared one by one with the warp model. Returns the coverage, which
    must be complete in the long form.
    """
    coverage = MemoryCoverage()
    rounds, count = (60, 300) if bench.thorough else (3, 90)
    for number in range(rounds):
        mask = (ALL_REPORTED, REPORT_MASK_RESET, ALL_REPORTED, 0)[number % 4]
        world, reached = random_world(bench.random, count, mask), MemoryCoverage()
        driver = _play(
            bench,
            world,
            SIZES[number % len(SIZES)],
            behaviour=(HANDS_OFF, UNRULY)[number % 2],
            idle=0.1 * (number % 3),
            coverage=reached,
        )
        reached.take(world.steps)
        bench.expect("overlaps that random instructions have not reached", reached.shallow(), [])
        coverage.add(reached)
        bench.checked("random instructions", driver.steps)
    bench.table("random instructions have reached", ["", "times"], coverage.rows())
    if bench.thorough:
        bench.expect("what random instructions have not reached", coverage.missing(), [])
    return coverage


def check_least(bench: Bench) -> None:
    """Random instructions on two lanes, where a beat passes at once and at most two instructions
    are in flight: no overlaps are required.
    """
    for number in range(20 if bench.thorough else 2):
        world = random_world(
            bench.random,
            300 if bench.thorough else 90,
            (ALL_REPORTED, REPORT_MASK_RESET)[number % 2],
        )
        driver = _play(
            bench,
            world,
            LEAST_LANES,
            behaviour=(HANDS_OFF, UNRULY)[number % 2],
            idle=0.1 * (number % 3),
        )
        bench.checked("random instructions on two lanes", driver.steps)


def check_atomics(bench: Bench, params: SmParams = FEW_LANES) -> None:
    """Every atomic operation, on numbers of every type."""
    world = MemoryWorld(ALL_REPORTED, seed=bench.seed)
    for step in atomics(world, bench.random):
        world.execute(step)
    bench.checked("atomic operations", _play(bench, world, params).steps)


def check_serial(bench: Bench) -> None:
    """One lane: random instructions, and in the long form atomic operations, edges, faults, moves
    of local memory, clears, swaps and shuffles.
    """
    for number in range(20 if bench.thorough else 2):
        world = random_world(
            bench.random,
            300 if bench.thorough else 16,
            (ALL_REPORTED, REPORT_MASK_RESET)[number % 2],
            SERIAL.floats,
        )
        driver = _play(
            bench, world, SERIAL, behaviour=(HANDS_OFF, UNRULY)[number % 2], idle=0.1 * (number % 2)
        )
        bench.checked("random instructions on one lane", driver.steps)
    for check in (check_atomics, check_faults, check_local_base, check_clear):
        check(bench, SERIAL)
    check_edges(bench, SERIAL, *() if bench.thorough else (1 << 17, 8))
    check_swaps(bench, SERIAL, 24 if bench.thorough else 1)
    check_shuffles(bench, SERIAL, 1 if bench.thorough else 17)


def check_lines(bench: Bench) -> None:
    """A line is requested once, for any number of threads."""
    world = MemoryWorld(ALL_REPORTED, seed=bench.seed)
    cases = counted(world)
    for case in cases:
        world.execute(case.step)
    driver = _play(bench, world, behaviour=MemoryBehaviour(latency=(20, 20)), alone=True)
    before = cycle = 0
    rows = []
    for case, end in zip(cases, driver.ends, strict=True):
        bench.expect(f"lines of {case.what}", end.lines - before, case.count)
        rows.append([case.what, case.count, end.cycle - cycle])
        before, cycle = end.lines, end.cycle
    bench.table("lines and cycles, memory answers after 20 cycles", ["", "lines", "cycles"], rows)
    bench.checked("counts of lines", len(cases))


def check_banks(bench: Bench) -> None:
    """Shared memory serves a word of each bank in a cycle."""
    for params in (*SIZES, LEAST_LANES) if bench.thorough else (FEW_LANES, LEAST_LANES):
        world = MemoryWorld(ALL_REPORTED, seed=bench.seed)
        cases = shared_counted(world, params.lanes)
        for case in cases:
            world.execute(case.step)
        driver = _play(bench, world, params, alone=True)
        before = 0
        for case, end in zip(cases, driver.ends, strict=True):
            bench.expect(
                f"cycles in shared memory, {params.lanes} lanes, {case.what}",
                end.shared_cycles - before,
                case.count,
            )
            before = end.shared_cycles
        bench.checked("counts of bank conflicts", len(cases))


def check_rates(bench: Bench) -> None:
    """Independent instructions of several warps overlap."""
    rows = []
    for name, words, most in rates():
        world = MemoryWorld(ALL_REPORTED, seed=bench.seed)
        for slot in range(WARPS):
            world.set_pair(slot, POINTER, [buffer_of(slot) + 4 * thread for thread in range(32)])
            world.set_register(slot, POINTER + 2, [4 * thread for thread in range(32)])
        for group in words:
            for slot, word in itertools.product(range(WARPS), group):
                world.execute(MemoryStep(slot, word))
        driver = _play(bench, world, behaviour=MemoryBehaviour(latency=(20, 20)))
        half = len(driver.ends) // 2
        rate = (driver.ends[-1].cycle - driver.ends[half].cycle) / (len(driver.ends) - 1 - half)
        bench.expect(f"{name}: {rate} cycles an instruction, at most {most}", rate <= most, True)
        rows.append([name, rate, most])
    bench.table(
        "cycles an instruction of several warps, memory answers after 20 cycles",
        ["", "cycles", "most"],
        rows,
    )
    bench.checked("rates", len(rows))


def check_fills(bench: Bench) -> None:
    """The operands of a store remain until all its lines are filled, even if other instructions
    wait for their buffer.

    The last of several stores to a line remains, in any order in which memory performs unconfirmed
    requests.
    """
    for behaviour in (MemoryBehaviour(latency=(20, 20)), UNRULY):
        world = MemoryWorld(ALL_REPORTED, seed=bench.seed)
        for step in fills(world):
            world.execute(step)
        bench.checked("stores that meet others", _play(bench, world, behaviour=behaviour).steps)


def check_faults(bench: Bench, params: SmParams = FEW_LANES) -> None:
    """A refused request is MMU_FAULT, unless a lower thread has another error.

    No register is written, and no memory outside of the instruction's addresses. No memory at all
    is written if another thread's address is invalid before.
    """
    world = MemoryWorld(ALL_REPORTED, seed=bench.seed)
    steps = list(faults(world))
    for step in steps:
        world.execute(step)
    old = world.memory.read(BUFFER, 8192)
    new = _play(bench, world, params, compare_memory=False).memory.read(BUFFER, 8192)
    changed = {at for at in range(len(old)) if old[at] != new[at]}
    meant = {
        1024 * number + 16 * thread + byte
        for number in range(3)
        for thread in range(32)
        for byte in range(4)
    }
    bench.expect("places changed that no store meant", sorted(changed - meant), [])
    bench.checked("faults", len(steps))


def check_edges(
    bench: Bench, params: SmParams = FEW_LANES, threads: int = _EVERYBODY, every: int = 1
) -> None:
    """The end of each space. Unreported errors load zeros for constants and have no effect
    otherwise.

    One step in ``every`` is executed by ``threads`` only.
    """
    for number, mask in enumerate((ALL_REPORTED, 0)):
        world = MemoryWorld(mask, seed=bench.seed, shared=1000)
        for step in list(edges(world))[number % every :: every]:
            world.execute(replace(step, threads=threads))
        bench.checked("accesses at the edges of spaces", _play(bench, world, params).steps)


def check_local_base(bench: Bench, params: SmParams = FEW_LANES) -> None:
    """SETLMEMBASE moves a warp's local memory."""
    world = MemoryWorld(ALL_REPORTED, seed=bench.seed)
    load = encode("LDL", Ra=255, Rd=128, size=MemorySize.B64.value)
    bases = [warp.local_base for warp in world.warps]
    for slot in (2, 0):
        world.execute(MemoryStep(slot, load))
        world.move_local(slot, bases[1])
        world.execute(MemoryStep(slot, load))
        world.execute(
            MemoryStep(slot, encode("STL", Ra=255, Rd=64, offset=8, size=MemorySize.B32.value))
        )
        world.move_local(slot, bases[slot])
        world.execute(MemoryStep(slot, load))
    _play(bench, world, params)
    bench.checked("moves of local memory", 4)


def check_clear(bench: Bench, params: SmParams = FEW_LANES) -> None:
    """Shared memory of one CTA is cleared while the other CTA uses its own."""
    world = MemoryWorld(ALL_REPORTED, seed=bench.seed, shared=1000)
    for slot in range(WARPS):
        world.set_register(slot, 0, [16 * thread for thread in range(32)])
    store = [
        encode("STS", Ra=0, Rd=64, offset=offset, size=MemorySize.B128.value) for offset in (0, 480)
    ]
    for slot, word in itertools.product(range(WARPS), store):
        world.execute(MemoryStep(slot, word))
    world.clear_shared(1)
    for slot in (2, 3):
        world.execute(
            MemoryStep(
                slot,
                encode(
                    "ATOMS",
                    "",
                    Ra=0,
                    Rb=65,
                    Rd=128,
                    type=0,
                    offset=8,
                    operation=AtomicOperation.ADD.value,
                ),
            )
        )
        world.execute(MemoryStep(slot, store[1]))
    world.read_shared()
    _play(bench, world, params)
    bench.checked("clears of shared memory")


def check_float_sums(bench: Bench) -> None:
    """Sums of floats by several threads at one word, on fast and on slow memory."""
    for params, behaviour in ((FEW_LANES, HANDS_OFF), (PARAMS, UNRULY)):
        world = MemoryWorld(ALL_REPORTED, seed=bench.seed)
        for step in float_sums(world, bench.random):
            world.execute(step)
        bench.checked("sums of floats", _play(bench, world, params, behaviour=behaviour).steps)


def check_swaps(bench: Bench, params: SmParams = PARAMS, rounds: int = 24) -> None:
    """A compare and swap that only reports returns 1 where it has swapped; ``rounds`` of each
    kind.
    """
    world = MemoryWorld(ALL_REPORTED, seed=bench.seed)
    outcomes: Counter[int] = Counter()
    for step in swaps(world, bench.random, rounds):
        record = world.execute(step).record
        if find(step.word) in BY_NAME["ATOMS"] and record is not None:
            for threads, values in record.registers.values():
                outcomes.update(
                    value for thread, value in enumerate(values) if threads >> thread & 1
                )
    bench.expect(
        "results of compare and swap come of both kinds",
        min(outcomes[0], outcomes[1]) > 4 * rounds,
        True,
    )
    world.read_shared()
    bench.checked("compare and swap", _play(bench, world, params).steps)


def check_shuffles(bench: Bench, only: SmParams | None = None, every: int = 1) -> None:
    """Threads get the values of threads that execute the same shuffle, and 0 from others.

    On all machines, or on the machine ``only`` with one case in ``every``.
    """
    world = MemoryWorld(ALL_REPORTED, seed=bench.seed)
    cases = list(shuffles(world))[::every]
    for case in cases:
        record = world.execute(case.step).record
        assert record is not None
        ((_, values),) = record.registers.values()
        for thread, value in case.values.items():
            bench.expect(
                f"the reference's thread {thread} after {case.step.word:#018x}",
                values[thread],
                value,
            )
        bench.expect(
            f"flags of the reference after {case.step.word:#018x}",
            record.predicates[3],
            (case.step.threads, case.inside),
        )
    several = (*SIZES, LEAST_LANES) if bench.thorough else (LEAST_LANES, ALL_LANES)
    for params in several if only is None else (only,):
        bench.checked("shuffles", _play(bench, world, params).steps)


def record(bench: Bench) -> None:
    """Runs some instructions of each kind for the waveform."""
    driver = MemoryDriver(bench, random_world(bench.random, 30, ALL_REPORTED))
    driver.run(traces=driver.traces())


def run(bench: Bench) -> None:
    """Runs the testbench."""
    for check in (
        check_least,
        check_serial,
        check_lines,
        check_banks,
        check_rates,
        check_fills,
        check_edges,
        check_faults,
        check_local_base,
        check_clear,
        check_float_sums,
        check_swaps,
        check_shuffles,
        check_random,
        record,
    ):
        check(bench)
