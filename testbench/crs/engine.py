"""Corner cases of the spill and fill engine: simultaneous events, and no work to do.

A check observes the first warp. Most checks have no other one, so that every visit of the engine
and every line can be counted. Where two events must meet in one cycle, the check tries every
distance between them.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from rtl.crs.engine import VisitStep
from rtl.crs.records import spills_from
from rtl.isa.tokens import CRS_GRANULE, TOKENS_PER_LINE
from rtl.layouts import StackOperation
from rtl.params import SmParams
from sim.checks.testbench import Bench
from sim.machine.memory_port import MemoryBehaviour
from testbench.crs.cases import launched, numbered, pushed, taken_off
from testbench.crs.driver import Driver
from testbench.crs.reference import encode_token
from testbench.crs.statistics import StackStatistics
from testbench.crs.steps import Source, Start, WarpStack, aimed_at, unwind

_PARAMS = SmParams(warps=1)
_GRANULES = 8
_CHIP = _PARAMS.stack_tokens
_MOST_DIRTY = spills_from(_PARAMS) - 1
"""Dirty lines that may stay on chip while the stack is idle."""
_LATE = MemoryBehaviour(latency=(200, 200))
"""A memory that takes a line at once, and responds long after everything else has finished."""
QUICK = MemoryBehaviour(latency=(1, 1))
"""A memory that responds before the engine visits the warp again."""
_SLOW = MemoryBehaviour(latency=(1, 1), interval=25)
"""A memory that keeps a line waiting longer than a visit takes."""
_BUSY = MemoryBehaviour(latency=(1, 1), interval=100)
"""A memory that takes one line, and no other one until all pushes of a check are done."""
_TAKING = MemoryBehaviour(latency=(8, 8), interval=12)
"""A memory that takes a line in more cycles than pushes need to fill it, and responds soon."""
_STEADY = MemoryBehaviour(latency=(8, 8))
_REST = 60
"""Cycles in which _SLOW has taken all lines to be spilled."""
_CONFIRMED_CYCLES = 5
"""Cycles from the last response of memory to the result of the write-back that waits for it."""
_CROWDED_CYCLES = 60
"""The same, at most, if requests that wait for spills go first."""
_SPILL_VISITS = 2
"""Visits for one spill: one that finds the line, and one that finds no other."""


class Observer:
    """Observes the engine during a run of the driver.

    Attributes:
        visits: Number of visits of the engine.
        visited: Warps visited.
        answers: Responses to writes of the first warp.
        quiet: Cycles since the last of these responses.
    """

    def __init__(self, dut: Any) -> None:
        self._dut = dut
        self.visits = self.answers = self.quiet = 0
        self.visited: set[int] = set()

    async def serve(self, ctx: Any) -> None:
        """Background process of the simulation: samples the engine every cycle."""
        response = self._dut.port.response
        is_answer = response.valid & response.ready & response.payload.write
        is_of_first = response.payload.tag == 0
        engine = self._dut.engine
        async for _, _, step, warp, answers in ctx.tick().sample(
            engine._step, engine.warp, is_answer & is_of_first
        ):
            if VisitStep(step) is VisitStep.READ:
                self.visits += 1
                self.visited.add(warp)
            self.answers += answers
            self.quiet = 0 if answers else self.quiet + 1


Scenario = Callable[[Bench, Driver, Observer, WarpStack], Source]


def _run(
    bench: Bench, behaviour: MemoryBehaviour, scenario: Scenario, *others: Start
) -> StackStatistics:
    """Runs a scenario on the first warp and ``others`` on the following ones. The first line of the
    scenario's docstring is the name of the check.
    """
    driver = Driver(bench, replace(_PARAMS, warps=1 + len(others)), Random(0), behaviour)
    observer = Observer(driver.dut)
    driver.observe(observer)
    statistics = driver.run([partial(scenario, bench, driver, observer), *others])
    bench.checked((scenario.__doc__ or "").partition("\n")[0])
    return statistics


def _idle(cycles: int) -> Source:
    for _ in range(cycles):
        yield None


def _quiet_engine(bench: Bench, driver: Driver, observer: Observer, stack: WarpStack) -> Source:
    """The engine visits a warp only when there is work for it"""

    def visits_since(before: int, what: str, expected: int) -> None:
        bench.expect(f"visits {what}", observer.visits - before, expected)

    yield stack.launch(_GRANULES)
    yield from _idle(20)
    start = observer.visits
    yield from pushed(0, _MOST_DIRTY * TOKENS_PER_LINE)
    yield from _idle(20)
    visits_since(start, "while few lines are dirty", 0)

    # One push above the limit of dirty lines: a line is spilled.
    yield from pushed(stack.depth, stack.depth + 1)
    yield from _idle(50)
    visits_since(start, "for a line that leaves", _SPILL_VISITS)
    yield from _idle(_LATE.latency[1])
    visits_since(start, "when memory has answered", _SPILL_VISITS)

    # An unwind leaves free lines on chip.
    start = observer.visits
    yield from taken_off(stack, 1)
    yield from _idle(20)
    visits_since(start, "for an unwind on chip", 0)

    # A write-back waits for memory without visits; each response causes one.
    start = observer.visits
    spills = driver.statistics.events["spill"]
    yield stack.ask(StackOperation.WRITE_BACK)
    yield from _idle(20)
    lines = driver.statistics.events["spill"] - spills
    visits_since(start, f"for a write-back of {lines} lines", _SPILL_VISITS + lines)


def _dirty_lines(bench: Bench, driver: Driver, stack: WarpStack, what: str) -> Source:
    """Counts the lines that a write-back spills: at most the limit may have been dirty. No request
    may be in flight.
    """
    before = driver.statistics.events["spill"]
    yield stack.ask(StackOperation.WRITE_BACK)
    dirty = driver.statistics.events["spill"] - before
    if dirty > _MOST_DIRTY:
        bench.fail(f"{dirty} lines are dirty at rest, {what}")


def _dirty_at_rest(bench: Bench, driver: Driver, _o: Observer, stack: WarpStack) -> Source:
    """Dirty lines are spilled down to the limit, though tokens are popped meanwhile"""
    for idle in range(0, _SLOW.interval + 4, 2):
        for popped in (0, 1, 4):
            yield from launched(stack, _GRANULES, _CHIP)
            yield from _idle(idle)
            yield from taken_off(stack, popped)
            yield from _idle(2 * _REST)
            what = f"{popped} tokens popped {idle} cycles after {_CHIP} pushes"
            yield from _dirty_lines(bench, driver, stack, what)


def _moved_full(_bench: Bench, _driver: Driver, _o: Observer, stack: WarpStack) -> Source:
    """A cache full of dirty lines has room again, though the region moved during the spills"""
    for idle in range(_SLOW.interval + 8):
        yield from launched(stack, _GRANULES, _CHIP)
        yield from _idle(idle)
        yield stack.ask(StackOperation.SET_BASE, stack.allocate(stack.local + _GRANULES))
        yield from pushed(stack.depth, stack.depth + 1)


def _moved_at_spill(bench: Bench, driver: Driver, _o: Observer, stack: WarpStack) -> Source:
    """Dirty lines are spilled, though the region moved just before a spill"""
    waiting = (_MOST_DIRTY + 3) * TOKENS_PER_LINE + 1
    for idle in range(0, 24, 3):
        # Of the spilled lines memory has the first, the request register the second and the job
        # register the third. A fourth one waits for that register, and no push follows.
        yield from launched(stack, _GRANULES, waiting)
        yield from _idle(idle)
        base = stack.allocate(stack.local + _GRANULES)
        content = b"".join(encode_token(token) for token in stack.reference.tokens)
        stack.memory.put((base + stack.local) * CRS_GRANULE, content)
        yield stack.ask(StackOperation.SET_BASE, base)
        yield from _idle(4 * _BUSY.interval)
        yield from _dirty_lines(bench, driver, stack, f"the region moved {idle} cycles after")


def _write_backs_of_all(
    bench: Bench, driver: Driver, observer: Observer, stack: WarpStack
) -> Source:
    """A write-back ends with the last response of memory, also for lines spilled before it"""
    tokens = (_MOST_DIRTY + 1) * TOKENS_PER_LINE
    for depth in (1, TOKENS_PER_LINE, tokens):
        for idle in range(0, 12, 2):
            yield from launched(stack, _GRANULES, tokens + 1)
            yield from _idle(idle)
            yield from taken_off(stack, stack.depth - depth)
            answers = observer.answers
            yield stack.ask(StackOperation.WRITE_BACK)
            if observer.answers == answers:
                continue
            what = f"write-back of {depth} tokens, {idle} cycles after a line was to leave"
            bench.expect(
                f"cycles from memory's answer to the end of a {what}",
                observer.quiet,
                _CONFIRMED_CYCLES,
            )


def _crowded_write_backs(
    bench: Bench, _driver: Driver, observer: Observer, stack: WarpStack
) -> Source:
    """A write-back ends with the last response of memory, though the engine serves another warp"""
    for depth in range(1, _MOST_DIRTY * TOKENS_PER_LINE + 1):
        yield from launched(stack, _GRANULES, depth)
        yield stack.ask(StackOperation.WRITE_BACK)
        if observer.quiet > _CROWDED_CYCLES:
            bench.fail(f"a write-back of {depth} tokens is over {observer.quiet} cycles after that")


def _many_pushes(stack: WarpStack) -> Source:
    """Pushes that spill one line after the other."""
    for _ in range(2):
        yield from launched(stack, _GRANULES, 12 * _CHIP)


def _many_writes(bench: Bench, driver: Driver, _o: Observer, stack: WarpStack) -> Source:
    """Spills wait for a response of memory when the counter of writes in flight is at its limit"""
    yield from launched(stack, _GRANULES, 4 * _CHIP)
    most = 2 * _PARAMS.stack_lines - 1
    bench.expect("writes under way", max(driver.memory_depths), most)
    yield from taken_off(stack, 2)
    yield from _idle(_LATE.latency[1])

    # An unwind waits as well if it needs the slots of dirty lines.
    yield from pushed(stack.depth, 6 * _CHIP)
    yield unwind(aimed_at(numbered(3 * _CHIP)))
    yield from taken_off(stack, 3 * _CHIP)


def _emptied_on_arrival(_bench: Bench, _driver: Driver, _o: Observer, stack: WarpStack) -> Source:
    """A fill that arrives in the cycle in which the stack is emptied is dropped"""
    tokens = 40
    yield from launched(stack, _GRANULES, tokens)
    yield stack.ask(StackOperation.WRITE_BACK)
    for idle in range(6 * _STEADY.latency[1]):
        yield stack.ask(StackOperation.SET_POINTER, tokens)
        yield from _idle(idle)
        yield stack.ask(StackOperation.SET_POINTER, tokens // 2)
        yield from taken_off(stack, 3)


def _check_turns(bench: Bench) -> StackStatistics:
    """The engine visits only warps that have work, for each of the warps."""
    warps = 4
    driver = Driver(bench, replace(_PARAMS, warps=warps), Random(0), _LATE)
    observer = Observer(driver.dut)
    driver.observe(observer)
    turn = 0

    def start(stack: WarpStack) -> Source:
        nonlocal turn
        yield stack.launch(_GRANULES)
        while turn != stack.warp:
            yield None
        for _ in range(3):
            yield from _idle(20)
            observer.visited.clear()
            yield from pushed(stack.depth, stack.depth + 2 * _CHIP)
            yield from _idle(2 * _LATE.latency[1])
            bench.expect("warps that were visited", observer.visited, {stack.warp})
        turn += 1

    statistics = driver.run([start] * warps)
    bench.checked("warps that are visited for their own lines", warps)
    return statistics


def check_engine(bench: Bench) -> StackStatistics:
    """All checks of the spill and fill engine."""
    played = StackStatistics.of(
        _run(bench, behaviour, scenario, *others)
        for behaviour, scenario, *others in (
            (_LATE, _quiet_engine),
            (_SLOW, _dirty_at_rest),
            (_SLOW, _moved_full),
            (_BUSY, _moved_at_spill),
            (_LATE, _write_backs_of_all),
            (QUICK, _write_backs_of_all),
            (_TAKING, _crowded_write_backs, _many_pushes),
            (_LATE, _many_writes),
            (_STEADY, _emptied_on_arrival),
        )
    )
    return StackStatistics.of([played, _check_turns(bench)])
