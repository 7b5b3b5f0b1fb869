"""The queue between two clock domains: every word arrives once and in order, at any ratio of the
clocks.
"""

from random import Random
from typing import Any

import pytest
from amaranth.sim import Simulator

from rtl.fpga.crossing import CrossingQueue
from sim.engine import stop

DEPTH = 8
COUNT = 120


def play(write: float, read: float, *, heed: bool = True) -> tuple[list[int], set[int]]:
    """Writes numbers whenever there is room, or regardless of it unless ``heed``; reads them at
    intervals. Periods in nanoseconds.

    Returns the numbers that arrived, and the levels that were reported.
    """
    queue, random = CrossingQueue(16, DEPTH.bit_length() - 1, "left", "right"), Random(1)
    got: list[int] = []
    levels: set[int] = set()

    async def writer(ctx: Any) -> None:
        number = 0
        while number < COUNT:
            levels.add(ctx.get(queue.level))
            writes = (not heed or ctx.get(queue.level) < DEPTH) and random.random() < 0.9
            ctx.set(queue.write.valid, writes)
            ctx.set(queue.write.payload, number)
            number += writes
            await ctx.tick("left")
        ctx.set(queue.write.valid, 0)

    async def reader(ctx: Any) -> None:
        for _ in range(40 * COUNT):
            ctx.set(queue.read.ready, random.random() < 0.7)
            _, _, available, take, head = await ctx.tick("right").sample(
                queue.read.valid, queue.read.ready, queue.read.payload
            )
            if available and take:
                got.append(head)
            if len(got) == COUNT:
                break

    simulator = Simulator(queue)
    simulator.add_clock(write * 1e-9, domain="left")
    simulator.add_clock(read * 1e-9, domain="right", phase=0.3e-9)
    simulator.add_testbench(writer)
    simulator.add_testbench(reader)
    try:
        simulator.run()
    finally:
        stop(simulator)
    return got, levels


@pytest.mark.parametrize(("write", "read"), [(10, 10), (10, 3), (3, 10), (10, 10.7)])
def test_words_arrive_in_order(write, read):
    got, levels = play(write, read)
    assert got == list(range(COUNT))
    assert read < write or max(levels) == DEPTH


def test_writing_without_room_is_found():
    with pytest.raises(AssertionError, match="full"):
        play(3, 10, heed=False)
