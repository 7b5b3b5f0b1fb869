"""Threads of a grid that run one at a time: their order, meetings within a warp, barriers of a CTA,
and the lane that a shuffle reads.
"""

from collections import deque
from functools import partial
from typing import Any

import pytest

from rtl.isa.kinds import ShuffleMode
from rtl.params import WARP_THREADS
from sim.model.threads import (
    ENDED,
    WAITING,
    BarrierWait,
    GridCta,
    GridThread,
    check_nobody_waits,
    cta_positions,
    shuffle_source,
    take_turns,
)


class Walker(GridThread):
    """A thread whose position is a number; it counts how often it continued."""

    def __init__(self, number, block=(96, 1, 1)):
        super().__init__(None, number, block)
        self.at = 0
        self.advanced = 0

    @property
    def program_point(self):
        return self.at

    def advance(self):
        self.at += 1
        self.advanced += 1


def cta_of(threads: int) -> GridCta[Walker]:
    """Returns a CTA whose threads were removed from the run queue."""
    walkers = [Walker(number) for number in range(threads)]
    cta = GridCta((0, 0, 0), walkers, deque())
    for walker in walkers:
        walker.cta = cta
    cta.runnable.clear()
    return cta


def threads_of(cta: GridCta[Walker], group: int) -> list[Walker]:
    return cta.groups[group].threads


def wait_at(cta, group, barrier, groups=None, vote=0, finish=None):
    """Makes all threads of a group arrive at a barrier."""
    for walker in threads_of(cta, group):
        walker.arrival = BarrierWait(barrier, groups, vote, finish)
        cta.stopped(walker, WAITING)


def running(cta) -> list[int]:
    """Returns the numbers of the threads that continued, in the order of the queue."""
    found = [walker.number for walker in cta.runnable]
    cta.runnable.clear()
    return found


def numbers_of(*groups: int) -> list[int]:
    return [32 * group + lane for group in groups for lane in range(32)]


def test_positions_count_x_first():
    walkers = [Walker(number, (3, 2, 2)) for number in range(12)]
    assert [walker.position for walker in walkers] == [
        (x, y, z) for z in range(2) for y in range(2) for x in range(3)
    ]
    assert [Walker(number).lane for number in (0, 31, 32, 65)] == [0, 31, 0, 1]
    assert list(cta_positions((2, 1, 3))) == [(x, 0, z) for z in range(3) for x in range(2)]


def test_groups_are_of_32_neighbours_and_the_last_one_may_be_smaller():
    cta = cta_of(70)
    assert [len(group.threads) for group in cta.groups] == [32, 32, 6]
    assert [group.number for group in cta.groups] == [0, 1, 2]
    assert (
        [group.living for group in cta.groups]
        == [group.running for group in cta.groups]
        == [
            32,
            32,
            6,
        ]
    )


def test_threads_begin_in_the_queue():
    runnable = deque()
    walkers = [Walker(number) for number in range(3)]
    GridCta((0, 0, 0), walkers, runnable)
    assert list(runnable) == walkers


def test_a_barrier_waits_for_all_groups_that_live():
    cta = cta_of(96)
    wait_at(cta, 0, 1)
    for walker in threads_of(cta, 1):
        cta.stopped(walker, ENDED)
    assert running(cta) == []
    wait_at(cta, 2, 1)
    assert running(cta) == numbers_of(0, 2)
    assert all(walker.advanced == 1 for walker in threads_of(cta, 0))
    assert [group.running for group in cta.groups] == [32, 0, 32]
    assert [group.living for group in cta.groups] == [32, 0, 32]


def test_the_end_of_a_group_releases_those_that_wait_for_it():
    cta = cta_of(64)
    wait_at(cta, 1, 0)
    for walker in threads_of(cta, 0)[:-1]:
        cta.stopped(walker, ENDED)
    assert running(cta) == []
    cta.stopped(threads_of(cta, 0)[-1], ENDED)
    assert running(cta) == numbers_of(1)


def test_groups_go_on_in_the_order_of_their_arrival():
    cta = cta_of(96)
    for group in (2, 0, 1):
        wait_at(cta, group, 5)
    assert running(cta) == numbers_of(2, 0, 1)


def test_a_barrier_with_a_count_waits_for_so_many_groups():
    cta = cta_of(96)
    wait_at(cta, 0, 3, groups=2)
    assert running(cta) == []
    wait_at(cta, 2, 3, groups=2)
    assert running(cta) == numbers_of(0, 2)
    # The next use of the barrier starts without arrivals.
    wait_at(cta, 0, 3, groups=2)
    assert running(cta) == []


def test_a_group_that_does_not_wait_counts_once():
    cta = cta_of(96)
    cta.arrive(4, 2)
    assert running(cta) == []
    wait_at(cta, 1, 4, groups=2)
    assert running(cta) == numbers_of(1)
    wait_at(cta, 0, 4, groups=3)
    cta.arrive(4, 3)
    assert running(cta) == []
    cta.arrive(4, 3)
    assert running(cta) == numbers_of(0)


