"""The record of a retired instruction's effects, which every check uses."""

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
    """The masks of a warp: bit t is thread t. ``broken`` to ``killed`` are the disabled masks."""

    active: int
    broken: int = 0
    continued: int = 0
    returned: int = 0
    exited: int = 0
    longjumped: int = 0
    killed: int = 0

    @property
    def disabled(self) -> int:
        """Threads in any disabled mask."""
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
    """Bytes written by one thread.

    Attributes:
        space: ``global``, ``shared`` or ``local``. Addresses in ``local`` are relative to the
            thread's local memory.
    """

    thread: int
    space: str
    address: int
    content: bytes


@dataclass(slots=True)
class Retirement:
    """The effects of one instruction of one warp. A mask has bit t for thread t.

    Attributes:
        warp: The warp's slot.
        pc: Address of the instruction in bytes from the program base.
        word: The instruction word.
        before: The warp's masks before the instruction.
        after: The warp's masks after it.
        next_pc: The warp's next pc; after the last instruction of a group, the address of the next
            group. It is undefined once the warp has ``terminated``.
        depth_before: Tokens on the call/return stack before the instruction.
        depth_after: Tokens on it after the instruction.
        pushed: The tokens that the instruction pushed, lowest first.
        popped: The tokens that it popped, top first.
        registers: By number: the mask of threads, and 32 values, of which those in the mask were
            written.
        predicates: By number: the mask of threads, and the mask of values.
        condition: The mask of threads, and 32 CC nibbles; None if CC was not written.
        memory: The bytes that threads wrote, without spilled tokens.
        error: The reported error. Other than NONE: the instruction did nothing, and the warp's pc
            stays at it or, in the trap handler, is behind it. There are two exceptions:
            RET_EMPTY_STACK_ERROR comes with the end of the warp, SETCRSPTR's STACK_ERROR with an
            empty stack.
        unreported: The unreported error of an instruction that did nothing.
        terminated: Whether the warp has ended.
        api_call_depth: The warp's API call depth after the instruction.
        kill_future_branch: The warp's flag of this name after the instruction.
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
    """An executed instruction, before its consequences for the machine.

    Attributes:
        record: Its effects.
        detail: Further details of an error; empty without any.
        following: Address of the next instruction in sequence.
    """

    record: Retirement
    detail: str
    following: int
