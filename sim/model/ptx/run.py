"""Runs a PTX program: threads take turns, each for a fixed number of instructions.

So one that spins can't starve the one that it waits for. For a program without races the memory that is left is that
of compiled code.
"""

from collections import deque
from dataclasses import dataclass
from itertools import product

from .launch import PtxLaunch
from .program import Program
from .state import CALLED, Cta, PtxFaultError, Thread, TrappedError

__all__ = ["PtxResult", "PtxRunError", "run"]

TURN = 256
"""Instructions that a thread executes before it is another's turn, unless the caller says otherwise."""
MAX_INSTRUCTIONS = 50_000_000
"""Where a run is taken to be a runaway, unless the caller says otherwise."""


class PtxRunError(Exception):
    """A run that can't go on: which thread, at which line and column of the text, and why."""

    def __init__(self, thread: Thread, cause: str) -> None:
        frame = thread.frame
        instruction = frame.code.instructions[frame.index]
        super().__init__(f"{thread.name} at {instruction.line}:{instruction.column} {instruction.opcode}: {cause}")
        self.line = instruction.line


@dataclass(frozen=True)
class PtxResult:
    """A run's end; the memory it left is the launch's. ``trap``: the line of the trap that ended it."""

    instructions: int
    trap: int | None = None


class _Run:
    def __init__(self, launch: PtxLaunch, limit: int, turn: int, backwards: bool) -> None:
        self.launch = launch
        self.limit = limit
        self.length = turn
        self.runnable: deque[Thread] = deque()
        self.ctas: list[Cta] = []
        program = Program(launch)
        entry = program.code(launch.entry.name)
        width, height, depth = launch.grid
        for z, y, x in product(range(depth), range(height), range(width)):
            frames = [entry.frame(launch.local_offsets[1]) for _ in range(launch.threads)]
            for frame in frames:
                for take, content in zip(entry.takes, launch.parameters, strict=True):
                    take(frame, content)
            self.ctas.append(Cta(launch, (x, y, z), frames, self.runnable))
        if backwards:
            self.runnable.reverse()

    def turn(self, thread: Thread) -> None:
        """Runs a thread until its turn is over, it waits, or it ends."""
        frame = thread.frame
        operations, values, index = frame.code.operations, frame.values, frame.index
        for _ in range(self.length):
            thread.executed += 1
            frame.index = index
            following = operations[index](thread, values)
            if following is None:
                index += 1
            elif following >= 0:
                index = following
            elif following == CALLED:
                frame = thread.frame
                operations, values, index = frame.code.operations, frame.values, frame.index
            else:
                thread.cta.stopped(thread, following)
                return
        frame.index = index
        self.runnable.append(thread)

    def all_turns(self) -> PtxResult:
        executed = 0
        while self.runnable:
            thread = self.runnable.popleft()
            before = thread.executed
            try:
                self.turn(thread)
            except PtxFaultError as fault:
                raise PtxRunError(thread, str(fault)) from None
            except TrappedError:
                line = thread.frame.code.instructions[thread.frame.index].line
                return PtxResult(executed + thread.executed - before, line)
            executed += thread.executed - before
            if executed > self.limit:
                raise PtxRunError(thread, f"still running after {self.limit} instructions")
        for cta in self.ctas:
            for group in cta.groups:
                for thread in group.threads:
                    if thread.arrival is not None:
                        raise PtxRunError(thread, "waits at a barrier that the rest of its CTA will not reach")
        return PtxResult(executed)


def run(launch: PtxLaunch, *, max_instructions: int = MAX_INSTRUCTIONS, turn: int = TURN,
        backwards: bool = False) -> PtxResult:
    """Runs a launch on its memory, to the end of the last thread or to the first trap.

    Raises PtxRunError when a thread does what it can't, when all that are left wait for each other, or when more than
    ``max_instructions`` have been executed (give or take a turn). Threads have turns of ``turn`` instructions, in their
    order or ``backwards``: a program whose result depends on it has a race.
    """
    return _Run(launch, max_instructions, turn, backwards).all_turns()
