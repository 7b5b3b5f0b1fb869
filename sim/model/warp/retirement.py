"""What one retired instruction did: the record that every check uses."""

from dataclasses import dataclass, field
from typing import NamedTuple

from rtl.isa.errors import WarpError
from rtl.isa.tokens import TokenKind

__all__ = ["Execution", "MemoryWrite", "Retirement", "StackToken", "WarpMasks"]


@dataclass(frozen=True, slots=True)
class StackToken:
    """A token of the call/return stack."""

    kind: TokenKind
    pc: int
    mask: int
    counted: bool = False

    def __str__(self) -> str:
        return f"{self.kind.name} pc={self.pc:#06x} mask={self.mask:08x}{' counted' * self.counted}"


@dataclass(frozen=True, slots=True)
class WarpMasks:
    """The masks of a warp: bit t is thread t. ``broken`` .. ``killed`` are the disabled masks."""

    active: int
    broken: int = 0
    continued: int = 0
    returned: int = 0
    exited: int = 0
    longjumped: int = 0
    killed: int = 0

    @property
    def disabled(self) -> int:
        """Threads that left early, regardless of what they wait for."""
        return (
            self.broken
            | self.continued
            | self.returned
            | self.exited
            | self.longjumped
            | self.killed
        )


@dataclass(frozen=True, slots=True)
class MemoryWrite:
    """Bytes written by one thread. ``space`` is ``global``, ``shared`` or ``local``; ``local`` addresses are the
    thread's own."""

    thread: int
    space: str
    address: int
    content: bytes


@dataclass(slots=True)
class Retirement:
    """One instruction of one warp. A mask has bit t for thread t.

    Attributes:
        warp: The warp's slot.
        pc, word: The instruction's address, in bytes from the begin of the program, and its word.
        before, after: The warp's masks.
        next_pc: The pc as the warp holds it: behind a group's last instruction it is the next group's address. It is
            undefined once the warp has ``terminated``.
        depth_before, depth_after: Tokens on the call/return stack.
        pushed: The tokens that the instruction pushed, lowest first.
        popped: The tokens that it took, top first.
        registers: Number -> the mask of threads, and 32 values, of which those under the mask were written.
        predicates: Number -> the mask of threads, and the mask of values.
        condition: The mask of threads, and 32 CC nibbles; None where CC was not written.
        memory: What threads wrote, spilled tokens apart.
        error: What was reported. Other than NONE: the instruction did nothing, and the warp stays at it or, in the
            trap handler, is behind it. Two errors leave a trace: RET_EMPTY_STACK_ERROR comes with the end of the
            warp, SETCRSPTR's STACK_ERROR with an empty stack.
        unreported: An error that the machine does not report, of an instruction that did nothing.
        terminated: Whether the warp has ended.
        api_call_depth, kill_future_branch: Those of the warp after the instruction.
    """

    warp: int
    pc: int
    word: int
    before: WarpMasks
    after: WarpMasks
    next_pc: int
    depth_before: int
    depth_after: int
    pushed: tuple[StackToken, ...] = ()
    popped: tuple[StackToken, ...] = ()
    registers: dict[int, tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    predicates: dict[int, tuple[int, int]] = field(default_factory=dict)
    condition: tuple[int, tuple[int, ...]] | None = None
    memory: tuple[MemoryWrite, ...] = ()
    error: WarpError = WarpError.NONE
    unreported: WarpError = WarpError.NONE
    terminated: bool = False
    api_call_depth: int = 0
    kill_future_branch: bool = False


class Execution(NamedTuple):
    """What an instruction did by itself, before its consequences for the machine.

    Attributes:
        record: What it did.
        detail: What else is known of an error; empty where nothing is.
        following: The pc behind the instruction.
    """

    record: Retirement
    detail: str
    following: int
