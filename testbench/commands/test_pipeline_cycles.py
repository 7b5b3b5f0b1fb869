# amaranth: UnusedElaboratable=no
"""The documented cycles of fetch, issue, the lanes, the flow unit and the stack are those of the
hardware.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from random import Random
from statistics import mean
from typing import Any

from amaranth.hdl import Cat

from rtl.crs.engine import VisitStep
from rtl.execute.completion import ReleaseLine
from rtl.fetch import FetchUnit
from rtl.isa.control_code import GROUP_BYTES, INSTRUCTION_BYTES, ControlCode
from rtl.isa.kinds import VideoSecond
from rtl.isa.syntax import RZ
from rtl.isa.tokens import LINE_BYTES, TOKENS_PER_LINE
from rtl.layouts import InstructionKind as Kind
from rtl.layouts import StackOperation
from rtl.params import WARP_THREADS, SmParams
from sim.checks.testbench import Bench
from sim.machine.memory_port import MemoryBehaviour
from testbench.commands.test_figures import table
from testbench.commands.test_host_cycles import cycles_until
from testbench.commands.test_unit_cycles import (
    NUMERALS,
    cycles,
    fetched_after_redirect,
    groups,
    text_of,
)
from testbench.crs.cases import launched, taken_off
from testbench.crs.driver import Driver
from testbench.crs.engine import QUICK
from testbench.crs.limits import PUSH_CYCLES, RESULT_CYCLES, TOKEN_CYCLES
from testbench.crs.steps import Source, WarpStack
from testbench.flow.cases import directed
from testbench.flow.driver import FlowDriver
from testbench.flow.tb_flow import HANDS_OFF, WARPS
from testbench.pipeline.cases import PREDICATE
from testbench.pipeline.driver import Pipeline, Script, WriteData
from testbench.pipeline.reference import COMPLETION_CYCLES
from testbench.project.test_manual import DOCS
from testbench.scheduler.front_driver import FrontDriver
from testbench.scheduler.issue_driver import WILLING, IssueDriver
from testbench.scheduler.issue_model import SLOW, Planned
from testbench.scheduler.test_prefetch import IN_LINE, LATENCY, LINES, Fetched, program
from testbench.simulation import passes
from testbench.watch import Watch, watched
from testbench.words import encode

SELECTED = 2
"""Cycles from the selection of an instruction until issue outputs it."""

_COLD_LINES, _COLD_CYCLES = 60, 800
"""Number of lines of a program that is not in the cache, and cycles for which it runs."""

PATIENCE = 200
"""Number of cycles after which all activity has ended."""

# Stack

_GRANULES = 8


def stack_events(scenario: Callable[[WarpStack], Source]) -> Watch:
    """Returns the events of a warp's stack."""

    def signals(dut: Any) -> dict[str, Any]:
        request = dut.port.request
        return {
            "write_back": dut.request.valid
            & dut.request.ready
            & (dut.request.payload.operation == StackOperation.WRITE_BACK),
            "result": dut.result.valid,
            "line": request.valid & request.ready,
            "answer": dut.port.response.valid & dut.port.response.ready,
            "act": dut.engine._step == VisitStep.ACT,
        }

    _, watch = watched(
        "crs",
        lambda bench: Driver(bench, SmParams(warps=1), Random(0), QUICK),
        signals,
        [scenario],
    )
    return watch


def test_a_write_back_takes_the_cycles_of_the_manual():
    def scenario(stack: WarpStack) -> Source:
        yield from launched(stack, _GRANULES, 2 * TOKENS_PER_LINE)
        for _ in range(60):
            yield None
        yield stack.ask(StackOperation.WRITE_BACK)

    watch = stack_events(scenario)
    first, second = watch.cycles("line")
    assert cycles("crs", "start of a write-back") == str(first - watch.first("write_back"))
    assert cycles("crs", "a line of a write-back") == str(second - first)
    rates = {row[0]: row[1] for row in table(DOCS / "benchmarks.md", "## The flow unit", "rate")}
    assert rates["lines of a write-back"] == f"1 in {second - first} cycles"
    result = watch.first("result", watch.last("answer"))
    assert cycles("crs", "last confirmation of a write-back") == str(result - watch.last("answer"))
    text = text_of("docs/control_flow.md")
    begin, rest = (
        NUMERALS[first - watch.first("write_back")],
        NUMERALS[result - watch.last("answer")],
    )
    assert f"sends all lines, one in {NUMERALS[second - first]} cycles." in text
    assert f"The first line is sent to memory {begin} cycles after the request" in text
    assert f"the result follows {rest} cycles after the last confirmation" in text


