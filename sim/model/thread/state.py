"""A thread and what is around it."""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum, auto

from rtl.isa.errors import WarpError
from rtl.isa.syntax import PT, RZ
from rtl.params import WARP_THREADS
from sim.launch import Launch

__all__ = ["DISCARD", "DISCARD_PREDICATE", "ENDED", "FIRST_VALUE", "WAITING", "Arrival", "Barrier", "Cta", "FaultError",
           "Group", "Operation", "Place", "Thread", "TrappedError"]

DISCARD = RZ + 1
"""Position in a thread's values where results for RZ go."""
FIRST_VALUE = DISCARD + 1
"""Position of the program's first immediate or constant in a thread's values."""
DISCARD_PREDICATE = PT + 1
"""Position where results for PT go."""
ENDED, WAITING = -1, -2
"""What an operation returns instead of an index when the thread has ended, or waits for others."""


class FaultError(Exception):
    """An instruction that a thread can't execute.

    ``error`` is the warp error that the machine reports for it, None where the machine has none.
    """

    def __init__(self, error: WarpError | None, cause: str) -> None:
        super().__init__(cause if error is None else f"{cause} ({error.name})")
        self.error = error


class TrappedError(Exception):
    """A BPT.TRAP was reached; ``reason`` is 1 to 7."""

    def __init__(self, reason: int) -> None:
        super().__init__(f"BPT.TRAP {reason}")
        self.reason = reason


class Place(Enum):
    """What a thread's stack entry is for: which instruction comes back to it."""

    SYNC = auto()
    BREAK = auto()
    CONTINUE = auto()
    RETURN = auto()
    EXIT = auto()
    LONGJMP = auto()


@dataclass(frozen=True, slots=True)
class Arrival:
    """A thread's wait at a CTA barrier.

    ``groups`` is how many groups the barrier waits for, None for all that live. ``combine`` makes the
    barrier's result of the threads' ``vote``s; None for BAR.SYNC.
    """

    barrier: int
    groups: int | None
    next: int
    combine: Callable[[list[int]], int] | None = None
    vote: int = 0


class Thread:
    """One thread.

    ``values`` are its registers, then RZ, DISCARD and the program's constants. ``stack`` holds (place,
    index to go to, whether it counts as an API call), innermost last. ``index`` counts instruction
    words from the program base.
    """

    __slots__ = ("arrival", "barrier_result", "clock", "condition", "cta", "group", "index", "kill_branches", "lane",
                 "local", "meeting", "memory", "number", "pending_trap", "position", "predicates", "stack",
                 "traps_masked", "values")

    def __init__(self, cta: "Cta", number: int, constants: list[int]) -> None:
        launch = cta.launch
        x, y, _ = launch.block
        self.cta = cta
        self.number = number
        self.position = (number % x, number // x % y, number // (x * y))
        self.lane = number % WARP_THREADS
        self.memory = launch.memory
        self.values = [0] * FIRST_VALUE + constants
        self.predicates = [0] * PT + [1, 0]
        self.condition = 0
        self.local = bytearray()
        self.stack: list[tuple[Place, int, bool]] = []
        self.index = launch.entry >> 3
        self.clock = 0
        self.barrier_result = 0
        self.kill_branches = False
        self.traps_masked = False
        self.pending_trap = 0
        self.meeting: Callable[[list[Thread]], None] | None = None
        self.arrival: Arrival | None = None
        self.group: Group

    @property
    def name(self) -> str:
        """The thread and its CTA, as a message names them."""
        return f"thread {self.position} of CTA {self.cta.position}"


Operation = Callable[[Thread], int | None]
"""Executes one instruction; returns the index of the thread's next one, ENDED, WAITING, or None: the one behind it."""


class Group:
    """The threads that cross-lane instructions join: 32 consecutive ones of a CTA.

    ``living`` of them have not ended, ``running`` neither ended nor wait.
    """

    def __init__(self, cta: "Cta", number: int, threads: list[Thread]) -> None:
        self.cta = cta
        self.number = number
        self.threads = threads
        self.living = len(threads)
        self.running = len(threads)
        for thread in threads:
            thread.group = self


class Barrier:
    """One of a CTA's barriers: ``waiting`` groups that stand at it, ``passed`` arrivals by BAR.ARV that went on."""

    def __init__(self) -> None:
        self.waiting: dict[int, Group] = {}
        self.passed = 0
        self.groups: int | None = None


class Cta:
    """A CTA: its shared memory, groups and barriers. ``runnable`` is the run's queue of threads."""

    def __init__(self, launch: Launch, position: tuple[int, int, int], constants: list[int],
                 runnable: deque[Thread]) -> None:
        self.launch = launch
        self.position = position
        self.shared = bytearray(launch.shared)
        self.runnable = runnable
        self.barriers: dict[int, Barrier] = {}
        threads = [Thread(self, number, constants) for number in range(launch.threads)]
        self.groups = [Group(self, first // WARP_THREADS, threads[first:first + WARP_THREADS])
                       for first in range(0, len(threads), WARP_THREADS)]
        runnable.extend(threads)

    def resume(self, threads: Iterable[Thread]) -> None:
        """Lets waiting threads run on from their index."""
        for thread in threads:
            thread.meeting = thread.arrival = None
            thread.group.running += 1
            self.runnable.append(thread)

    def settle(self, group: Group) -> None:
        """Moves on a group of which no thread runs: the meeting at the lowest pc, else its barriers."""
        meeting = [thread for thread in group.threads if thread.meeting is not None]
        if meeting:
            lowest = min(thread.index for thread in meeting)
            members = [thread for thread in meeting if thread.index == lowest]
            meet = members[0].meeting
            assert meet is not None
            meet(members)
            self.resume(members)
        for thread in group.threads:
            if thread.arrival is not None and not meeting:
                barrier = self.barriers.setdefault(thread.arrival.barrier, Barrier())
                barrier.waiting[group.number] = group
                barrier.groups = thread.arrival.groups
        for number in list(self.barriers):
            self.complete(number)

    def pass_by(self, number: int, groups: int | None) -> None:
        """Counts a group that arrives at a barrier and does not wait there."""
        barrier = self.barriers.setdefault(number, Barrier())
        barrier.passed += 1
        barrier.groups = groups
        self.complete(number)

    def complete(self, number: int) -> None:
        """Releases who waits at a barrier, if all have come that it waits for."""
        barrier = self.barriers[number]
        arrived = len(barrier.waiting) + barrier.passed
        expected = sum(1 for group in self.groups if group.living) if barrier.groups is None else barrier.groups
        if not arrived or arrived < expected:
            return
        del self.barriers[number]
        waiting = [(thread, thread.arrival) for group in barrier.waiting.values() for thread in group.threads
                   if thread.arrival is not None and thread.arrival.barrier == number]
        votes = [arrival.vote for _, arrival in waiting if arrival.combine is not None]
        for thread, arrival in waiting:
            if arrival.combine is not None:
                thread.barrier_result = arrival.combine(votes)
            thread.index = arrival.next
        self.resume(thread for thread, _ in waiting)
