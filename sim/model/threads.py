"""Threads of a grid that run one at a time, for the thread model and the PTX interpreter.

Threads are scheduled round robin, each for a time slice of a fixed number of instructions, so that
a spinning thread cannot starve the one that it waits for. Groups of 32 consecutive threads matter
only where an instruction needs neighbours: once no thread of the group runs, the threads that wait
at the lowest position in the program execute their vote or shuffle together (a *meeting*). If none
waits for neighbours but some wait at barriers of the CTA, the group has arrived there: barriers
count groups, as the hardware counts warps. Barriers do not wait for a group whose threads have all
ended.

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
"""The default length of a time slice, in instructions."""
ENDED, WAITING = -1, -2
"""Return values of an operation instead of the next index: the thread has ended, or waits for
others.
"""

T = TypeVar("T", bound="GridThread")
Position = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class BarrierWait:
    """A thread's wait at a barrier of its CTA.

    Attributes:
        groups: The number of groups that the barrier waits for; None: all live groups.
        finish: Receives the votes of all waiting threads once all have arrived; None without a
            vote.
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
        """The position of the thread and its CTA, for messages."""
        return f"thread {self.position} of CTA {self.cta.position}"

    @property
    @abstractmethod
    def program_point(self) -> Any:
        """The thread's position in the program: an address, or another comparable value."""

    @abstractmethod
    def advance(self) -> None:
        """Advances the thread past the instruction at which it waited."""


class Group(Generic[T]):
    """Up to 32 neighbouring threads.

    Attributes:
        living: Threads that have not ended.
        running: Threads that have neither ended nor wait.
    """

    def __init__(self, number: int, threads: list[T]) -> None:
        self.number = number
        self.threads = threads
        self.living = self.running = len(threads)
        for thread in threads:
            thread.group = self


@dataclass
class _Barrier:
    """The state of a barrier.

    Attributes:
        waiting: Numbers of the groups that wait, in the order of arrival.
        passed: Number of groups that arrived without waiting.
        groups: As in BarrierWait.
    """

    waiting: list[int] = field(default_factory=list)
    passed: int = 0
    groups: int | None = None


class GridCta(Generic[T]):
    """A CTA's groups and barriers. Threads that become runnable are appended to ``runnable``, the
    run's queue.
    """

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
        """Records that a thread waits or has ended; its group may then continue without it."""
        group = thread.group
        group.running -= 1
        group.living -= reason == ENDED
        if not group.running:
            self.settle(group)

    def settle(self, group: Group[T]) -> None:
        """Advances a group of which no thread runs: executes the meeting that is first in the
        program, else its barriers.
        """
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
        """Counts a group that arrives at a barrier without waiting; ``groups`` as in BarrierWait."""
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
    """Iterates over the positions of a grid's CTAs, x first."""
    width, height, depth = grid
    for z, y, x in product(range(depth), range(height), range(width)):
        yield x, y, z


def take_turns(
    runnable: deque[T],
    run_turn: Callable[[T], int],
    limit: int,
    failure: Callable[[T, str], Exception],
) -> int:
    """Runs threads in time slices until none can run; returns the number of instructions executed.

    Args:
        runnable: Queue of threads that can run. ``run_turn`` appends its thread again unless that waits
            or has ended.
        run_turn: Runs a thread for a time slice; returns the number of instructions that it executed.
        limit: The run fails when more instructions than this have been executed.
        failure: Makes the exception for a thread that cannot continue, from the thread and the
            reason.
    """
    executed = 0
    while runnable:
        thread = runnable.popleft()
        executed += run_turn(thread)
        if executed > limit:
            raise failure(thread, f"still running after {limit} instructions")
    return executed


def check_nobody_waits(ctas: Iterable[GridCta[T]], failure: Callable[[T, str], Exception]) -> None:
    """Raises ``failure`` for a thread that still waits at a barrier when no thread can run."""
    for cta in ctas:
        for group in cta.groups:
            for thread in group.threads:
                if thread.arrival is not None:
                    raise failure(
                        thread, "waits at a barrier that the rest of its CTA will not reach"
                    )


def shuffle_source(mode: ShuffleMode, lane: int, b: int, c: int) -> tuple[int, bool]:
    """Returns the lane that a lane reads in a shuffle, and whether it is in range, as PTX defines
    shfl.

    ``b`` is the distance or the lane, ``c`` has the mask of segments in bits 12:8 and the clamp in
    bits 4:0.
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
