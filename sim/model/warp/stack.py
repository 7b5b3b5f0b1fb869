"""The call/return stack of a warp: its tokens, on chip and in local memory.

A window of the topmost lines is on chip. A line is written to memory when a push moves it out of
the window, and on request. The hardware may write lines earlier: memory is sure to hold a token
only after a write-back. Tokens below the window are popped from memory.
"""

from collections.abc import Iterable, Sequence, Set

from amaranth.lib import data

from rtl.isa.errors import WarpError
from rtl.isa.tokens import (
    LINE_BYTES,
    TOKEN_BYTES,
    TOKENS_PER_LINE,
    TRAP_RESERVE,
    MemoryToken,
    TokenKind,
)
from sim.launch.memory import Memory

from .faults import WarpFaultError, memory_faults
from .retirement import StackToken

__all__ = ["CallReturnStack", "decode_token", "encode_token"]

_FIELDS = {
    name: (field.offset, (1 << field.width) - 1) for name, field in data.Layout.cast(MemoryToken)
}
_KINDS = {kind.value: kind for kind in TokenKind}
_HOLE = StackToken(TokenKind.NONE, 0, 0)


def encode_token(token: StackToken) -> bytes:
    """Encodes a token in its memory format of 16 bytes."""
    parts = {
        "pc": token.pc,
        "mask": token.mask,
        "kind": token.kind.value,
        "counted": int(token.counted),
    }
    number = sum(value << _FIELDS[name][0] for name, value in parts.items())
    return number.to_bytes(TOKEN_BYTES, "little")


def decode_token(content: bytes) -> StackToken:
    """Decodes 16 bytes of memory. An invalid kind byte gives a token whose pop raises STACK_ERROR
    (ours).
    """
    number = int.from_bytes(content, "little")
    pc, mask, kind, counted = (
        number >> _FIELDS[name][0] & _FIELDS[name][1] for name in ("pc", "mask", "kind", "counted")
    )
    return StackToken(_KINDS.get(kind, TokenKind.ILLEGAL), pc, mask, bool(counted))


class CallReturnStack:
    """The tokens of one warp.

    Parameters:
        memory: Receives the lines that leave the chip.
        size: Size of the region in memory in bytes; 0 for a stack that exists on chip alone.
        on_chip: Capacity on chip, in tokens.
        region: Address of the region.

    Attributes:
        depth: Tokens on the stack, holes included.
        in_trap: Whether the trap handler runs, which may use the reserved tokens.
    """

    def __init__(self, memory: Memory, size: int, region: int, on_chip: int) -> None:
        self.memory = memory
        self._on_chip = on_chip
        self.size = size
        self.region = region
        self.depth = 0
        self.in_trap = False
        self._first = 0
        self._cached: list[StackToken] = []
        self._dirty: set[int] = set()

    @property
    def limit(self) -> int:
        """Capacity of the stack in its mode, in tokens."""
        if not self.size:
            return self._on_chip
        return self.size // TOKEN_BYTES - (0 if self.in_trap else TRAP_RESERVE)

    def token(self, index: int) -> StackToken:
        """Returns token ``index``, 0 being the lowest; WarpFaultError if it must be read from
        memory that faults.
        """
        if index >= self._first:
            return self._cached[index - self._first]
        with memory_faults:
            return decode_token(self.memory.read(self.region + index * TOKEN_BYTES, TOKEN_BYTES))

    def tokens(self) -> list[StackToken]:
        """All tokens, lowest first."""
        return [self.token(index) for index in range(self.depth)]

    def push(self, *tokens: StackToken) -> None:
        """Pushes ``tokens`` in their order; WarpFaultError, with nothing pushed, if there is no
        room.
        """
        depth = self.depth + len(tokens)
        if tokens and depth > self.limit:  # A handler may leave more than user mode can push.
            raise WarpFaultError(WarpError.STACK_OVERFLOW)
        while depth - self._first > self._on_chip:
            if (line := self._first // TOKENS_PER_LINE) in self._dirty:
                self._write_line(line)
            del self._cached[:TOKENS_PER_LINE]
            self._first += TOKENS_PER_LINE
        self._dirty |= {index // TOKENS_PER_LINE for index in range(self.depth, depth)}
        self._cached += tokens
        self.depth = depth

    def drop(self, count: int) -> None:
        """Pops the topmost ``count`` tokens. The line that is then on top is loaded to the chip."""
        depth = self.depth - count
        if depth < self._first:
            first = depth - depth % TOKENS_PER_LINE
            self._cached = [self.token(index) for index in range(first, depth)]
            self._first = first
        else:
            del self._cached[depth - self._first :]
        self._dirty = {line for line in self._dirty if line * TOKENS_PER_LINE < depth}
        self.depth = depth

    @property
    def on_chip(self) -> tuple[int, Sequence[StackToken], Set[int]]:
        """Returns the content on chip: the index of the first token there, the tokens from it on,
        and the numbers of the lines that memory does not have.
        """
        return self._first, self._cached, self._dirty

    def put_on_chip(self, first: int, tokens: Iterable[StackToken], changed: Iterable[int]) -> None:
        """Replaces the content on chip, and thereby the depth."""
        self._first, self._cached, self._dirty = first, list(tokens), set(changed)
        self.depth = first + len(self._cached)

    def write_back(self) -> None:
        """Writes every changed line to memory, and the topmost line even if it is not full: its
        slots above the top become holes.

        Without a region it does nothing.
        """
        if not self.size:
            return
        lines = set(self._dirty)
        if self.depth % TOKENS_PER_LINE:
            lines.add(self.depth // TOKENS_PER_LINE)
        for line in sorted(lines):
            self._write_line(line)

    def _write_line(self, line: int) -> None:
        start = line * TOKENS_PER_LINE
        tokens = [
            self.token(index) if index < self.depth else _HOLE
            for index in range(start, start + TOKENS_PER_LINE)
        ]
        with memory_faults:
            self.memory.write(self.region + line * LINE_BYTES, b"".join(map(encode_token, tokens)))
        self._dirty.discard(line)

    def reset(self, depth: int) -> None:
        """Discards the content on chip; the stack then has ``depth`` tokens, all in memory."""
        self.depth = self._first = depth
        self._cached = []
        self._dirty = set()
