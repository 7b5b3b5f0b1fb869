"""What the spill and fill engine does when two things happen at once, and when there is nothing to do.

Each check has one warp, which owns the engine, so that every visit and every line can be counted. Where two events
have to meet in one cycle, the time between them takes every value in turn.
"""

from collections.abc import Callable
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
from testbench.crs.steps import Source, WarpStack, aimed_at, unwind

_PARAMS = SmParams(warps=1)
_GRANULES = 8
_CHIP = _PARAMS.stack_tokens
_MOST_DIRTY = spills_from(_PARAMS) - 1
"""Dirty lines that may stay on chip while nothing happens."""
_LATE = MemoryBehaviour(latency=(200, 200))
"""A memory that takes a line at once, and answers when everything else is over."""
_QUICK = MemoryBehaviour(latency=(1, 1))
"""A memory that answers before the engine visits the warp once more."""
_SLOW = MemoryBehaviour(latency=(1, 1), interval=25)
"""A memory that keeps a line waiting for longer than a visit takes."""
_BUSY = MemoryBehaviour(latency=(1, 1), interval=100)
"""A memory that takes a line, and no other one until all tokens of a check are pushed."""
_STEADY = MemoryBehaviour(latency=(8, 8))
_REST = 60
"""Cycles in which _SLOW has taken all lines that are to leave the chip."""
_CONFIRMED_CYCLES = 5
"""From memory's last answer to the result of the write-back that waited for it."""
_SPILL_VISITS = 2
"""Visits for a line that leaves: one that finds the line, one that finds no other."""


class Observer:
    """Watches the engine, beside the driver.

    Attributes:
        visits: How many there were.
        answers: How many writes memory has answered.
        quiet: Cycles since it did.
    """

    def __init__(self, dut: Any) -> None:
        self._dut = dut
        self.visits = self.answers = self.quiet = 0

    async def serve(self, ctx: Any) -> None:
        """The testbench; run it in the background."""
        response = self._dut.port.response
        async for _, _, step, answers, is_write in ctx.tick().sample(
            self._dut.engine._step, response.valid & response.ready, response.payload.write
        ):
            self.visits += VisitStep(step) is VisitStep.READ
            self.answers += answers and is_write
            self.quiet = 0 if answers and is_write else self.quiet + 1


Scenario = Callable[[Bench, Driver, Observer, WarpStack], Source]


def _run(bench: Bench, behaviour: MemoryBehaviour, scenario: Scenario) -> StackStatistics:
    """Plays a scenario; the first line of its docstring says what was checked."""
    driver = Driver(bench, _PARAMS, Random(0), behaviour)
    observer = Observer(driver.dut)
    driver.observe(observer)
    statistics = driver.run([partial(scenario, bench, driver, observer)])
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


def _many_writes(_bench: Bench, _driver: Driver, _o: Observer, stack: WarpStack) -> Source:
    """Lines wait until memory has answered, if as many writes are under way as can be counted"""
    yield from launched(stack, _GRANULES, 4 * _CHIP)
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


def check_engine(bench: Bench) -> StackStatistics:
    """The spill and fill engine when two things happen at once, and when there is nothing to do."""
    return StackStatistics.of(
        _run(bench, behaviour, scenario)
        for behaviour, scenario in (
            (_LATE, _quiet_engine),
            (_SLOW, _dirty_at_rest),
            (_SLOW, _moved_full),
            (_BUSY, _moved_at_spill),
            (_LATE, _write_backs_of_all),
            (_QUICK, _write_backs_of_all),
            (_LATE, _many_writes),
            (_STEADY, _emptied_on_arrival),
        )
    )
