"""The requests of a testbench to one warp's stack, step by step.

A *source* is a generator of steps for one warp. It receives the outcome of each step: that of a
push as soon as the push is taken, that of any other operation once the hardware's result was
compared.

::

    def source(stack: WarpStack) -> Source:
        yield stack.launch(granules=1)
        yield push(TokenKind.SYNC, pc=0x40, mask=0xF)
        outcome = yield unwind({ThreadCode.NONE: 0xF})
        assert outcome.pc == 0x40
"""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass

from rtl.isa.tokens import CRS_GRANULE, TOKEN_BYTES, TOKENS_PER_LINE, TokenKind
from rtl.layouts import StackOperation, ThreadCode
from rtl.params import WARP_THREADS
from sim.model.warp.retirement import StackToken
from testbench.crs.memory import StackMemory
from testbench.crs.reference import Outcome, Request, StackReference, decode_token

Codes = tuple[ThreadCode, ...]
"""The code of each thread."""
PUSHES = frozenset({StackOperation.PUSH, StackOperation.CALL, StackOperation.PREPARE_CALL})
"""Operations after which the warp may make its next request without waiting for the result."""


@dataclass(frozen=True)
class Launch:
    """The parameters of a launch: the reference model at its start, and the granules of local
    memory below the stack.
    """

    reference: StackReference
    local: int


@dataclass(frozen=True)
class Shown:
    """The waveform's pc and active mask of a warp around a step."""

    pc: int
    active: int


@dataclass(frozen=True)
class Step:
    """One request and what is expected of it.

    Attributes:
        request: The operation.
        launch: The parameters of a LAUNCH.
        fault: The expected outcome when memory fails. It is not applied to the reference model,
            whose stack stays unchanged.
        may_fault: If memory has refused a line, MMU_FAULT without any change is accepted in place
            of the reference model's result.
        before, after: Waveform values while the request is made, and after its result.
    """

    request: Request
    launch: Launch | None = None
    fault: Outcome | None = None
    may_fault: bool = False
    before: Shown | None = None
    after: Shown | None = None

    @property
    def blocks(self) -> bool:
        """Whether the warp's next step has to wait for the result."""
        return self.request.operation not in PUSHES or self.may_fault or self.fault is not None


Source = Generator[Step | None, Outcome, None]
"""The steps of a warp; None in a cycle without a step."""
Start = Callable[["WarpStack"], Source]
"""Starts a source for a warp."""


