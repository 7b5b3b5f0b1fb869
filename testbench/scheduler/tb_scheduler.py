"""Fetch and issue: groups against the memory, selections against the issue rules, issue rates.

Fetch runs random programs and those of the kernels, with irregular memory latency and redirects at
any time. Issue gets random instructions and units with random behaviour; a Python model computes
which instructions may be selected, and which should have been. Connected, they run loops that
measure the issue rate and its latencies.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from rtl.isa.control_code import GROUP_BYTES, INSTRUCTION_BYTES, SCOREBOARDS, ControlCode
from rtl.issue import FAVOUR_INTERVAL, window_cycles
from rtl.layouts import InstructionKind as Kind
from rtl.layouts import Policy, kinds_where
from rtl.params import PRESETS, SmParams
from sim.checks.testbench import Bench
from sim.machine.memory_port import MemoryBehaviour
from sim.waves import Mark, Trace, View, instruction
from testbench.kernels.manifest import LEVELS, RUNS, build
from testbench.scheduler.fetch_driver import FetchDriver, fetch_driver
from testbench.scheduler.fetch_image import image_of, launched_image, random_image
from testbench.scheduler.front_driver import FrontDriver
from testbench.scheduler.issue_driver import WILLING, Behaviour, IssueDriver, Program
from testbench.scheduler.issue_latencies import check_latencies
from testbench.scheduler.issue_model import LOOK, SURE, Planned
from testbench.scheduler.issue_programs import MIXED, random_program, same_program
from testbench.scheduler.operation_streams import GATHERS, OPERATION_STREAMS, WRITES
from testbench.words import NOP, encode, offset

UNRULY = MemoryBehaviour(latency=(1, 30), interval=2, stall=0.2, reorder=True)
QUICK = MemoryBehaviour(latency=(1, 1))
SHOWN = "k08_fib_recursion"
SERIAL = PRESETS["least"]
_PIPELINED = SmParams(lanes=4)
_BRANCHING = {Kind.FLOW: 3, Kind.NOTHING: 2, Kind.PUSH: 1}
_EVENTFUL = {Kind.DEPENDENCY: 3, Kind.MEMORY: 4, Kind.NOTHING: 1}
_LOAD, _LOADS, _WAIT = (
    (Kind.MEMORY, Kind.DEPENDENCY, Kind.NOTHING),
    (Kind.MEMORY,) * 3,
    (Kind.DEPENDENCY, Kind.NOTHING, Kind.NOTHING),
)
_DEEP_GROUPS = 16
"""Groups before a DEPBAR.LE: 45 loads, more than half of the range of a counter."""
_DEEP_LIMITS = (5, 20, 35, 44)
_LOOP = 24
"""Instructions of the loops whose rate is measured."""


def _fetch(bench: Bench, what: str, driver: FetchDriver, cycles: int) -> None:
    driver.run(cycles)
    for name, count in (
        ("groups", driver.groups),
        ("constants", driver.constants),
        ("words for indexed branches", driver.words),
    ):
        bench.checked(f"{name}, {what}", count)


def check_fetch(bench: Bench, base: SmParams = _PIPELINED, least: int = 1200) -> None:
    """Random programs, larger and smaller than the caches, with redirects to any pc and invalidated
    caches; at least ``least`` cycles of each.
    """
    cycles = 20_000 if bench.thorough else least
    for warps, registers, groups, behaviour, restart in (
        (4, 40, 20, QUICK, 0),
        (8, 255, 90, UNRULY, 700),
        (2, 64, 300, MemoryBehaviour((20, 20)), 0),
    ):
        params = replace(base, warps=warps, instruction_groups=32, constant_words=64)
        image = random_image(bench.random, groups, registers)
        _fetch(
            bench, "random", fetch_driver(bench, image, params, behaviour, restart=restart), cycles
        )


def check_kernels(bench: Bench) -> None:
    """The code of the kernels, fetched from every group on."""
    for kernel, level in bench.progress(
        list(itertools.product(RUNS.values() if bench.thorough else [RUNS[SHOWN]], LEVELS)),
        "kernels",
    ):
        image = launched_image(build(kernel, level))
        driver = FetchDriver(bench, image, SmParams(), UNRULY, outside=0.0, redirects=0.02)
        _fetch(bench, "of the kernels", driver, 2000 if bench.thorough else 700)


def _issue(
    bench: Bench, what: str, cycles: int, params: SmParams, program: Program, behaviour: Behaviour
) -> IssueDriver:
    """Runs a program on the issue unit; returns the driver with its selections."""
    driver = IssueDriver(bench, params, program, behaviour)
    driver.run(cycles)
    bench.checked(f"cycles, {what}", driver.cycle)
    bench.checked(f"instructions and operations, {what}", len(driver.selected))
    for reason, times in driver.waited.counts.items():
        bench.checked(f"reasons of warps, {reason.name}", times)
    return driver


def check_rules(bench: Bench) -> None:
    """All kinds of instructions, both policies, every number of lanes; units with little room and
    late completions.
    """
    cycles = 20_000 if bench.thorough else 700
    for warps, lanes, behaviour in (
        (4, 8, Behaviour()),
        (8, 32, Behaviour(holds=0.02, operations=0.2, room=0.95)),
        (4, 8, Behaviour(holds=0.02, injects=0.01)),
        (4, 8, Behaviour(ends=0.4, branches=0.1, launches=0.5)),
        (2, 4, Behaviour(policy=Policy.ROUND_ROBIN, operations=0.02)),
        (2, 2, Behaviour(operations=0.02)),
        (8, 16, Behaviour(policy=Policy.ROUND_ROBIN, complete=(6, 200), branches=0.1)),
    ):
        _issue(
            bench,
            "random",
            cycles,
            SmParams(warps=warps, lanes=lanes),
            random_program(bench.random),
            behaviour,
        )
    driver = _issue(
        bench,
        "branches and flow results",
        4 * cycles,
        SmParams(warps=8, lanes=32),
        random_program(bench.random, _BRANCHING, quarters=0),
        replace(WILLING, fetch=(4, 10), flow=(5, 7), branches=0.7, ends=0.1, injects=0.1),
    )
    bench.checked("flow results that wait to redirect fetch", driver.model.waited)
    _issue(
        bench,
        "loads and DEPBAR",
        cycles,
        SmParams(warps=2, lanes=32),
        random_program(bench.random, _EVENTFUL),
        Behaviour(room=1.0, complete=(40, 400), branches=0.0),
    )


def check_edges(bench: Bench) -> None:
    """Corner cases of the rules.

    - Loads that wait for the scoreboard that each of them raises.
    - Loads that fill a scoreboard: issue stops before it overflows.
    - Indexed branches among pushes of other warps, which wait while the operands of the branch are
      collected.
    - Instructions of the trap unit, which wait for the results of earlier pushes.
    - Refused instructions and those of the trap unit: none may complete together with an
      instruction of the full lanes.
    - One scoreboard that is often raised and lowered in the same cycle.
    """
    mixed = partial(random_program, bench.random)
    _issue(
        bench,
        "loads that wait for each other",
        300,
        SmParams(warps=2),
        same_program(Kind.MEMORY, ControlCode(stall=1, write_barrier=0, wait=1)),
        Behaviour(room=1.0, launches=1.0, operations=0.0),
    )
    _issue(
        bench,
        "loads that fill a scoreboard",
        400,
        SmParams(warps=1),
        same_program(Kind.MEMORY, ControlCode(stall=1, write_barrier=0)),
        replace(WILLING, complete=(250, 300), most=99),
    )
    _issue(
        bench,
        "pushes and traps",
        300,
        SmParams(warps=2),
        mixed({Kind.PUSH: 3, Kind.TRAP: 1}),
        replace(WILLING, flow=(10, 20)),
    )
    _issue(
        bench,
        "indexed branches among pushes",
        800,
        SmParams(warps=4, lanes=32),
        mixed({Kind.PUSH: 6, Kind.FLOW_INDEXED: 1}),
        Behaviour(room=1.0, operations=0.0, ends=0.0),
    )
    for lanes in (2, 8, 32):
        _issue(
            bench,
            "what passes the full lanes only among what is refused",
            1000,
            SmParams(lanes=lanes),
            mixed({Kind.LANES: 1, Kind.REFUSED: 1, Kind.TRAP: 1}, quarters=1.0),
            Behaviour(room=1.0, operations=0.0, launches=1.0),
        )
    for lanes in (8, 32):
        _issue(
            bench,
            "one scoreboard",
            1000,
            SmParams(warps=2, lanes=lanes),
            mixed({Kind.LANES: 3, Kind.MEMORY: 3, Kind.DEPENDENCY: 1}, scoreboards=1),
            Behaviour(room=1.0, branches=0.0),
        )


def check_policies(bench: Bench) -> None:
    """The selected warp when all are ready and the lanes are free every four cycles."""
    cycles = 800
    for policy, no_yield, changes in (
        (Policy.GREEDY_THEN_OLDEST, 1, "few"),
        (Policy.GREEDY_THEN_OLDEST, 0, "all"),
        (Policy.ROUND_ROBIN, 1, "all"),
    ):
        what = f"{policy.name}, {'no yield' if no_yield else 'yield'}"
        driver = _issue(
            bench,
            what,
            cycles,
            SmParams(warps=4),
            same_program(Kind.LANES, ControlCode(stall=1, no_yield=no_yield)),
            replace(WILLING, policy=policy),
        )
        order = [selection.warp for cycle, selection in driver.selected if cycle > cycles // 4]
        changed = sum(one != other for one, other in itertools.pairwise(order)) / (len(order) - 1)
        bench.figure(f"instructions that are of another warp than the one before, {what}", changed)
        if (changed > 0.6) != (changes == "all"):
            bench.fail(f"{policy.name} changes warps at {changed:.2f} of the instructions")


def check_waits(bench: Bench) -> None:
    """A ready warp issues within a bounded number of windows per warp, at any load of the lanes."""
    for kind, warps, lanes, operations in (
        (Kind.LANES, 2, 8, 0.0),
        (Kind.LANES, 2, 4, 0.0),
        (Kind.LANES, 4, 32, 1.0),
    ):
        params = SmParams(warps=warps, lanes=lanes)
        window = window_cycles(params.beats)
        bound = (warps + 1) * FAVOUR_INTERVAL * window
        driver = _issue(
            bench,
            "greedy",
            2 * bound,
            params,
            same_program(kind, ControlCode(stall=1)),
            replace(WILLING, operations=operations, ends=0.0),
        )
        longest = max(driver.waits)
        bench.figure(
            f"cycles that a ready warp waited at most, {warps} warps of {kind.name}, {lanes} lanes",
            longest,
        )
        if not window < longest <= bound:
            bench.fail(f"a ready warp waited for {longest} cycles; {bound} are the most")


def check_operations(bench: Bench) -> None:
    """The number of instructions between two operations, when warps are always ready and operations
    always offered.
    """
    for what, streams, between in (
        ("gathers", GATHERS, 2),
        ("writes", WRITES, 7),
        ("both", OPERATION_STREAMS, 1),
    ):
        driver = _issue(
            bench,
            f"between {what}",
            400,
            SmParams(warps=4, lanes=8),
            same_program(Kind.LANES, ControlCode(stall=1)),
            replace(WILLING, operations=1.0, streams=streams),
        )
        gone = [bool(selection.operations) for cycle, selection in driver.selected if cycle > 100]
        runs = [len([*run]) for operations, run in itertools.groupby(gone) if not operations]
        bench.expect(f"instructions between {what}", set(runs[1:-1]), {between})


def check_limits(bench: Bench) -> None:
    """A warp with a satisfied DEPBAR.LE continues at once if nothing else happens, and soon if
    other warps lower scoreboards every cycle.

    It does not continue earlier, for any scoreboard and bound.
    """

    def group(kinds: Sequence[Kind], scoreboard: int, most: int, pc: int) -> list[Planned]:
        word = encode("DEPBAR", "at_most", scoreboard=scoreboard, count=most, wait=0, at_most=1)
        forms = {
            Kind.MEMORY: Planned(Kind.MEMORY, ControlCode(stall=1, write_barrier=scoreboard), 0),
            Kind.DEPENDENCY: Planned(
                Kind.DEPENDENCY, ControlCode(stall=1), 0, word, at_most=(scoreboard, most)
            ),
            Kind.NOTHING: Planned(Kind.NOTHING, ControlCode(stall=1), 0),
        }
        return [
            replace(forms[kind], pc=pc + INSTRUCTION_BYTES * place)
            for place, kind in enumerate(kinds, 1)
        ]

    quiet = same_program(Kind.NOTHING, ControlCode(stall=15))
    busy = same_program(Kind.LANES, ControlCode(stall=1, write_barrier=1, no_yield=1))
    for what, others, longest in (
        ("nothing else happens", quiet, 12),
        ("others are busy", busy, 8 * LOOK + 2 * SURE),
    ):
        driver = _issue(
            bench,
            f"limits, {what}",
            1500,
            SmParams(warps=8, lanes=32),
            lambda warp, pc, others=others: (
                others(warp, pc) if warp < 7 else group(_LOAD, 0, 0, pc)
            ),
            replace(WILLING, complete=(20, 40)),
        )
        bench.figure(
            f"cycles that a warp waited at most whose DEPBAR.LE was satisfied, {what}",
            driver.waits[7],
        )
        if driver.waits[7] > longest:
            bench.fail(
                f"a warp waited for {driver.waits[7]} cycles behind its DEPBAR.LE; {longest} are the most"
            )

    def program(warp: int, pc: int) -> list[Planned]:
        turn, waits = divmod(pc // GROUP_BYTES, 2)
        return group(
            _WAIT if waits else _LOADS, turn % SCOREBOARDS, (warp + turn // SCOREBOARDS) % 3, pc
        )

    _issue(
        bench,
        "limits of all scoreboards",
        1500,
        SmParams(warps=2, lanes=32),
        program,
        replace(WILLING, complete=(30, 90)),
    )

    def deep(_warp: int, pc: int) -> list[Planned]:
        turn, place = divmod(pc // GROUP_BYTES, _DEEP_GROUPS)
        kinds = _LOADS if place < _DEEP_GROUPS - 1 else _WAIT
        return group(kinds, 0, _DEEP_LIMITS[turn % len(_DEEP_LIMITS)], pc)

    _issue(
        bench,
        "limits of a scoreboard that many raise",
        1800,
        SmParams(warps=1, lanes=32),
        deep,
        replace(WILLING, complete=(150, 250), most=99),
    )


def check_stalls(bench: Bench) -> None:
    """A stall count is the distance of two instructions of a warp in cycles; less than two counts
    as two.
    """
    for stall in (0, 1, 2, 3, 4, 7, 15):
        driver = _issue(
            bench,
            f"stall {stall}",
            60 + 12 * stall,
            SmParams(warps=2, lanes=32),
            same_program(Kind.LANES, ControlCode(stall=stall)),
            WILLING,
        )
        for warp in range(2):
            cycles = [cycle for cycle, selection in driver.selected if selection.warp == warp]
            gaps = [later - one for one, later in itertools.pairwise(cycles[2:])]
            bench.expect(
                f"the usual distance at stall {stall}", sorted(gaps)[len(gaps) // 2], max(stall, 2)
            )


def check_rates(bench: Bench) -> None:
    """Instructions per cycle with a warm instruction cache."""
    add = encode("IADD", "r", Rd=1, Ra=2, Rb=3)
    constant = encode("IADD", "c", Rd=1, Ra=2, offset=16)
    push = encode("SSY", "i", target=0)
    rows = []
    for what, word, lanes, warps, stall, least in (
        ("additions, 32 lanes", add, 32, 8, 6, 0.95),
        ("additions, stall 1, 32 lanes", add, 32, 8, 1, 0.95),
        ("additions of constants, 32 lanes", constant, 32, 8, 6, 0.9),
        ("additions, 8 lanes", add, 8, 8, 6, 0.24),
        ("additions of one warp, 32 lanes", add, 32, 1, 1, 0.36),
        ("pushes", push, 8, 8, 1, 0.95),
        ("pushes, one warp", push, 8, 1, 1, 0.36),
    ):
        words = [word] * (_LOOP - 1) + [encode("BRA", "i", target=offset(_LOOP - 1, 0))]
        driver = FrontDriver(
            bench, image_of(words, ControlCode(stall)), SmParams(warps=8, lanes=lanes), QUICK
        )
        first, last = (500, 4000) if bench.thorough else (300, 700)
        driver.run(last, warps)
        rate = driver.rate(first, last)
        rows.append([what, warps, stall, rate])
        bench.checked("instructions of loops", len(driver.issued))
        if rate < least:
            bench.fail(f"{what}: {rate:.3f} instructions a cycle")
    bench.table(f"instructions a cycle, loops of {_LOOP}", ["", "warps", "stall", "rate"], rows)

    words = [NOP, NOP, encode("BRA", "i", target=offset(2, 0))]
    driver = FrontDriver(bench, image_of(words, ControlCode(1)), SmParams(warps=8), QUICK)
    driver.run(300, 1)
    gaps = {
        later[0] - one[0]
        for one, later in itertools.pairwise(driver.issued[6:])
        if one[2] > later[2]
    }
    bench.figure("cycles from a taken branch without a guard to its target", max(gaps))


def record(bench: Bench) -> None:
    """Runs a loop on two warps for the waveform."""
    words = [
        encode("SSY", "i", target=0),
        *[encode("IADD", "c", Rd=1, Ra=2, offset=16)] * 6,
        NOP,
        encode("BRA", "i", target=offset(8, 0)),
    ]
    driver = FrontDriver(
        bench, image_of(words, ControlCode(6)), SmParams(warps=2), MemoryBehaviour()
    )
    driver.run(150, 2, traces=traces_of(driver))


def traces_of(driver: FrontDriver) -> View:
    """The traced signals of the units."""
    fetch, issue = driver.dut.fetch, driver.dut.issue
    memory, group, issued = fetch.memory, fetch.group.payload, issue.instruction.payload
    warps: dict[str, Callable[[], object] | object] = {
        f"warp{number}": {
            "reason": issue.reasons[number],
            "lanes": warp.ready_lanes,
            "others": warp.ready_others,
            "room": warp.has_room,
            "resource": warp.requirements.resource,
            "pending": warp.pending,
        }
        for number, warp in enumerate(issue.warps)
    }
    return View(
        {
            "memory": {
                "request": memory.request.valid,
                "tag": memory.request.payload.tag,
                "line": memory.request.payload.address,
                "answer": memory.response.valid,
            },
            "fetch": {
                "redirect": fetch.redirect.valid,
                "to_warp": Trace(fetch.redirect.payload.warp, "dec"),
                "to_pc": fetch.redirect.payload.pc,
                "claimed": fetch.claimed.valid,
                "group": fetch.group.valid,
                "warp": Trace(group.warp, "dec"),
                "pc": group.pc,
            },
            "issue": {
                "text": instruction(issue.instruction.valid, issued.word, issued.pc),
                "instruction": issue.instruction.valid,
                "warp": Trace(issued.warp, "dec"),
                "pc": issued.pc,
                "kind": issued.kind,
                "constant": issued.constant,
                "result": issue.result.valid,
                "result_pc": issue.result.payload.pc,
            },
            **warps,
        },
        ("issue", "warp0", "warp1"),
        [Mark("issue", [issue.instruction.valid])],
    )


def run(bench: Bench) -> None:
    """Runs the testbench."""
    for check in (
        check_fetch,
        check_kernels,
        check_edges,
        check_rules,
        check_policies,
        check_waits,
        check_operations,
        check_limits,
        check_stalls,
        check_latencies,
        check_rates,
        record,
    ):
        check(bench)


assert MIXED.keys() == kinds_where(lambda rule: not rule.injected)
