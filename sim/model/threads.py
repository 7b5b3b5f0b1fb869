"""Threads of a grid that run one at a time, as the thread model and the PTX interpreter have them.

Threads are scheduled round robin, each for a fixed number of instructions, so that a thread that
spins cannot starve the one that it waits for. A group of 32 consecutive threads exists only where
an instruction needs neighbours: once no thread of the group runs, those that wait at the first
place of the program meet there, and a vote or a shuffle happens among them. If none waits for
neighbours but some at barriers of the CTA, the group has arrived there: barriers count groups, as
the machine counts warps. A group whose threads have all ended is not waited for.

This module does not execute instructions, except to find the lane that a shuffle reads.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Generic, TypeVar

from rtl.isa.kinds import ShuffleMode
from rtl.params import WARP_THREADS

__all__ = [
    "ENDED",
    "TURN",
    "WAITING",
    "BarrierWait",
    "GridCta",
    "GridThread",
    "Group",
    "check_nobody_waits",
    "cta_positions",
    "shuffle_source",
    "take_turns",
]

TURN = 256
"""Instructions that a thread executes before the next thread, by default."""
ENDED, WAITING = -1, -2
"""What an instruction returns instead of the index of the next one: the thread has ended, or waits for others."""

T = TypeVar("T", bound="GridThread")
Position = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class BarrierWait:
    """A thread's wait at a barrier of its CTA.

    ``groups`` is how many groups the barrier waits for, None for all that live. ``finish`` gets the
    votes of all threads that wait there, once all have arrived; None where there is no vote.
    """

    barrier: int
    groups: int | None
    vote: int = 0
    finish: Callable[[list[int]], None] | None = None


class GridThread(ABC):
    """A thread of a CTA whose block has the size ``block``."""

    __slots__ = ("arrival", "cta", "group", "lane", "meeting", "number", "position")

    def __init__(self, cta: Any, number: int, block: Position) -> None:
        x, y, _ = block
        self.cta = cta
        self.number = number
        self.position: Position = (number % x, number // x % y, number // (x * y))
        self.lane = number % WARP_THREADS
        self.meeting: Callable[[list[Any]], None] | None = None
        self.arrival: BarrierWait | None = None
        self.group: Group[Any]

    @property
    def name(self) -> str:
        """The thread and its CTA, as a message names them."""
        return f"thread {self.position} of CTA {self.cta.position}"

    @property
    @abstractmethod
    def program_point(self) -> Any:
        """Its position in the program: an address, or another comparable value."""

    @abstractmethod
    def advance(self) -> None:
        """Advances it past the instruction at which it has waited."""


class Group(Generic[T]):
    """Up to 32 neighbours: ``living`` of them have not ended, ``running`` neither ended nor wait."""

    def __init__(self, number: int, threads: list[T]) -> None:
        self.number = number
        self.threads = threads
        self.living = self.running = len(threads)
        for thread in threads:
            thread.group = self


@dataclass
class _Barrier:
    """``waiting``: numbers of the groups that wait, in the order of arrival; ``passed``: groups
    that arrived and did not wait; ``groups``: as in BarrierWait."""

    waiting: list[int] = field(default_factory=list)
    passed: int = 0
    groups: int | None = None


class GridCta(Generic[T]):
    """A CTA's groups and barriers. ``runnable`` is the run's queue of threads, which its threads join."""

    def __init__(self, position: Position, threads: list[T], runnable: deque[T]) -> None:
        self.position = position
        self.runnable = runnable
        self.groups = [
            Group(first // WARP_THREADS, threads[first : first + WARP_THREADS])
            for first in range(0, len(threads), WARP_THREADS)
        ]
        self._barriers: dict[int, _Barrier] = {}
        runnable.extend(threads)

    def stopped(self, thread: T, reason: int) -> None:
        """A thread waits or has ended: its group may continue without it."""
        group = thread.group
        group.running -= 1
        group.living -= reason == ENDED
        if not group.running:
            self.settle(group)

    def settle(self, group: Group[T]) -> None:
        """Advances a group of which no thread runs: the meeting that is first in the program, else
        its barriers."""
        meeting = [thread for thread in group.threads if thread.meeting is not None]
        if meeting:
            first = min(meeting, key=lambda thread: thread.program_point)
            members = [thread for thread in meeting if thread.program_point == first.program_point]
            assert first.meeting is not None
            first.meeting(members)
            self._resume(members)
            return
        for thread in group.threads:
            if thread.arrival is not None:
                barrier = self._barriers.setdefault(thread.arrival.barrier, _Barrier())
                if group.number not in barrier.waiting:
                    barrier.waiting.append(group.number)
                barrier.groups = thread.arrival.groups
        self._release()

    def arrive(self, number: int, groups: int | None) -> None:
        """Counts a group that arrives at a barrier and does not wait there; ``groups`` as in BarrierWait."""
        barrier = self._barriers.setdefault(number, _Barrier())
        barrier.passed += 1
        barrier.groups = groups
        self._release()

    def _release(self) -> None:
        """Releases barriers at which all expected groups have arrived."""
        living = sum(1 for group in self.groups if group.living)
        for number, barrier in list(self._barriers.items()):
            if len(barrier.waiting) + barrier.passed < (
                living if barrier.groups is None else barrier.groups
            ):
                continue
            del self._barriers[number]
            waiting = [
                (thread, thread.arrival)
                for at in barrier.waiting
                for thread in self.groups[at].threads
                if thread.arrival is not None and thread.arrival.barrier == number
            ]
            votes = [arrival.vote for _, arrival in waiting if arrival.finish is not None]
            for _, arrival in waiting:
                if arrival.finish is not None:
                    arrival.finish(votes)
            self._resume(thread for thread, _ in waiting)

    def _resume(self, threads: Iterable[T]) -> None:
        """Resumes waiting threads."""
        for thread in threads:
            thread.meeting = thread.arrival = None
            thread.advance()
            thread.group.running += 1
            self.runnable.append(thread)


def cta_positions(grid: Position) -> Iterator[Position]:
    """The positions of a grid's CTAs, x first."""
    width, height, depth = grid
    for z, y, x in product(range(depth), range(height), range(width)):
        yield x, y, z