def test_barriers_do_not_mix():
    cta = cta_of(64)
    wait_at(cta, 0, 1, groups=2)
    wait_at(cta, 1, 2, groups=1)
    assert running(cta) == numbers_of(1)
    with pytest.raises(
        RuntimeError,
        match=r"^thread \(0, 0, 0\) of CTA \(0, 0, 0\): waits at a "
        "barrier that the rest of its CTA will not reach$",
    ):
        check_nobody_waits([cta], lambda thread, why: RuntimeError(f"{thread.name}: {why}"))
    wait_at(cta, 1, 1, groups=2)
    check_nobody_waits([cta], lambda thread, why: RuntimeError(why))


def test_votes_are_those_of_the_threads_that_ask_for_a_result():
    cta, found = cta_of(64), []
    finish = found.append
    for walker in threads_of(cta, 0):
        asks = walker.lane % 2
        walker.arrival = BarrierWait(0, None, 7 if asks else 9, finish if asks else None)
        cta.stopped(walker, WAITING)
    wait_at(cta, 1, 0, vote=5)
    assert found == [[7] * 16] * 16
    assert running(cta) == numbers_of(0, 1)


def test_threads_at_the_first_place_meet_first():
    cta, met = cta_of(32), []
    everyone = threads_of(cta, 0)
    for walker in everyone:
        walker.at = 10 if walker.lane < 5 else 4
        walker.meeting = partial(lambda at, members: met.append((at, len(members))), walker.at)
        if walker.lane == 31:
            walker.meeting = None  # it still runs
            continue
        cta.stopped(walker, WAITING)
    assert met == []
    everyone[31].arrival = BarrierWait(0, None)
    cta.stopped(everyone[31], WAITING)
    assert met == [(4, 26)]
    assert running(cta) == list(range(5, 31))
    assert all(everyone[lane].at == 5 and everyone[lane].meeting is None for lane in range(5, 31))
    # No group is complete as long as some of its threads run.
    for lane in range(5, 31):
        cta.stopped(everyone[lane], ENDED)
    assert met == [(4, 26), (10, 5)]
    for lane in range(5):
        cta.stopped(everyone[lane], ENDED)
    assert running(cta) == [*range(5), 31]
    assert everyone[31].arrival is None


def test_turns_go_round_until_nobody_runs():
    order = []
    left = {0: 2, 1: 1, 2: 3}
    runnable: Any = deque([0, 1, 2])

    def turn(number):
        order.append(number)
        left[number] -= 1
        if left[number]:
            runnable.append(number)
        return 10

    assert take_turns(runnable, turn, 60, lambda thread, why: RuntimeError(why)) == 60
    assert order == [0, 1, 2, 0, 2, 2]


def test_more_instructions_than_the_limit_are_a_runaway():
    runnable: Any = deque([5, 6, 7])
    with pytest.raises(RuntimeError, match=r"^7: still running after 59 instructions$"):
        take_turns(runnable, lambda _: 20, 59, lambda thread, why: RuntimeError(f"{thread}: {why}"))


def _of_ptx(mode: ShuffleMode, lane: int, b: int, c: int) -> tuple[int, bool]:
    """The description of shfl in the PTX manual, line by line."""
    bval, cval, mask = b & 31, c & 31, c >> 8 & 31
    max_lane = (lane & mask) | (cval & ~mask)
    min_lane = lane & mask
    match mode:
        case ShuffleMode.UP:
            j = lane - bval
            return j, j >= max_lane
        case ShuffleMode.DOWN:
            j = lane + bval
        case ShuffleMode.BFLY:
            j = lane ^ bval
        case ShuffleMode.IDX:
            j = min_lane | (bval & ~mask)
    return j, j <= max_lane


@pytest.mark.parametrize("mode", ShuffleMode)
def test_a_shuffle_reads_the_lane_that_ptx_says(mode):
    for c in (0x1F, 0x0000, 0x181F, 0x1C03, 0x1800, 0x0F1F, 0x1F1F, 0xE3FF):
        for b in (0, 1, 2, 5, 16, 31, 32, 0x25):
            for lane in range(WARP_THREADS):
                assert shuffle_source(mode, lane, b, c) == _of_ptx(mode, lane, b, c)


@pytest.mark.parametrize(
    ("mode", "lane", "b", "c", "expected"),
    [
        # segments of eight; this is the first lane of one
        (ShuffleMode.UP, 8, 1, 0x1800, (7, False)),
        (ShuffleMode.UP, 9, 1, 0x1800, (8, True)),
        (ShuffleMode.DOWN, 30, 1, 31, (31, True)),
        (ShuffleMode.DOWN, 31, 1, 31, (32, False)),
        (ShuffleMode.DOWN, 3, 2, 0x1C03, (5, False)),
        (ShuffleMode.BFLY, 6, 3, 31, (5, True)),
        (ShuffleMode.BFLY, 6, 3, 4, (5, False)),
        (ShuffleMode.IDX, 13, 2, 0x181F, (10, True)),
        (ShuffleMode.IDX, 13, 3, 0x1C01, (15, False)),
    ],
)
def test_lanes_that_shuffles_read(mode, lane, b, c, expected):
    assert shuffle_source(mode, lane, b, c) == expected
