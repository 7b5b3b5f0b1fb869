"""Checks of the stack's throughput and latency: pushes and unwinds on chip, against the limits."""

from random import Random

from rtl.isa.tokens import CACHED_TOKENS, TOKENS_PER_LINE, TokenKind
from rtl.layouts import StackOperation, ThreadCode
from rtl.params import SmParams
from sim.checks.testbench import Bench
from testbench.crs.driver import Driver
from testbench.crs.limits import (
    LINE_PER_PUSHES,
    PUSH_CYCLES,
    REQUESTS_PER_CYCLE,
    RESULT_CYCLES,
    TOKEN_CYCLES,
)
from testbench.crs.statistics import StackStatistics
from testbench.crs.steps import Source, Start, WarpStack, push, unwind

_PUSHES = 125
_ROUNDS = 120
"""Rounds of the check; many, so that the end, with few active warps, has little weight."""
_WARPS = 8
_LINES, _REST = 6, 40
"""Depths of set pointers in lines, and cycles in which memory returns a line."""


def _most(statistics: StackStatistics, *operations: StackOperation) -> int:
    return max(max(statistics.latencies[operation]) for operation in operations)


def _many_pushes(stack: WarpStack) -> Source:
    yield stack.launch(_PUSHES // 32 + 2)
    for index in range(_PUSHES):
        yield push(TokenKind.SYNC, 8 * index, 1)
    yield stack.ask(StackOperation.WRITE_BACK)


def check_pushes(bench: Bench) -> StackStatistics:
    """A push is taken in every second cycle, though memory takes only one line in four."""
    driver = Driver(bench, SmParams(warps=1), Random(0), LINE_PER_PUSHES)
    statistics = driver.run([_many_pushes])
    pushes = driver.taken[1 : _PUSHES + 1]  # without the launch
    bench.expect(
        "cycles that pushes one after the other waited",
        pushes[-1] - pushes[0] - PUSH_CYCLES * (_PUSHES - 1),
        0,
    )
    bench.expect(
        "most cycles from a push to its result",
        _most(statistics, StackOperation.PUSH),
        RESULT_CYCLES,
    )
    bench.checked("pushes that wait for nothing but the one before", _PUSHES)
    return statistics


def _unwinds_on_chip(stack: WarpStack) -> Source:
    yield stack.launch(0)
    for depth in range(1, CACHED_TOKENS + 1):
        yield push(TokenKind.SYNC, 8 * depth, 1)
        for _ in range(depth - 1):
            yield push(TokenKind.DIVERGE, 0, 2)
        yield unwind({ThreadCode.NONE: 1})


def check_hits(bench: Bench) -> StackStatistics:
    """An unwind on chip inspects a token in every second cycle."""
    driver = Driver(bench, SmParams(warps=1), Random(0))
    statistics = driver.run([_unwinds_on_chip])
    for depth, cycles in enumerate(statistics.latencies[StackOperation.UNWIND], 1):
        limit = RESULT_CYCLES + TOKEN_CYCLES * (depth - 1)
        if cycles > limit:
            bench.fail(
                f"an unwind through {depth} tokens on chip takes {cycles} cycles, not {limit}"
            )
        bench.checked("unwinds on chip as fast as they should be")
    return statistics


def _down_with_pushes(stack: WarpStack) -> Source:
    yield stack.launch(2)
    for _ in range(2 * CACHED_TOKENS):
        yield push(TokenKind.SYNC, 8, 1)
    for _ in range(CACHED_TOKENS - 2):
        for _ in range(3):
            yield unwind({ThreadCode.NONE: 1})
        yield push(TokenKind.SYNC, 8, 1)


def check_fills(bench: Bench) -> StackStatistics:
    """A line in flight when tokens are pushed is used unless its slot is needed: each line is read
    once.
    """
    driver = Driver(bench, SmParams(warps=1), Random(0), LINE_PER_PUSHES)
    statistics = driver.run([_down_with_pushes])
    lines = CACHED_TOKENS // TOKENS_PER_LINE
    bench.expect("lines read, of those that are not on chip", statistics.events["fill"], lines)
    bench.checked("lines read once", statistics.events["fill"])
    return statistics


def _pointers(stack: WarpStack) -> Source:
    yield stack.launch(2)
    for lines in range(1, _LINES + 1):
        for _ in range(lines * TOKENS_PER_LINE - stack.depth):
            yield push(TokenKind.SYNC, 8, 1)
        yield stack.ask(StackOperation.WRITE_BACK)
        yield stack.ask(StackOperation.SET_POINTER, stack.depth)
        for _ in range(_REST):
            yield None
        yield unwind({ThreadCode.NONE: 1})


def check_pointers(bench: Bench) -> StackStatistics:
    """After SET_POINTER the line below the pointer is prefetched before an unwind needs it; the
    lowest line too.
    """
    driver = Driver(bench, SmParams(warps=1), Random(0), LINE_PER_PUSHES)
    statistics = driver.run([_pointers])
    bench.expect(
        "cycles of unwinds some time after SET_POINTER",
        set(statistics.latencies[StackOperation.UNWIND]),
        {RESULT_CYCLES},
    )
    bench.checked("lines read before they are asked for", _LINES)
    return statistics


def _to_and_fro(stack: WarpStack) -> Source:
    yield stack.launch(0)
    for _ in range(_ROUNDS):
        yield push(TokenKind.SYNC, 0x40, 1)
        yield unwind({ThreadCode.NONE: 1})


def check_rate(bench: Bench) -> StackStatistics:
    """With several warps a request is taken in every cycle."""
    driver = Driver(bench, SmParams(warps=_WARPS), Random(0), polite=True)
    starts: list[Start] = [_to_and_fro] * _WARPS
    statistics = driver.run(starts)
    rate = (len(driver.taken) - 1) / (driver.taken[-1] - driver.taken[0])
    bench.figure("requests a cycle, 8 warps that push and pop", rate)
    if rate < REQUESTS_PER_CYCLE:
        bench.fail(f"the stack takes {rate:.3f} requests a cycle")
    return statistics