def test_visits_of_the_engine_follow_each_other_after_the_cycles_of_the_manual():
    def spills(stack: WarpStack) -> Source:
        yield from launched(stack, _GRANULES, 60)

    def fills(stack: WarpStack) -> Source:
        yield from spills(stack)
        yield from taken_off(stack, 50)

    def least(scenario: Callable[[WarpStack], Source]) -> int:
        ends = stack_events(scenario).cycles("act")
        return min(later - earlier for earlier, later in pairwise(ends))

    row, spill = cycles("crs", "a visit of the engine"), least(spills)
    assert row == f"{spill}; {least(fills)} after a line has arrived"
    assert f"A visit takes {NUMERALS[spill]} cycles:" in text_of("docs/control_flow.md")


def test_cycles_of_requests_to_the_stack_are_those_that_the_testbench_requires():
    assert cycles("crs", "a push of a warp that recurses") == str(PUSH_CYCLES)
    assert cycles("crs", "an unwind") == cycles("flow", "an unwind") == f"{TOKEN_CYCLES} more"
    text = text_of("docs/control_flow.md")
    (row,) = [row for row in table(DOCS / "units" / "crs.md", "## Cycles") if row[1] == "commit"]
    assert int(row[0]) == RESULT_CYCLES
    result, push = NUMERALS[RESULT_CYCLES], NUMERALS[PUSH_CYCLES]
    assert f"The result follows {result} cycles after the request, and" in text
    assert f"request, and {NUMERALS[TOKEN_CYCLES]} cycles later for each further token" in text
    assert f"the stack accepts it {push} cycles after the push." in text
    assert f"The warp's next request is accepted {push} cycles after the push." in text
    assert f"If the stack needs more than {result} cycles for an operation" in text
    assert f"comes {result} cycles after the request." in text_of("docs/architecture.md")
    assert f"`result` follows {result} cycles later or more." in text_of("docs/examples/README.md")


# Flow unit


def apart_behind_indexed_branches(name: str) -> int:
    """Returns the smallest number of cycles from such an instruction to the next one of any warp,
    if all warps execute the same.
    """
    (life,) = (stream for stream in directed() if stream.name == name)
    without_memory = replace(life, start=replace(life.start, size=0))
    _, watch = watched(
        "flow",
        lambda bench: FlowDriver(bench, WARPS, [without_memory] * WARPS, HANDS_OFF, idle=0.0),
        lambda dut: {
            "accepted": dut.unit.flow.request.valid & dut.unit.flow.request.ready,
            "indexed": dut.unit.flow.request.payload.instruction.indexed,
        },
    )
    accepted = watch.cycles("accepted")
    return min(
        later - earlier for earlier, later in pairwise(accepted) if watch.rows[earlier]["indexed"]
    )


def test_instructions_of_several_warps_follow_each_other_after_the_cycles_of_the_manual():
    plain = apart_behind_indexed_branches("BRX: all to one place")
    two_tokens = apart_behind_indexed_branches("BRX: several targets, and threads that stay")
    page = cycles("flow", "an instruction", "another warp's")
    assert page == f"{plain}; {two_tokens} after an indexed branch that pushes two tokens"
    (row,) = [
        row
        for row in table(DOCS / "benchmarks.md", "## The flow unit", "rate")
        if row[0] == "indexed branches"
    ]
    assert row[1] == f"{plain} a cycle"
    assert row[2] == f"{NUMERALS[two_tokens]} cycles of the unit with two tokens"
    text = text_of("docs/control_flow.md")
    assert f"two tokens occupies it for {NUMERALS[two_tokens]} cycles:" in text


# Fetch


def test_a_line_arrives_in_the_cycles_of_the_manual():
    """A second warp waits for the second group of a line while the first one waits for its first."""
    unit = Fetched(groups(0, 0))

    async def body(ctx):
        await unit.redirect(ctx, 0, 0)
        await unit.redirect(ctx, 1, GROUP_BYTES)
        ctx.set(unit.dut.room, 0b11)
        await ctx.tick().repeat(PATIENCE)

    unit.run(body)
    first = next(time for time, warp, pc, _ in unit.groups if (warp, pc) == (0, 0))
    second = next(time for time, warp, pc, _ in unit.groups if (warp, pc) == (1, GROUP_BYTES))
    assert cycles("fetch", "the first group of a line can be looked up") == str(second - first)


