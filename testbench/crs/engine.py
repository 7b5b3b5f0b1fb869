"""What the spill and fill engine does when two things happen at once, and when there is nothing to do.

A check is of the first warp. Most have no other one: the warp owns the engine, so that every visit and every line can
be counted. Where two events have to meet in one cycle, the time between them takes every value in turn.
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
"""Dirty lines that may stay on chip while nothing happens."""
_LATE = MemoryBehaviour(latency=(200, 200))
"""A memory that takes a line at once, and answers when everything else is over."""
QUICK = MemoryBehaviour(latency=(1, 1))
"""A memory that answers before the engine visits the warp once more."""
_SLOW = MemoryBehaviour(latency=(1, 1), interval=25)
"""A memory that keeps a line waiting for longer than a visit takes."""
_BUSY = MemoryBehaviour(latency=(1, 1), interval=100)
"""A memory that takes a line, and no other one until all tokens of a check are pushed."""
_TAKING = MemoryBehaviour(latency=(8, 8), interval=12)
"""A memory that takes a line in more cycles than pushes fill it, and answers soon."""
_STEADY = MemoryBehaviour(latency=(8, 8))
_REST = 60
"""Cycles in which _SLOW has taken all lines that are to leave the chip."""
_CONFIRMED_CYCLES = 5
"""From memory's last answer to the result of the write-back that waited for it."""
_CROWDED_CYCLES = 60
"""The same, at most, if other requests go first that wait for lines to leave."""
_SPILL_VISITS = 2
"""Visits for a line that leaves: one that finds the line, one that finds no other."""


class Observer:
    """Watches the engine, beside the driver.

    Attributes:
        visits: How many there were.
        visited: Of which warps.
        answers: How many writes of the first warp memory has answered.
        quiet: Cycles since it did.
    """

    def __init__(self, dut: Any) -> None:
        self._dut = dut
        self.visits = self.answers = self.quiet = 0
        self.visited: set[int] = set()

    async def serve(self, ctx: Any) -> None:
        """The testbench; run it in the background."""
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
    """Plays a scenario, and ``others`` beside it on other warps; the first line of its docstring says what was
    checked."""
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
    """The engine visits a warp for what it has to do, and for nothing else"""

    def visits_since(before: int, what: str, expected: int) -> None:
        bench.expect(f"visits {what}", observer.visits - before, expected)

    yield stack.launch(_GRANULES)
    yield from _idle(20)
    start = observer.visits
    yield from pushed(0, _MOST_DIRTY * TOKENS_PER_LINE)
    yield from _idle(20)
    visits_since(start, "while few lines are dirty", 0)

    # One push too many: a line leaves.
    yield from pushed(stack.depth, stack.depth + 1)
    yield from _idle(50)
    visits_since(start, "for a line that leaves", _SPILL_VISITS)
    yield from _idle(_LATE.latency[1])
    visits_since(start, "when memory has answered", _SPILL_VISITS)

    # An unwind leaves enough lines on chip.
    start = observer.visits
    yield from taken_off(stack, 1)
    yield from _idle(20)
    visits_since(start, "for an unwind on chip", 0)

    # A write-back waits for memory without a visit; each answer brings one.
    start = observer.visits
    spills = driver.statistics.events["spill"]
    yield stack.ask(StackOperation.WRITE_BACK)
    yield from _idle(20)
    lines = driver.statistics.events["spill"] - spills
    visits_since(start, f"for a write-back of {lines} lines", _SPILL_VISITS + lines)


def _dirty_lines(bench: Bench, driver: Driver, stack: WarpStack, what: str) -> Source:
    """That few lines are dirty, since a write-back writes no more. Nothing may be under way."""
    before = driver.statistics.events["spill"]
    yield stack.ask(StackOperation.WRITE_BACK)
    dirty = driver.statistics.events["spill"] - before
    if dirty > _MOST_DIRTY:
        bench.fail(f"{dirty} lines are dirty at rest, {what}")


