"""The state of a thread and its CTA, and the exceptions that instructions raise."""

from collections import deque
from collections.abc import Callable
from enum import Enum, auto

from rtl.isa.errors import WarpError
from rtl.isa.syntax import PT, RZ
from sim.launch import Launch
from sim.model.threads import GridCta, GridThread

__all__ = [
    "DISCARD",
    "DISCARD_PREDICATE",
    "FIRST_VALUE",
    "EntryKind",
    "FaultError",
    "Operation",
    "Thread",
    "ThreadCta",
    "TrappedError",
]

DISCARD = RZ + 1
"""Position in a thread's values where results to RZ are written."""
FIRST_VALUE = DISCARD + 1
"""Position of the program's first immediate or constant in a thread's values."""
DISCARD_PREDICATE = PT + 1
"""Position in a thread's predicates where results to PT are written."""


class FaultError(Exception):
    """An instruction that a thread cannot execute.

    Attributes:
        error: The warp error that the hardware reports, None where it has none.
    """

    def __init__(self, error: WarpError | None, cause: str) -> None:
        super().__init__(cause if error is None else f"{cause} ({error.name})")
        self.error = error


class TrappedError(Exception):
    """A thread executed BPT.TRAP with ``reason`` 1 to 7."""

    def __init__(self, reason: int) -> None:
        super().__init__(f"BPT.TRAP {reason}")
        self.reason = reason


class EntryKind(Enum):
    """The kind of a stack entry: the instruction that returns to it."""

    SYNC = auto()
    BREAK = auto()
    CONTINUE = auto()
    RETURN = auto()
    EXIT = auto()
    LONGJMP = auto()


class Thread(GridThread):
    """One thread.

    Attributes:
        values: The registers, then RZ, DISCARD and the program's constants.
        stack: Entries (kind, target index, whether it counts as an API call), innermost last.
        index: Index of the current instruction word, counted from the program base.
    """

    __slots__ = (
        "barrier_result",
        "clock",
        "condition",
        "index",
        "kill_branches",
        "local",
        "memory",
        "pending_trap",
        "predicates",
        "stack",
        "traps_masked",
        "values",
    )

    cta: "ThreadCta"

    def __init__(self, cta: "ThreadCta", number: int, constants: list[int]) -> None:
        super().__init__(cta, number, cta.launch.block)
        self.memory = cta.launch.memory
        self.values = [0] * FIRST_VALUE + constants
        self.predicates = [0] * PT + [1, 0]
        self.condition = 0
        self.local = bytearray()
        self.stack: list[tuple[EntryKind, int, bool]] = []
        self.index = cta.launch.entry >> 3
        self.clock = 0
        self.barrier_result = 0
        self.kill_branches = False
        self.traps_masked = False
        self.pending_trap = 0

    @property
    def program_point(self) -> int:
        """The index of the thread's instruction word."""
        return self.index

    def advance(self) -> None:
        """Advances the thread to the next word. The index of a control word denotes the instruction
        after it.
        """
        self.index += 1


Operation = Callable[[Thread], int | None]
"""Executes one instruction.

It returns the index of the thread's next instruction, None for the following one, or ENDED or
WAITING of :mod:`sim.model.threads`.
"""


class ThreadCta(GridCta[Thread]):
    """A CTA with its shared memory. ``runnable`` is the run's queue of threads."""

    def __init__(
        self,
        launch: Launch,
        position: tuple[int, int, int],
        constants: list[int],
        runnable: deque[Thread],
    ) -> None:
        self.launch = launch
        self.shared = bytearray(launch.shared)
        super().__init__(
            position,
            [Thread(self, number, constants) for number in range(launch.threads)],
            runnable,
        )
