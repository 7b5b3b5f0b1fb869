"""What a testbench asks of one warp's stack, step by step.

A *source* is a generator of steps for one warp. It gets the outcome of each step back: that of a push as soon as the
push is taken, that of anything else once the hardware has said the same.

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
"""Operations that the next one of the warp may follow at once."""


@dataclass(frozen=True)
class Launch:
    """A new stack: what the reference begins with, and granules of local memory that lie before it."""

    reference: StackReference
    local: int


@dataclass(frozen=True)
class Shown:
    """What a waveform shows of the warp around a step."""

    pc: int
    active: int


@dataclass(frozen=True)
class Step:
    """One request.

    Attributes:
        request: What is asked.
        launch: Goes with LAUNCH.
        fault: What must become of it because memory fails, of which the reference knows nothing: its stack stays as it
            is.
        may_fault: MMU_FAULT, with nothing changed, is as good as what the reference says, if memory has refused a line.
        before, after: For the waveform: while it is asked, and once its result is there.
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
"""Steps of a warp; None when there is none just now."""
Start = Callable[["WarpStack"], Source]
"""Begins a source for a warp."""


def whole_lines(tokens: int) -> int:
    """A number of tokens, rounded up to whole lines."""
    return -(-tokens // TOKENS_PER_LINE) * TOKENS_PER_LINE


def codes_of(threads: Mapping[ThreadCode, int], rest: ThreadCode = ThreadCode.KILLED) -> Codes:
    """Each thread's code from the mask of each code; ``rest`` for threads in none of them."""
    codes = [rest] * WARP_THREADS
    for code, mask in threads.items():
        for thread in range(WARP_THREADS):
            if mask >> thread & 1:
                codes[thread] = code
    return tuple(codes)


def code_for(kind: TokenKind) -> ThreadCode:
    """The code of threads that a token of a kind makes active again."""
    return ThreadCode[kind.name] if kind.name in ThreadCode.__members__ else ThreadCode.NONE


def aimed_at(token: StackToken) -> Codes:
    """Codes with which an unwind that reaches a token stops at it, and at no other one but of the
    same threads."""
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
    """A push, or with another ``operation`` a call."""
    return Step(Request(operation, kind, pc, mask, pair=pair, enable=enable))


def unwind(
    codes: Codes | Mapping[ThreadCode, int], *, quad: bool = False, enable: bool = True
) -> Step:
    """An unwind with the threads' codes, or the mask of each code, all others being killed."""
    operation = StackOperation.POP_QUAD if quad else StackOperation.UNWIND
    return Step(
        Request(
            operation, codes=codes if isinstance(codes, tuple) else codes_of(codes), enable=enable
        )
    )


def frame(depth: int, trap: StackToken, *saved: tuple[int, int]) -> Generator[Step, Outcome, None]:
    """What a warp pushes that enters its trap handler at a depth: holes up to a line, a TRAP token with their number,
    and a MASKS token for each mask and the other mask in place of its pc.
    """
    holes = whole_lines(depth) - depth
    for _ in range(holes):
        yield push(TokenKind.NONE)
    yield push(trap.kind, trap.pc | holes, trap.mask)
    for mask, pc in saved:
        yield push(TokenKind.MASKS, pc, mask)


def restore() -> Step:
    """The trap handler is left by way of its frame."""
    return Step(Request(StackOperation.RESTORE))


def clear() -> Step:
    """The warp ends."""
    return Step(Request(StackOperation.CLEAR, codes=(ThreadCode.EXIT,) * WARP_THREADS))


class WarpStack:
    """A warp's stack as a testbench knows it.

    Attributes:
        warp: Its slot.
        memory: What lies behind the hardware.
        reference: The stack as it is after every step that was taken.
        local: Granules of local memory before the stack's region.
        on_chip: Tokens of it that fit on chip.
    """

    def __init__(self, warp: int, memory: StackMemory, on_chip: int) -> None:
        self.warp, self.on_chip = warp, on_chip
        self.memory = memory
        self.reference = StackReference(0, on_chip=on_chip)
        self.local = 0
        self._blocks: list[tuple[int, int]] = []

    @property
    def depth(self) -> int:
        """Tokens on the stack."""
        return len(self.reference.tokens)

    @property
    def region(self) -> int:
        """Address of the stack in memory."""
        return (self.reference.base + self.local) * CRS_GRANULE

    @property
    def size(self) -> int:
        """Bytes of that region."""
        return self.reference.granules * CRS_GRANULE

    def owns(self, address: int) -> bool:
        """Whether an address belongs to a block that the warp has or had."""
        return any(0 <= address - base < size for base, size in self._blocks)

    def allocate(self, granules: int) -> int:
        """Memory for the warp, of so many granules; returns its address in granules."""
        size = granules * CRS_GRANULE
        address = self.memory.allocate(
            f"warp {self.warp} block {len(self._blocks)}", size, CRS_GRANULE
        )
        self._blocks.append((address, size))
        return address // CRS_GRANULE

    def launch(self, granules: int, *, check_calls: bool = False, local: int = 1) -> Step:
        """A new warp whose stack has a region of so many granules in new memory, behind ``local`` other ones."""
        base = self.allocate(local + granules)
        return self.launch_on(
            StackReference(granules, check_calls, base, on_chip=self.on_chip), local
        )

    def launch_on(self, reference: StackReference, local: int) -> Step:
        """A new warp with a given stack."""
        return Step(Request(StackOperation.LAUNCH), Launch(reference, local))

    def ask(self, operation: StackOperation, operand: int = 0) -> Step:
        """Any other request."""
        return Step(Request(operation, operand=operand))

    def stored(self, first: int, end: int) -> list[StackToken]:
        """Tokens ``first`` to ``end`` in the format of memory."""
        return [
            decode_token(self.memory.read(self.region + index * TOKEN_BYTES, TOKEN_BYTES))
            for index in range(first, end)
        ]

    def learn(self) -> None:
        """Gives the reference the content of memory above the stack's own lines, where lines of a
        stack that was deeper may have been left. Right after a write-back only.
        """
        own = whole_lines(self.depth)
        self.reference.memory[own:] = self.stored(own, self.size // TOKEN_BYTES)

    def copy_to(self, base: int) -> None:
        """Copies the region to where it will be when the warp's memory begins at ``base``."""
        if self.size:
            self.memory.put(
                (base + self.local) * CRS_GRANULE, self.memory.read(self.region, self.size)
            )

    def overwrite(self, index: int, content: bytes) -> None:
        """Changes what memory holds from token ``index`` on, as software does. Right after a write-back only."""
        self.memory.put(self.region + index * TOKEN_BYTES, content)
        end = index + len(content) // TOKEN_BYTES
        self.reference.memory += self.stored(len(self.reference.memory), end)
        self.reference.memory[index:end] = self.stored(index, end)