def take_turns(
    runnable: deque[T],
    run_turn: Callable[[T], int],
    limit: int,
    failure: Callable[[T, str], Exception],
) -> int:
    """Gives threads their turns until none can run; returns the instructions that were executed.

    Parameters:
        runnable: Who can run. A turn puts its thread back unless that waits or has ended.
        run_turn: Runs a thread for a turn; returns the instructions that it executed.
        limit: More instructions are a runaway.
        failure: The exception for a thread that cannot go on, and why.
    """
    executed = 0
    while runnable:
        thread = runnable.popleft()
        executed += run_turn(thread)
        if executed > limit:
            raise failure(thread, f"still running after {limit} instructions")
    return executed


def check_nobody_waits(ctas: Iterable[GridCta[T]], failure: Callable[[T, str], Exception]) -> None:
    """After the last turn: raises ``failure`` for a thread that still waits at a barrier."""
    for cta in ctas:
        for group in cta.groups:
            for thread in group.threads:
                if thread.arrival is not None:
                    raise failure(
                        thread, "waits at a barrier that the rest of its CTA will not reach"
                    )


def shuffle_source(mode: ShuffleMode, lane: int, b: int, c: int) -> tuple[int, bool]:
    """The lane that a lane reads in a shuffle, and whether it is in range; as PTX defines shfl.

    ``b`` is the distance or the lane, ``c`` has the mask of segments in bits 12:8 and the clamp in bits 4:0.
    """
    segment, clamp, step = c >> 8 & 31, c & 31, b & 31
    last = lane & segment | clamp & ~segment
    match mode:
        case ShuffleMode.UP:
            source = lane - step
            return source, source >= last
        case ShuffleMode.DOWN:
            source = lane + step
        case ShuffleMode.BFLY:
            source = lane ^ step
        case ShuffleMode.IDX:
            source = lane & segment | step & ~segment
    return source, source <= last