def test_a_missed_line_is_requested_after_the_cycles_of_the_manual():
    unit, found = Fetched(groups(0, 0)), []

    async def body(ctx):
        await unit.redirect(ctx, 0, 0)
        missed = Cat(port.miss.valid for port in unit.dut._loader.instructions)
        while not ctx.get(missed):
            await ctx.tick()
        found.append(await cycles_until(ctx, unit.dut.memory.request.valid))

    unit.run(body)
    row = cycles("fetch", "a miss in the instruction cache", "the request for its line")
    assert row == str(found[0])


def test_a_prefetched_line_delays_a_miss_by_the_cycles_of_the_manual():
    """A warp fills a line of the cache, after which the next one is prefetched; some cycles later
    another warp misses.
    """
    answered, delivered = (2, 3, 12), (29, 30, 31)
    apart = 40
    unit = Fetched(program(apart * (len(answered + delivered) + 1)))
    taken = []

    async def body(ctx):
        for number, cycles_later in enumerate(answered + delivered, 1):
            line = apart * number
            await unit.fetch(ctx, 0, line * LINE_BYTES)
            await ctx.tick().repeat(3 * LATENCY)
            await unit.fetch(ctx, 0, (line + 1 + LINES) * LINE_BYTES)  # instead of the next line
            await ctx.tick().repeat(3 * LATENCY)
            await unit.redirect(ctx, 0, line * LINE_BYTES)
            await ctx.tick().repeat(cycles_later)
            begin = unit.cycle
            await unit.fetch(ctx, 1, (line + apart // 2) * LINE_BYTES)
            taken.append(unit.cycle - begin)

    unit.run(body)
    alone = min(taken)
    behind, during = (
        [cycles - alone for cycles in part]
        for part in (taken[: len(answered)], taken[len(answered) :])
    )
    assert behind == [max(behind), max(behind) - 1, 0]
    assert during == [max(during), max(during), 0]
    text = text_of("docs/units/fetch.md")
    found = re.search(
        r"by up to (\d+) cycles if memory answers the missed line directly after it, and by up to (\d+) if its words "
        r"arrive when the group is looked up, since the lookup is repeated every (\d+) cycles\.",
        text,
    )
    assert found is not None
    assert [int(figure) for figure in found.groups()] == [max(behind), max(during), 3]


def test_caches_are_emptied_in_the_cycles_of_the_manual():
    found = []
    for lines in (16, 32):
        params = SmParams(warps=2, lanes=4, instruction_groups=2 * lines, constant_words=64)
        unit = Fetched(groups(0), FetchUnit(params))

        async def body(ctx, unit=unit):
            await ctx.tick().repeat(PATIENCE)
            ctx.set(unit.dut.invalidate, 1)
            await ctx.tick()
            ctx.set(unit.dut.invalidate, 0)
            found.append(await cycles_until(ctx, unit.dut.busy, 0))

        unit.run(body)
    assert found[1] - found[0] == 16
    assert cycles("fetch", "invalidate") == "1 a line"


# Fetch and issue


def cycles_between_lines(stall: int, branches: dict[int, int] | None = None) -> list[int]:
    """Returns the cycles from the first instruction of a line to that of the next line that a warp
    executes.

    The lines are not in the cache; the first ones are ignored. ``branches`` is that of ``program``,
    with one stall count for all instructions.
    """
    found = list[FrontDriver]()

    def body(bench: Bench) -> None:
        image = program(_COLD_LINES, branches, ControlCode(stall))
        behaviour = MemoryBehaviour(latency=(LATENCY, LATENCY))
        driver = FrontDriver(bench, image, SmParams(warps=8), behaviour)
        driver.run(_COLD_CYCLES, 1)
        found.append(driver)

    passes("scheduler", body)
    entries = [cycle for cycle, _, pc in found[0].issued if pc % LINE_BYTES == INSTRUCTION_BYTES]
    return [later - earlier for earlier, later in pairwise(entries)][4:16]


def test_cold_lines_cost_the_cycles_of_the_manual():
    found = re.search(
        r"memory that answers after (\d+) cycles, cold lines of straight code cost what their instructions cost where "
        r"the stall counts of a line's six instructions add up to (\d+) cycles or more; with stall counts of 2 a line "
        r"takes (\d+\.\d) cycles on average",
        text_of("docs/benchmarks.md"),
    )
    assert found is not None
    assert int(found[1]) == LATENCY
    least = int(found[2]) // IN_LINE
    assert set(cycles_between_lines(least)) == {IN_LINE * least}
    assert max(cycles_between_lines(least - 1)) > IN_LINE * (least - 1)
    assert found[3] == f"{mean(cycles_between_lines(2)):.1f}"


def test_cold_lines_of_branch_targets_cost_the_cycles_of_the_manual():
    found = re.search(
        r"four instructions after the line's first costs (\d+) cycles from one such line to the next if it is the line "
        r"after the next one .*?, (\d+) to (\d+) if it is farther away\.",
        text_of("docs/benchmarks.md"),
    )
    assert found is not None
    near, least, most = map(int, found.groups())

    def chain(distance: int) -> list[int]:
        """Returns branches with which each line continues at the line ``distance`` further."""
        lines = range(0, _COLD_LINES - distance, distance)
        return cycles_between_lines(2, {line * IN_LINE + 4: line + distance for line in lines})

    assert set(chain(2)) == {near}
    assert (min(chain(3)), max(chain(3))) == (least, most)


def test_waits_for_fetch_take_the_cycles_of_the_manual():
    text = text_of("docs/benchmarks.md")
    unit, begin = Fetched(program(IN_LINE)), []

    async def body(ctx):
        begin.append(unit.cycle)
        await unit.fetch(ctx, 0, 0)

    unit.run(body)
    missed = unit.groups[0][0] - 1 - begin[0]
    assert f"the group of a line that nothing has requested arrives {missed} cycles after" in text
    hit, more = fetched_after_redirect(0), fetched_after_redirect(1) - 1
    assert f"a group with n of them takes n + {more - hit} cycles more;" in text
    redirect = NUMERALS[int(cycles("issue", "redirect of fetch"))]
    assert f"such as RET and SYNC: the redirect takes {redirect} cycles;" in text
    assert f"takes {redirect} more cycles until the target's group is ready" in text


# Issue


def issue_events(planned: list[Planned], count: int = 300) -> Watch:
    """Runs a warp that executes these instructions in each group, with a fetch unit that is never
    late.
    """

    def program(_warp: int, pc: int) -> list[Planned]:
        return [replace(each, pc=pc + 8 * place) for place, each in enumerate(planned, 1)]

    _, watch = watched(
        "scheduler",
        lambda bench: IssueDriver(bench, SmParams(warps=1), program, replace(WILLING, ends=0.0)),
        lambda dut: {
            "instruction": dut.instruction.valid,
            "kind": dut.instruction.payload.kind,
            "redirect": dut.redirect.valid,
        },
        count,
    )
    return watch


def least_distance(*planned: Planned) -> int:
    """Returns the smallest number of cycles from the first of these instructions to the second."""
    issued = issue_events(list(planned)).cycles("instruction")
    return min(later - earlier for earlier, later in pairwise(issued[6:]))


def nothing(stall: int, **control: int) -> Planned:
    return Planned(Kind.NOTHING, ControlCode(stall=stall, **control), 0)


def test_a_stall_count_takes_the_cycles_of_the_manual():
    row = "selection of an instruction, stall count 1 or 2"
    at_once = cycles("issue", row, "the warp's next one, which waits for nothing")
    assert [least_distance(*[nothing(stall)] * 3) for stall in (1, 2)] == [int(at_once)] * 2
    waits = nothing(1, wait=1)
    assert cycles("issue", row, "the warp's next one, which waits for something") == str(
        least_distance(waits, waits, waits)
    )
    assert [least_distance(*[nothing(stall)] * 3) for stall in (4, 9)] == [4, 9]
    assert cycles("issue", "selection of an instruction, stall count n") == "n"


def test_a_predicted_branch_redirects_fetch_after_the_cycles_of_the_manual():
    branch = encode("BRA", "i", target=0x40)
    watch = issue_events(
        [nothing(15), nothing(15), Planned(Kind.FLOW, ControlCode(stall=15), 0, branch)]
    )
    flows = [
        cycle for cycle in watch.cycles("instruction") if watch.rows[cycle]["kind"] == Kind.FLOW
    ]
    delays = {watch.first("redirect", cycle) - (cycle - SELECTED) for cycle in flows[:-1]}
    row = "selection of a branch without a guard"
    assert delays == {int(cycles("issue", row))}


# Lanes


def test_cycles_of_full_lanes_are_those_of_the_hardware():
    """``testbench/pipeline`` checks the parameters, and when a predicate can be read."""
    row = cycles("execute", "writes a predicate in the lanes")
    assert row == f"{PREDICATE}, with 4 lanes or more"
    default, full, two = (SmParams(lanes=lanes) for lanes in (8, 32, 2))
    waits = cycles("execute", "passes the full lanes only")
    least = default.quarter_stall - 4 * default.beats
    assert waits.startswith(f"4 times its beats, plus {least};")
    rows = dict(table(DOCS / "lanes.md", "### A quarter of the rate", "what"))
    free = default.quarter_cycles - 4 * default.beats
    assert rows["the lanes are free for others"] == f"4 beats + {free}"
    page = rows["the warp's next instruction"]
    assert page.startswith(f"4 beats + {least}, ")
    assert f"with 32 lanes {max(full.quarter_stall, SLOW)}," in page
    assert rows["complete"] == f"5 beats + {SELECTED + COMPLETION_CYCLES - 1}"
    front = dict(
        row[:2] for row in table(DOCS / "front_end.md", "### When a warp may issue", "a warp waits")
    )
    assert front["after one with a quarter of the rate"].endswith(
        f"4 beats (2 on two lanes) + {least} cycles, at least {SLOW}"
    )
    assert front["on two lanes, after any other instruction that passes them"].startswith(
        f"the same: {two.lanes_stall} cycles."
    )
    assert front["for the lanes"].endswith(f"4 beats (2 on two lanes) + {free} cycles")
    assert two.quarter_stall == 2 * two.beats + least


def test_parts_pass_the_full_lanes_in_the_cycles_of_the_manual():
    """The instruction moves the value of each thread to the upper half of a word."""
    params, first = SmParams(lanes=8, warps=2), 100
    values = [first + thread for thread in range(WARP_THREADS)]

    def script(pipeline: Pipeline) -> Script:
        pipeline.launch(0)
        pipeline.flow_result(0, (1 << WARP_THREADS) - 1)
        yield
        # The second write leaves other values in the operand registers.
        for register, data in ((1, WriteData(values)), (2, WriteData())):
            pipeline.write(register, data)
            yield from pipeline.wait(PATIENCE // 8)
        pipeline.issue(encode("VADD", "i", Rd=2, Ra=1, Rc=RZ, then=VideoSecond.MRG_16H.value))
        yield from pipeline.wait(PATIENCE // 4)

    def signals(dut: Any) -> dict[str, Any]:
        lane = dut.lanes.lanes[0]
        return {
            "decoded": dut.instruction.valid,
            "operand": dut.lanes.operands[0].a,
            "clamped": lane.controls.bounds,
            "result": lane.result.value,
            "written": dut.written.valid,
            "complete": dut.completion.valid,
            "passed": dut.passed.valid,
        }

    _, watch = watched("pipeline", lambda bench: Pipeline(bench, params), signals, script, SELECTED)
    selected = watch.first("decoded") - SELECTED
    after = {
        name: [cycle - selected for cycle in watch.cycles(name) if cycle > selected + SELECTED]
        for name in watch.rows[0]
    }

    def of_parts(name: str, shift: int = 0) -> list[int]:
        """Returns the cycles in which a full lane has the values of its threads, counted from
        selection.
        """
        mine = [
            values[beat * params.lanes + part] << shift
            for beat in range(params.beats)
            for part in range(params.parts)
        ]
        return [
            next(cycle for cycle in after[name] if watch.rows[selected + cycle][name] == value)
            for value in mine
        ]

    rows = dict(table(DOCS / "lanes.md", "### A quarter of the rate", "what"))
    count = params.beats * params.parts
    for row, cycles_found, stage in (
        ("beat b, part q in S4", of_parts("operand"), 1),
        ("the part is clamped, in the full lane", after["clamped"], 0),
        ("the part's result, in the full lane", of_parts("result", 16), 0),
    ):
        begin = cycles_found[0] - stage
        assert cycles_found == list(range(begin + stage, begin + stage + count)), row
        assert rows[row] == f"{begin} + {params.parts} b + q"
    begin = after["written"][0]
    assert after["written"] == list(range(begin, begin + count, params.parts))
    assert rows["beat b in S8"] == f"{begin} + {params.parts} b"
    each = params.parts + 1
    (complete,), (passed,) = after["complete"], after["passed"]
    assert rows["complete"] == f"{each} beats + {complete - each * params.beats}"
    # With 32 lanes the event is sent with the last part, and is not delayed.
    several, one = rows["issue gets the event passed"].split("; with 32 lanes ")
    assert several == f"{each} beats + {passed - each * params.beats}"
    last, full = of_parts("operand")[-1] - 1, SmParams(lanes=32)
    delays = [ReleaseLine(machine, 1)._cycles for machine in (params, full)]
    assert passed == last + delays[0]
    assert one == f"{last - params.parts * (params.beats - full.beats) + delays[1]}"
