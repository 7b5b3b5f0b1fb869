"""The call/return stack: tokens, limits, spill and fill of many warps, against a reference model.

There are directed cases, the control flow of kernels, and random operations from a seed. Results
are compared with a list of tokens, memory byte by byte.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from random import Random

from rtl.isa.tokens import CACHED_TOKENS
from rtl.layouts import StackOperation
from rtl.params import PRESETS, SmParams
from sim.checks.testbench import Bench
from sim.launch import Launch
from sim.machine.memory_port import MemoryBehaviour
from testbench.crs import cases as stack_cases
from testbench.crs import cases_memory as stack_cases_memory
from testbench.crs import cases_traps as stack_cases_traps
from testbench.crs.cases import numbered, pushed
from testbench.crs.driver import Driver
from testbench.crs.engine import check_engine
from testbench.crs.limits import LINE_PER_PUSHES
from testbench.crs.programs import ProgramQueue
from testbench.crs.random_steps import operations
from testbench.crs.speed import check_fills, check_hits, check_pointers, check_pushes, check_rate
from testbench.crs.statistics import StackStatistics, Wait
from testbench.crs.steps import Source, Start, WarpStack, aimed_at, clear, unwind
from testbench.crs.traces import TracedStack
from testbench.kernels.manifest import LEVELS, RUNS, build

CASES = stack_cases.CASES + stack_cases_memory.CASES + stack_cases_traps.CASES
RECURSIVE = ("k08_fib_recursion", "k09_ackermann", "k46_noinline_multilevel")
"""Kernels with recursion or deep calls, compiled at O3."""
UNRULY = MemoryBehaviour(latency=(1, 30), interval=2, stall=0.2, reorder=True)
_LONG_LIVES = frozenset(
    (
        "_every_depth",
        "_every_way_down",
        "_failing_unwind",
        "_calls_without_limit",
        "_example",
        "_write_backs",
        "_deepest",
        "_under_way",
        "_in_vain",
        "_fault_on_fill",
        "_frames",
        "_pushed_on",
    )
)
"""Cases that take many cycles on a serial machine."""
_SIZES = (8, 32, 64)
"""Numbers of tokens on chip, besides the default."""
_OF_SIZE = frozenset(("_on_chip_alone", "_modes", "_room", "_clamps", "_cleared", "_disabled"))
"""Cases that depend on that number; the short form has only these."""
_IN_MEMORY = frozenset(("_fault_on_fill", "_fault", "_failing_unwind", "_lost_top"))
"""Cases whose lines are in memory only if at most sixteen tokens are on chip."""
_BURST_GRANULES, _BURST_DEPTH = 8, 100
"""Region in granules of a stack with bursts of pushes, and its maximum depth in tokens."""
_DIVE_DEPTH = 60
_RECURSION_REQUESTS = 200
"""Requests of each recursive kernel in the waveform."""
_PROGRAM_REQUESTS = 100
"""Requests of each kernel in the short form."""


def _behaviours(random: Random) -> MemoryBehaviour:
    """Random behaviours of memory: fast or slow, constant or varying latency."""
    return MemoryBehaviour(
        latency=(random.randint(1, 4), random.randint(4, 40)),
        interval=random.choice((1, 1, 4, 8)),
        stall=random.choice((0.0, 0.0, 0.3)),
        reorder=random.random() < 0.5,
    )


def _directed(cases: Sequence[Start], bench: Bench, stack: WarpStack) -> Source:
    """Runs the cases one after the other."""
    for case in cases:
        yield from case(stack)
        bench.checked((case.__doc__ or "").partition("\n")[0])


def check_directed(bench: Bench) -> StackStatistics:
    """Each operation, each kind of token, each error, each limit."""

    def measured(params: SmParams, behaviour: MemoryBehaviour) -> StackStatistics:
        driver = Driver(bench, params, Random(bench.random.getrandbits(32)), behaviour, gap=0.05)
        return driver.run(
            [partial(_directed, CASES[warp :: params.warps], bench) for warp in range(params.warps)]
        )

    memories = {"tiny": UNRULY, **({"small": MemoryBehaviour((1, 1))} if bench.thorough else {})}
    return StackStatistics.of(
        measured(PRESETS[preset], behaviour) for preset, behaviour in memories.items()
    )


def check_serial(bench: Bench) -> StackStatistics:
    """The stack of a serial machine: directed cases, and random operations with faults of memory.

    The short form leaves out the longest cases.
    """
    params = PRESETS["least"]
    cases = [case for case in CASES if bench.thorough or case.__name__ not in _LONG_LIVES]
    driver = Driver(bench, params, Random(bench.random.getrandbits(32)), UNRULY)
    directed = driver.run(
        [partial(_directed, cases[warp :: params.warps], bench) for warp in range(params.warps)]
    )
    played = [
        random_run(bench, params, count, failures)
        for count, failures in (((3000, 0.0), (1000, 0.02)) if bench.thorough else ((250, 0.02),))
    ]
    bench.checked("random operations, serial", sum(part.operations for part in played))
    return StackStatistics.of([directed, *played])


def check_sizes(bench: Bench) -> StackStatistics:
    """Stacks with fewer and with more tokens on chip, pipelined and serial.

    Runs the directed cases that do not depend on sixteen tokens on chip, then random operations,
    and recursion with the smallest number.
    """

    def start(cases: Sequence[Start], seed: int, count: int, stack: WarpStack) -> Source:
        yield from _directed(cases, bench, stack)
        yield from operations(stack, Random(seed), count, faults=False)

    def measured(preset: str, tokens: int) -> StackStatistics:
        params = replace(PRESETS[preset], warps=4, stack_tokens=tokens)
        cases = [
            case
            for case in CASES
            if case.__name__ in _OF_SIZE
            or (bench.thorough and (tokens <= CACHED_TOKENS or case.__name__ not in _IN_MEMORY))
        ]
        count = (50 if params.serial else 200) * (8 if bench.thorough else 1)
        driver = Driver(bench, params, Random(bench.random.getrandbits(32)), UNRULY)
        return driver.run(
            [
                partial(start, cases[warp :: params.warps], bench.random.getrandbits(32), count)
                for warp in range(params.warps)
            ]
        )

    def recursion(tokens: int) -> StackStatistics:
        driver = Driver(bench, replace(PRESETS["small"], stack_tokens=tokens), Random(0), UNRULY)
        _play(
            bench,
            ((name, build(RUNS[name], "O3")) for name in RECURSIVE),
            driver,
            _RECURSION_REQUESTS,
        )
        return driver.statistics

    machines = [("small", tokens) for tokens in _SIZES] + [
        ("least", tokens) for tokens in _SIZES[::2]
    ]
    parts = [recursion(_SIZES[0]), *(measured(*machine) for machine in machines)]
    if bench.thorough:
        parts += [
            random_run(bench, replace(PRESETS[preset], stack_tokens=tokens), 2000, 0.02)
            for preset, tokens in machines
        ]
    statistics = StackStatistics.of(parts)
    bench.checked("operations with another number of tokens on chip", statistics.operations)
    return statistics


def check_speed(bench: Bench) -> StackStatistics:
    """The limits on cycles."""
    checks = check_pushes, check_hits, check_fills, check_pointers, check_rate
    return StackStatistics.of(check(bench) for check in checks)


def _play(
    bench: Bench,
    programs: Iterator[tuple[str, Launch]],
    driver: Driver,
    limit: int,
    traced: TracedStack | None = None,
) -> ProgramQueue:
    """Runs programs on all warps."""
    queue = ProgramQueue(programs, len(driver.stacks), Random(0), limit)
    shown = (
        {}
        if traced is None
        else {"top": traced, "traces": traced.traces, "signals": traced.signals}
    )
    driver.run([queue.source] * len(driver.stacks), **shown)
    bench.checked("retired instructions of kernels: tokens, masks, pc and depth", queue.compared)
    bench.checked("stacks of kernels in memory", queue.written_back)
    return queue


def check_recursion(bench: Bench, limit: int = _RECURSION_REQUESTS) -> StackStatistics:
    """Recursion, with a memory that takes one line per four pushes: no push waits for it. This run
    is the waveform.
    """
    params = PRESETS["small"]
    driver = Driver(bench, params, Random(0), LINE_PER_PUSHES)
    programs = ((name, build(RUNS[name], "O3")) for name in RECURSIVE)
    _play(bench, programs, driver, limit, TracedStack(params, driver.dut))
    waited = driver.statistics.push_waits[Wait.LINE]
    bench.figure("cycles pushes waited, recursion, a line per four pushes", waited)
    bench.expect("cycles that pushes of recursive kernels waited for a line", waited, 0)
    return driver.statistics


def check_programs(bench: Bench) -> StackStatistics:
    """The control flow of all kernels."""
    runs = [
        (run, level) for level in (LEVELS if bench.thorough else ("O3",)) for run in RUNS.values()
    ]
    programs = (
        (f"{run.name} {level}", build(run, level)) for run, level in bench.progress(runs, "kernels")
    )
    driver = Driver(bench, PRESETS["default"], Random(bench.random.getrandbits(32)), UNRULY)
    _play(bench, programs, driver, 1_000_000 if bench.thorough else _PROGRAM_REQUESTS)
    return driver.statistics


def random_run(bench: Bench, params: SmParams, count: int, failures: float) -> StackStatistics:
    """Random operations on all warps, about ``count`` in all."""
    random = Random(bench.random.getrandbits(64))
    warps = params.warps
    driver = Driver(
        bench,
        params,
        random,
        _behaviours(random),
        failures=failures,
        gap=random.random() / 4,
        polite=random.random() < 0.3,
    )

    def start(seed: int, stack: WarpStack) -> Source:
        return operations(stack, Random(seed), count // warps, faults=failures > 0)

    driver.run([partial(start, random.getrandbits(32)) for _ in range(warps)])
    return driver.statistics


def _check_random(
    bench: Bench, what: str, preset: str, count: int, failures: float, checked: str
) -> StackStatistics:
    count //= 1 if bench.thorough else 2
    statistics = StackStatistics.of(
        random_run(bench, PRESETS[preset], count, failures)
        for _ in bench.progress(range(30 if bench.thorough else 1), what)
    )
    bench.checked(checked, statistics.operations)
    return statistics


def check_random(bench: Bench) -> StackStatistics:
    """Random operations with random behaviours of memory."""
    return _check_random(bench, "random operations", "small", 3000, 0.0, "random operations")


def check_faults(bench: Bench) -> StackStatistics:
    """Random operations with a memory that fails at random."""
    return _check_random(
        bench, "random faults", "tiny", 1000, 0.02, "random operations with faults of memory"
    )


def _bursts(rounds: int, seed: int, stack: WarpStack) -> Source:
    """Many pushes, then many pops or a SET_POINTER: lines in flight are stale when they arrive."""
    random = Random(seed)
    yield stack.launch(_BURST_GRANULES)
    for _ in range(rounds):
        yield from pushed(
            stack.depth, min(stack.depth + random.randint(1, CACHED_TOKENS), _BURST_DEPTH)
        )
        for _ in range(random.choice((0, 0, 0, random.randint(0, 12)))):
            yield None
        if random.random() < 0.2:
            yield stack.ask(StackOperation.SET_POINTER, 0)
        for _ in range(random.randint(1, 6)):
            if stack.depth:
                yield unwind(
                    aimed_at(numbered(max(0, stack.depth - random.choice((1, 1, 1, 2, 5, 9, 12)))))
                )
        if random.random() < 0.02:
            yield stack.ask(StackOperation.WRITE_BACK)


def check_bursts(bench: Bench) -> StackStatistics:
    """Stacks that grow and shrink by lines, with a memory that is slower than they are."""

    def measured(seed: int) -> StackStatistics:
        random, params = Random(seed), PRESETS["small"]
        driver = Driver(
            bench, params, random, MemoryBehaviour(latency=(1, 6), interval=12, stall=0.1)
        )
        return driver.run(
            [partial(_bursts, 150, random.getrandbits(32)) for _ in range(params.warps)]
        )

    statistics = StackStatistics.of(
        measured(bench.random.getrandbits(64))
        for _ in bench.progress(range(30 if bench.thorough else 2), "bursts")
    )
    bench.checked("operations in bursts", statistics.operations)
    return statistics


def _swings(rounds: int, seed: int, stack: WarpStack) -> Source:
    """Many pushes and pops; at random times the stack is emptied or written back."""
    random = Random(seed)
    yield stack.launch(_BURST_GRANULES)
    for _ in range(rounds):
        yield from pushed(
            stack.depth, min(stack.depth + random.choice((5, 9, 13, 20, 40)), _BURST_DEPTH)
        )
        for _ in range(random.randint(0, 4)):
            if stack.depth:
                yield unwind(aimed_at(numbered(max(0, stack.depth - random.choice((1, 3, 5, 9))))))
        for _ in range(random.randint(0, 20)):
            yield None
        if random.random() < 0.4:
            yield random.choice(
                (
                    clear(),
                    stack.ask(StackOperation.SET_POINTER, 0),
                    stack.ask(StackOperation.WRITE_BACK),
                )
            )


def _dives(rounds: int, seed: int, stack: WarpStack) -> Source:
    """Unwinds past more tokens than fit on chip, dirty ones among them."""
    random = Random(seed)
    yield stack.launch(_BURST_GRANULES)
    for _ in range(rounds):
        yield from pushed(stack.depth, stack.depth + random.choice((5, 17, 17, 20)))
        if stack.depth > _DIVE_DEPTH or random.random() < 0.5:
            yield unwind(aimed_at(numbered(max(0, stack.depth - random.choice((18, 20, 25, 31))))))


def check_swings(bench: Bench) -> StackStatistics:
    """Stacks that grow, shrink and are emptied while many of their lines are in flight, with late
    and reordered responses of memory.
    """

    def measured(
        source: Callable[[int, int, WarpStack], Source],
        rounds: int,
        latency: tuple[int, int],
        interval: int,
        stall: float,
    ) -> StackStatistics:
        random, params = Random(bench.random.getrandbits(64)), PRESETS["small"]
        driver = Driver(
            bench, params, random, MemoryBehaviour(latency, interval, stall, reorder=True)
        )
        return driver.run(
            [partial(source, rounds, random.getrandbits(32)) for _ in range(params.warps)]
        )

    forms = [
        (_swings, 40, (1, 6), 3, 0.0),
        (_swings, 60, (1, 150), 1, 0.0),
        (_swings, 10, (100, 150), 1, 0.0),
        (_dives, 40, (1, 4), 6, 0.3),
    ]
    statistics = StackStatistics.of(
        measured(*form) for form in bench.progress(forms * (10 if bench.thorough else 1), "swings")
    )
    bench.checked("operations in swings", statistics.operations)
    return statistics


def record(bench: Bench) -> None:
    """Records the waveform."""
    check_recursion(bench)


PARTS: dict[str, Callable[[Bench], StackStatistics]] = {
    "directed": check_directed,
    "kernels": check_programs,
    "recursion": check_recursion,
    "random": check_random,
    "faults": check_faults,
    "bursts": check_bursts,
    "swings": check_swings,
    "engine": check_engine,
    "speed": check_speed,
    "serial": check_serial,
    "sizes": check_sizes,
}
"""The checks by name."""


def _rows(parts: dict[str, StackStatistics]) -> list[list[str | int]]:
    """The rows of the result table: events of each part."""
    return [
        [
            name,
            part.operations,
            part.cycles,
            *(part.events[event] for event in ("hit", "miss", "spill", "fill")),
            *(part.waits[cause] for cause in Wait),
        ]
        for name, part in parts.items()
    ]


def run(bench: Bench) -> None:
    """Runs the testbench."""
    parts = {name: check(bench) for name, check in bench.progress(list(PARTS.items()), "parts")}
    total = StackStatistics.of(parts.values())
    bench.figure("operations", total.operations)
    bench.figure("tokens pushed", total.events["push"])
    headings = [
        "",
        "operations",
        "cycles",
        "hits",
        "misses",
        "spills",
        "fills",
        "wait line",
        "wait turn",
        "wait warp",
    ]
    bench.table(
        "what happened; cycles in which a request waited for a line, for a step of the stack's own, for its "
        "warp's last operation",
        headings,
        _rows(parts),
    )
    for name in ("kernels", "random"):
        bench.table(
            f"cycles from request to result: {name}",
            ["", "count", "least", "mean", "most"],
            parts[name].latency_rows(),
        )
