"""Execution state: threads with their call frames, and CTAs with their shared memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from sim.model.threads import GridCta, GridThread
from sim.support.alignment import round_up
from sim.toolchain.ptx.module import PtxFunction, PtxInstruction

from .launch import PtxLaunch
from .slots import Slots

__all__ = [
    "CALLED",
    "CallFrame",
    "ExecutableFunction",
    "Give",
    "Meeting",
    "Operation",
    "PtxCta",
    "PtxFaultError",
    "PtxThread",
    "PtxTrapError",
    "Take",
]

CALLED = -3
"""An operation's return value after a call or return changed the thread's frame.

See ENDED and WAITING of :mod:`sim.model.threads` for the other special values.
"""
_LOCAL_ALIGNMENT = 16


class PtxFaultError(Exception):
    """A fault of a thread; the message says which."""


class PtxTrapError(Exception):
    """A thread executed a trap instruction."""


@dataclass(slots=True)
class CallFrame:
    """The activation of a function.

    Attributes:
        values: The registers of the function and the constants of its code.
        parameters: Its variables in param space.
        base: Offset of its variables in the thread's local memory.
        index: Index of the next operation.
        results: Copies the results to the caller; None for an entry.
        caller: The calling frame; None for an entry.
        depth: Number of callers.
    """

    code: ExecutableFunction
    values: list[int]
    parameters: list[bytearray]
    base: int
    index: int = 0
    results: Callable[[CallFrame, CallFrame], None] | None = None
    caller: CallFrame | None = None
    depth: int = 0


Operation = Callable[["PtxThread", list[int]], int | None]
"""Executes one instruction on its frame's values.

It returns the index of the next operation, None for the following one, or ENDED, WAITING or CALLED.
"""
Give = Callable[[CallFrame], bytes]
"""Reads an argument or a result of a frame, as bytes: both sides may declare it with different
types.
"""
Take = Callable[[CallFrame, bytes], None]
"""Writes a parameter or a result of a frame."""
Meeting = Callable[[list["PtxThread"]], None]
"""Executes a vote or shuffle for all threads that take part."""


@dataclass
class ExecutableFunction:
    """A function in executable form.

    Attributes:
        number: Index of the function in the text.
        local: Size of its local memory in bytes.
        takes: Writers of the parameters to a frame.
        gives: Readers of the results from a frame.
    """

    function: PtxFunction
    number: int
    slots: Slots
    local: int
    takes: list[Take]
    gives: list[Give]
    operations: list[Operation] = field(default_factory=list)
    instructions: list[PtxInstruction] = field(default_factory=list)

    def frame(self, top: int, caller: CallFrame | None = None) -> CallFrame:
        """Returns a new frame whose local variables begin at ``top``, aligned."""
        base = round_up(top, _LOCAL_ALIGNMENT)
        return CallFrame(
            self,
            self.slots.initial.copy(),
            [bytearray(size) for size in self.slots.parameter_sizes],
            base,
            caller=caller,
            depth=caller.depth + 1 if caller is not None else 0,
        )


class PtxThread(GridThread):
    """One thread. ``top`` is the first free byte of its local memory."""

    __slots__ = ("carry", "executed", "frame", "local", "top")

    cta: PtxCta

    def __init__(self, cta: PtxCta, number: int, frame: CallFrame) -> None:
        super().__init__(cta, number, cta.launch.block)
        self.frame = frame
        self.local = bytearray([cta.launch.undefined & 0xFF]) * cta.launch.local
        self.top = frame.base + frame.code.local
        self.carry = 0
        self.executed = 0

    @property
    def program_point(self) -> tuple[int, int]:
        """The position in the program's text: the function's number and the operation's index."""
        return self.frame.code.number, self.frame.index

    def advance(self) -> None:
        """Advances the thread past the instruction at which it waited."""
        self.frame.index += 1


class PtxCta(GridCta[PtxThread]):
    """A CTA with its shared memory. ``runnable`` is the run's queue of threads."""

    def __init__(
        self,
        launch: PtxLaunch,
        position: tuple[int, int, int],
        frames: Iterable[CallFrame],
        runnable: deque[PtxThread],
    ) -> None:
        self.launch = launch
        self.shared = bytearray([launch.undefined & 0xFF]) * launch.shared
        super().__init__(
            position,
            [PtxThread(self, number, frame) for number, frame in enumerate(frames)],
            runnable,
        )
