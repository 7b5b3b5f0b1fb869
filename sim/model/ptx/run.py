"""Runs the threads of a PTX program round robin; see :mod:`sim.model.threads`.

For a program without races the final memory equals that of compiled code.
"""

from collections import deque
from dataclasses import dataclass

from sim.model.threads import TURN, check_nobody_waits, cta_positions, take_turns

from .launch import PtxLaunch
from .program import PtxFunctions
from .state import CALLED, PtxCta, PtxFaultError, PtxThread, PtxTrapError

__all__ = ["PtxResult", "PtxRunError", "run"]

MAX_INSTRUCTIONS = 50_000_000
"""The default limit of instructions of a run."""


class PtxRunError(Exception):
    """A run that cannot continue, with the thread, the line and column in the text, and the reason."""

    def __init__(self, thread: PtxThread, cause: str) -> None:
        frame = thread.frame
        instruction = frame.code.instructions[frame.index]
        super().__init__(
            f"{thread.name} at {instruction.line}:{instruction.column} {instruction.opcode}: {cause}"
        )
        self.line = instruction.line


@dataclass(frozen=True)
class PtxResult:
    """The end of a run; the launch's memory holds its results.

    Attributes:
        trap: Line of the trap instruction that ended the run, None without one.
    """

    instructions: int
    trap: int | None = None


class _PtxRun:
    def __init__(self, launch: PtxLaunch, limit: int, turn: int, backwards: bool) -> None:
        self.launch = launch
        self.limit = limit
        self.length = turn
        self.runnable: deque[PtxThread] = deque()
        self.ctas: list[PtxCta] = []
        self.trap: int | None = None
        program = PtxFunctions(launch)
        entry = program.code(launch.entry.name)
        for position in cta_positions(launch.grid):
            frames = [entry.frame(launch.local_offsets[1]) for _ in range(launch.threads)]
            for frame in frames:
                for take, content in zip(entry.takes, launch.parameters, strict=True):
                    take(frame, content)
            self.ctas.append(PtxCta(launch, position, frames, self.runnable))
        if backwards:
            self.runnable.reverse()

    def turn(self, thread: PtxThread) -> int:
        """Runs a thread until its time slice is over, it waits, or it ends; returns the number of
        instructions executed.
        """
        before = thread.executed
        try:
            self.execute(thread)
        except PtxFaultError as fault:
            raise PtxRunError(thread, str(fault)) from None
        except PtxTrapError:
            self.trap = thread.frame.code.instructions[thread.frame.index].line
            self.runnable.clear()
        return thread.executed - before

    def execute(self, thread: PtxThread) -> None:
        """Executes the instructions of a time slice."""
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
        """Runs every thread to its end, or the grid to the first trap."""
        executed = take_turns(self.runnable, self.turn, self.limit, PtxRunError)
        if self.trap is None:
            check_nobody_waits(self.ctas, PtxRunError)
        return PtxResult(executed, self.trap)


def run(
    launch: PtxLaunch,
    *,
    max_instructions: int = MAX_INSTRUCTIONS,
    turn_length: int = TURN,
    backwards: bool = False,
) -> PtxResult:
    """Runs a launch on its memory, to the end of the last thread or to the first trap.

    Args:
        launch: The grid. Its memory is changed.
        max_instructions: Limit of executed instructions, checked after each time slice.
        turn: Length of a time slice, in instructions.
        backwards: Whether the threads are scheduled in reverse order. A program whose result
            depends on ``turn`` or ``backwards`` has a race.

    Raises:
        PtxRunError: A thread faults, all remaining threads wait for each other, or the limit is
            exceeded.
    """
    return _PtxRun(launch, max_instructions, turn_length, backwards).all_turns()
