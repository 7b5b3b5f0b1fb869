"""A thread with its frames, and its CTA with the shared memory."""

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
"""What an operation returns instead of an index when the thread is in another frame; beside ENDED and WAITING of
:mod:`sim.model.threads`."""
_LOCAL_ALIGNMENT = 16


class PtxFaultError(Exception):
    """What a thread can't do."""


class PtxTrapError(Exception):
    """The thread has reached a trap."""


@dataclass(slots=True)
class CallFrame:
    """A function being executed.

    ``values`` are its registers and the constants of its code. ``parameters`` are its variables in param space,
    ``base`` is where its variables in local memory begin. ``index`` is the next operation. ``results`` takes the
    results to the caller; an entry has neither. ``depth`` counts calls.
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
"""Executes one instruction with its frame's values; returns the index of the next one, or ENDED, WAITING, CALLED, or
None: the one behind it.
"""
Give = Callable[[CallFrame], bytes]
"""Reads an argument or a result of a frame, as bytes: what it is declared as may differ on both sides."""
Take = Callable[[CallFrame, bytes], None]
"""Writes a parameter or a result of a frame."""
Meeting = Callable[[list["PtxThread"]], None]
"""What neighbours do once they are all there."""


@dataclass
class ExecutableFunction:
    """A function that can be executed. ``number`` is its position in the text, ``local`` its bytes of local memory.

    ``takes`` put arguments into a frame, ``gives`` read results from one.
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
        """A frame, its variables in local memory from ``top`` on."""
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
        """Where it stands in the program's text."""
        return self.frame.code.number, self.frame.index

    def advance(self) -> None:
        """Advances it past the instruction at which it has waited."""
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
