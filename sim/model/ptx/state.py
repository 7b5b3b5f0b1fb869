"""A thread with its frames, and who is around it: its group of 32 neighbours, its CTA with the barriers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from rtl.params import WARP_THREADS
from sim.toolchain.ptx.module import Function, Instruction

from .launch import PtxLaunch
from .slots import Slots

__all__ = ["CALLED", "ENDED", "WAITING", "Arrival", "Code", "Cta", "Frame", "Give", "Group", "Meeting", "Operation",
           "PtxFaultError", "Take", "Thread", "TrappedError"]

ENDED, WAITING, CALLED = -1, -2, -3
"""What an operation returns instead of an index: the thread has ended, waits for others, or is in another frame."""
_LOCAL_ALIGNMENT = 16


class PtxFaultError(Exception):
    """What a thread can't do."""


class TrappedError(Exception):
    """The thread has reached a trap."""


@dataclass(slots=True)
class Frame:
    """A function being executed.

    ``values`` are its registers and the constants of its code. ``parameters`` are its variables in param space,
    ``base`` is where its variables in local memory begin. ``index`` is the next operation. ``results`` takes the
    results to the caller; an entry has neither. ``depth`` counts calls.
    """

    code: Code
    values: list[int]
    parameters: list[bytearray]
    base: int
    index: int = 0
    results: Callable[[Frame, Frame], None] | None = None
    caller: Frame | None = None
    depth: int = 0


Operation = Callable[["Thread", list[int]], int | None]
"""Executes one instruction with its frame's values; returns the index of the next one, or ENDED, WAITING, CALLED, or
None: the one behind it.
"""
Give = Callable[[Frame], bytes]
"""Reads an argument or a result of a frame, as bytes: what it is declared as may differ on both sides."""
Take = Callable[[Frame, bytes], None]
"""Writes a parameter or a result of a frame."""
Meeting = Callable[[list["Thread"]], None]
"""What neighbours do once they are all there."""


@dataclass
class Code:
    """A function that can be executed. ``number`` is its position in the text, ``local`` its bytes of local memory.

    ``takes`` put arguments into a frame, ``gives`` read results from one.
    """

    function: Function
    number: int
    slots: Slots
    local: int
    takes: list[Take]
    gives: list[Give]
    operations: list[Operation] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)

    def frame(self, top: int, caller: Frame | None = None) -> Frame:
        """A frame, its variables in local memory from ``top`` on."""
        base = -(-top // _LOCAL_ALIGNMENT) * _LOCAL_ALIGNMENT
        return Frame(self, self.slots.initial.copy(), [bytearray(size) for size in self.slots.parameter_sizes], base,
                     caller=caller, depth=caller.depth + 1 if caller is not None else 0)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A wait at a barrier: for how many groups (None: all that live); ``finish`` takes the votes of all."""

    barrier: int
    groups: int | None
    vote: int = 0
    finish: Callable[[list[int]], None] | None = None


class Thread:
    """One thread. ``top`` is the first free byte of its local memory."""

    __slots__ = ("arrival", "carry", "cta", "executed", "frame", "group", "lane", "local", "meeting", "number",
                 "position", "top")

    def __init__(self, cta: Cta, number: int, frame: Frame) -> None:
        x, y, _ = cta.launch.block
        self.cta = cta
        self.number = number
        self.position = (number % x, number // x % y, number // (x * y))
        self.lane = number % WARP_THREADS
        self.frame = frame
        self.local = bytearray([cta.launch.undefined & 0xFF]) * cta.launch.local
        self.top = frame.base + frame.code.local
        self.carry = 0
        self.executed = 0
        self.meeting: Meeting | None = None
        self.arrival: Arrival | None = None
        self.group: Group

    @property
    def name(self) -> str:
        """The thread and its CTA, as a message names them."""
        return f"thread {self.position} of CTA {self.cta.position}"

    @property
    def place(self) -> tuple[int, int]:
        """Where it stands in the program's text."""
        return self.frame.code.number, self.frame.index


class Group:
    """Up to 32 neighbours: ``living`` of them have not ended, ``running`` neither ended nor wait."""

    def __init__(self, number: int, threads: list[Thread]) -> None:
        self.number = number
        self.threads = threads
        self.living = self.running = len(threads)
        for thread in threads:
            thread.group = self


@dataclass
class _Barrier:
    """Groups that wait at a barrier, and how many went on that had only to arrive."""

    waiting: set[int] = field(default_factory=set)
    passed: int = 0
    groups: int | None = None


class Cta:
    """A CTA. ``runnable`` is the run's queue of threads."""

    def __init__(self, launch: PtxLaunch, position: tuple[int, int, int], frames: Iterable[Frame],
                 runnable: deque[Thread]) -> None:
        self.launch = launch
        self.position = position
        self.shared = bytearray([launch.undefined & 0xFF]) * launch.shared
        self.runnable = runnable
        self.barriers: dict[int, _Barrier] = {}
        threads = [Thread(self, number, frame) for number, frame in enumerate(frames)]
        self.groups = [Group(first // WARP_THREADS, threads[first:first + WARP_THREADS])
                       for first in range(0, len(threads), WARP_THREADS)]
        runnable.extend(threads)

    def stopped(self, thread: Thread, why: int) -> None:
        """A thread waits or has ended; once none of its group runs, those that wait for neighbours meet.

        Of several meetings the one that stands first in the text is held. Where there is none, the group has
        arrived at its barriers.
        """
        group = thread.group
        group.running -= 1
        group.living -= why == ENDED
        if group.running:
            return
        guests = [other for other in group.threads if other.meeting is not None]
        if guests:
            first = min(guests, key=lambda other: other.place)
            members = [other for other in guests if other.place == first.place]
            assert first.meeting is not None
            first.meeting(members)
            self._resume(members)
            return
        for other in group.threads:
            if other.arrival is not None:
                barrier = self.barriers.setdefault(other.arrival.barrier, _Barrier())
                barrier.waiting.add(group.number)
                barrier.groups = other.arrival.groups
        self._release()

    def arrive(self, number: int, groups: int | None) -> None:
        """Counts a group that arrives at a barrier and does not wait there."""
        barrier = self.barriers.setdefault(number, _Barrier())
        barrier.passed += 1
        barrier.groups = groups
        self._release()

    def _release(self) -> None:
        """Lets everybody go who waits at a barrier that has who it waits for. Groups that have ended are not missed."""
        living = sum(1 for group in self.groups if group.living)
        for number, barrier in list(self.barriers.items()):
            if len(barrier.waiting) + barrier.passed < (living if barrier.groups is None else barrier.groups):
                continue
            del self.barriers[number]
            waiting = [(thread, thread.arrival) for at in barrier.waiting for thread in self.groups[at].threads
                       if thread.arrival is not None and thread.arrival.barrier == number]
            votes = [arrival.vote for _, arrival in waiting if arrival.finish is not None]
            for _, arrival in waiting:
                if arrival.finish is not None:
                    arrival.finish(votes)
            self._resume([thread for thread, _ in waiting])

    def _resume(self, threads: Iterable[Thread]) -> None:
        """Lets waiting threads go on behind the instruction that they waited at."""
        for thread in threads:
            thread.meeting = thread.arrival = None
            thread.frame.index += 1
            thread.group.running += 1
            self.runnable.append(thread)