def whole_lines(tokens: int) -> int:
    """A number of tokens, rounded up to whole lines."""
    return -(-tokens // TOKENS_PER_LINE) * TOKENS_PER_LINE


def codes_of(threads: Mapping[ThreadCode, int], rest: ThreadCode = ThreadCode.KILLED) -> Codes:
    """The code of each thread, from the mask of each code; ``rest`` for threads in none of them."""
    codes = [rest] * WARP_THREADS
    for code, mask in threads.items():
        for thread in range(WARP_THREADS):
            if mask >> thread & 1:
                codes[thread] = code
    return tuple(codes)


def code_for(kind: TokenKind) -> ThreadCode:
    """The code of threads that a token of this kind makes active again."""
    return ThreadCode[kind.name] if kind.name in ThreadCode.__members__ else ThreadCode.NONE


def aimed_at(token: StackToken) -> Codes:
    """Codes for an unwind that stops at this token, or at another one with the same threads."""
    return codes_of({code_for(token.kind): token.mask})


def push(
    kind: TokenKind,
    pc: int = 0,
    mask: int = 0,
    *,
    operation: StackOperation = StackOperation.PUSH,
    pair: bool = False,
    enable: bool = True,
) -> Step:
    """A push; with another ``operation``, a call or a prepared call."""
    return Step(Request(operation, kind, pc, mask, pair=pair, enable=enable))


def unwind(
    codes: Codes | Mapping[ThreadCode, int], *, quad: bool = False, enable: bool = True
) -> Step:
    """An unwind, with the code of each thread or the mask of each code. Threads in no mask are
    killed.
    """
    operation = StackOperation.POP_QUAD if quad else StackOperation.UNWIND
    return Step(
        Request(
            operation, codes=codes if isinstance(codes, tuple) else codes_of(codes), enable=enable
        )
    )


def frame(depth: int, trap: StackToken, *saved: tuple[int, int]) -> Generator[Step, Outcome, None]:
    """The pushes of a trap frame at a depth: holes up to a line, a TRAP token with their number,
    and a MASKS token for each pair of masks. The second mask of a pair is in the pc of its token.
    """
    holes = whole_lines(depth) - depth
    for _ in range(holes):
        yield push(TokenKind.NONE)
    yield push(trap.kind, trap.pc | holes, trap.mask)
    for mask, pc in saved:
        yield push(TokenKind.MASKS, pc, mask)


def restore() -> Step:
    """A RESTORE: the trap handler ends by restoring its frame."""
    return Step(Request(StackOperation.RESTORE))


def clear() -> Step:
    """A CLEAR: the warp ends."""
    return Step(Request(StackOperation.CLEAR, codes=(ThreadCode.EXIT,) * WARP_THREADS))


class WarpStack:
    """The stack of one warp in the testbench.

    Attributes:
        warp: The warp slot.
        memory: The memory behind the hardware.
        reference: The reference model after every step that was taken.
        local: Granules of local memory below the stack's region.
        on_chip: Number of tokens that fit on chip.
    """

    def __init__(self, warp: int, memory: StackMemory, on_chip: int) -> None:
        self.warp, self.on_chip = warp, on_chip
        self.memory = memory
        self.reference = StackReference(0, on_chip=on_chip)
        self.local = 0
        self._blocks: list[tuple[int, int]] = []

    @property
    def depth(self) -> int:
        """Number of tokens on the stack."""
        return len(self.reference.tokens)

    @property
    def region(self) -> int:
        """Address of the stack's region in memory."""
        return (self.reference.base + self.local) * CRS_GRANULE

    @property
    def size(self) -> int:
        """Size of the region in bytes."""
        return self.reference.granules * CRS_GRANULE

    def owns(self, address: int) -> bool:
        """Whether an address belongs to a current or former memory block of the warp."""
        return any(0 <= address - base < size for base, size in self._blocks)

    def allocate(self, granules: int) -> int:
        """Allocates ``granules`` of memory for the warp; returns the address in granules."""
        size = granules * CRS_GRANULE
        address = self.memory.allocate(
            f"warp {self.warp} block {len(self._blocks)}", size, CRS_GRANULE
        )
        self._blocks.append((address, size))
        return address // CRS_GRANULE

    def launch(self, granules: int, *, check_calls: bool = False, local: int = 1) -> Step:
        """Launches a warp with a stack of ``granules`` in new memory, above ``local`` granules."""
        base = self.allocate(local + granules)
        return self.launch_on(
            StackReference(granules, check_calls, base, on_chip=self.on_chip), local
        )

    def launch_on(self, reference: StackReference, local: int) -> Step:
        """Launches a warp with a given reference model."""
        return Step(Request(StackOperation.LAUNCH), Launch(reference, local))

    def ask(self, operation: StackOperation, operand: int = 0) -> Step:
        """A request of any other operation."""
        return Step(Request(operation, operand=operand))

    def stored(self, first: int, end: int) -> list[StackToken]:
        """The tokens from ``first`` up to ``end`` in the format of memory."""
        return [
            decode_token(self.memory.read(self.region + index * TOKEN_BYTES, TOKEN_BYTES))
            for index in range(first, end)
        ]

    def learn(self) -> None:
        """Copies the memory above the stack's own lines, which may hold former tokens, to the
        reference model. Valid only right after a write-back.
        """
        own = whole_lines(self.depth)
        self.reference.memory[own:] = self.stored(own, self.size // TOKEN_BYTES)

    def copy_to(self, base: int) -> None:
        """Copies the region to the place that it has when the warp's memory begins at ``base``, in
        granules.
        """
        if self.size:
            self.memory.put(
                (base + self.local) * CRS_GRANULE, self.memory.read(self.region, self.size)
            )

    def overwrite(self, index: int, content: bytes) -> None:
        """Overwrites memory from token ``index`` on, as software does. Valid only right after a
        write-back.
        """
        self.memory.put(self.region + index * TOKEN_BYTES, content)
        end = index + len(content) // TOKEN_BYTES
        self.reference.memory += self.stored(len(self.reference.memory), end)
        self.reference.memory[index:end] = self.stored(index, end)