def _dirty_at_rest(bench: Bench, driver: Driver, _o: Observer, stack: WarpStack) -> Source:
    """Dirty lines leave the chip until few are left, though tokens were popped while they did"""
    for idle in range(0, _SLOW.interval + 4, 2):
        for popped in (0, 1, 4):
            yield from launched(stack, _GRANULES, _CHIP)
            yield from _idle(idle)
            yield from taken_off(stack, popped)
            yield from _idle(2 * _REST)
            what = f"{popped} tokens popped {idle} cycles after {_CHIP} pushes"
            yield from _dirty_lines(bench, driver, stack, what)


def _moved_full(_bench: Bench, _driver: Driver, _o: Observer, stack: WarpStack) -> Source:
    """A cache full of dirty lines has room again, though the region moved while lines left"""
    for idle in range(_SLOW.interval + 8):
        yield from launched(stack, _GRANULES, _CHIP)
        yield from _idle(idle)
        yield stack.ask(StackOperation.SET_BASE, stack.allocate(stack.local + _GRANULES))
        yield from pushed(stack.depth, stack.depth + 1)


def _moved_at_spill(bench: Bench, driver: Driver, _o: Observer, stack: WarpStack) -> Source:
    """Dirty lines leave the chip, though the region moved when one was about to"""
    waiting = (_MOST_DIRTY + 3) * TOKENS_PER_LINE + 1
    for idle in range(0, 24, 3):
        # Of the lines that leave, memory has the first, the request register the second, the job
        # register the third. A fourth one waits for that, and no push comes any more.
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
    """A write-back is over with memory's last answer, whether its lines left for it or before"""
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
    """A write-back is over with memory's last answer, though the engine is busy with another warp"""
    for depth in range(1, _MOST_DIRTY * TOKENS_PER_LINE + 1):
        yield from launched(stack, _GRANULES, depth)
        yield stack.ask(StackOperation.WRITE_BACK)
        if observer.quiet > _CROWDED_CYCLES:
            bench.fail(f"a write-back of {depth} tokens is over {observer.quiet} cycles after that")


def _many_pushes(stack: WarpStack) -> Source:
    """Lines that leave, one after the other."""
    for _ in range(2):
        yield from launched(stack, _GRANULES, 12 * _CHIP)


def _many_writes(bench: Bench, driver: Driver, _o: Observer, stack: WarpStack) -> Source:
    """Lines wait until memory has answered, if as many writes are under way as can be counted"""
    yield from launched(stack, _GRANULES, 4 * _CHIP)
    most = 2 * _PARAMS.stack_lines - 1
    bench.expect("writes under way", max(driver.memory_depths), most)
    yield from taken_off(stack, 2)
    yield from _idle(_LATE.latency[1])

    # An unwind waits as well, if it needs the slots of dirty lines.
    yield from pushed(stack.depth, 6 * _CHIP)
    yield unwind(aimed_at(numbered(3 * _CHIP)))
    yield from taken_off(stack, 3 * _CHIP)


def _emptied_on_arrival(_bench: Bench, _driver: Driver, _o: Observer, stack: WarpStack) -> Source:
    """A line that arrives in the cycle in which the stack is emptied counts as gone"""
    tokens = 40
    yield from launched(stack, _GRANULES, tokens)
    yield stack.ask(StackOperation.WRITE_BACK)
    for idle in range(6 * _STEADY.latency[1]):
        yield stack.ask(StackOperation.SET_POINTER, tokens)
        yield from _idle(idle)
        yield stack.ask(StackOperation.SET_POINTER, tokens // 2)
        yield from taken_off(stack, 3)


def _check_turns(bench: Bench) -> StackStatistics:
    """A warp is visited only if there is something to do for it, whichever warp that is"""
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
    """The spill and fill engine when two things happen at once, and when there is nothing to do."""
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
