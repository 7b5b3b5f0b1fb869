"""The reference model of the call/return stack: a Python list, with which the hardware is
compared.
"""

from dataclasses import dataclass, field, replace

from rtl.isa.errors import WarpError
from rtl.isa.tokens import (
    API_CALL_LIMIT,
    CACHED_TOKENS,
    CRS_GRANULE,
    TOKEN_BYTES,
    TOKENS_PER_LINE,
    TRAP_RESERVE,
    TokenKind,
)
from rtl.layouts import StackOperation, ThreadCode
from rtl.params import WARP_THREADS
from sim.model.warp.retirement import StackToken

_WAITED_FOR = {
    TokenKind.BREAK,
    TokenKind.CONTINUE,
    TokenKind.RETURN,
    TokenKind.EXIT,
    TokenKind.LONGJMP,
}
_HOLE = StackToken(TokenKind.NONE, 0, 0)
_DEPTH_MASK = (1 << 17) - 1


@dataclass(frozen=True)
class Request:
    """An operation on one warp's stack; see rtl.layouts.stack_request."""

    operation: StackOperation
    kind: TokenKind = TokenKind.NONE
    operand: int = 0
    mask: int = 0
    codes: tuple[ThreadCode, ...] = (ThreadCode.NONE,) * WARP_THREADS
    enable: bool = True
    pair: bool = False


@dataclass(frozen=True)
class Outcome:
    """The result of a request; see rtl.layouts.stack_result. Fields that are None are not
    compared.
    """

    resume: bool = False
    empty: bool = False
    error: WarpError = WarpError.NONE
    kind: TokenKind | None = None
    pc: int | None = None
    mask: int | None = None
    codes: tuple[ThreadCode, ...] | None = None
    value: int | None = None


def encode_token(token: StackToken) -> bytes:
    """A token as its 16 bytes in memory."""
    return b"".join(
        (
            token.pc.to_bytes(4, "little"),
            token.mask.to_bytes(4, "little"),
            bytes((token.kind.value, token.counted)),
            bytes(6),
        )
    )


def decode_token(content: bytes) -> StackToken:
    """The token in 16 bytes of memory. An undefined kind becomes ILLEGAL."""
    try:
        kind = TokenKind(content[8])
    except ValueError:
        kind = TokenKind.ILLEGAL
    return StackToken(
        kind,
        int.from_bytes(content[:4], "little"),
        int.from_bytes(content[4:8], "little"),
        bool(content[9] & 1),
    )


@dataclass
class StackReference:
    """The stack of one warp.

    Attributes:
        granules: Size of its region in memory.
        memory: Tokens in memory after the last write-back.
        on_chip: Capacity in tokens if there is no region.
    """

    granules: int
    check_calls: bool = False
    base: int = 0
    tokens: list[StackToken] = field(default_factory=list)
    memory: list[StackToken] = field(default_factory=list)
    calls: int = 0
    kill: bool = False
    trap: bool = False
    on_chip: int = CACHED_TOKENS

    @property
    def entry(self) -> WarpError:
        """STACK_OVERFLOW if there is no room for the trap handler's frame, which needs a line of
        its own; NONE otherwise.
        """
        room = replace(self, trap=True).limit
        return (
            WarpError.STACK_OVERFLOW if _whole_lines(len(self.tokens)) >= room else WarpError.NONE
        )

    @property
    def limit(self) -> int:
        """Number of tokens that the stack may hold in the current mode."""
        entries = self.granules * CRS_GRANULE // TOKEN_BYTES
        if not entries:
            return self.on_chip
        return entries if self.trap else entries - TRAP_RESERVE

    def apply(self, request: Request) -> Outcome:
        """Executes a request and returns its result."""
        if not request.enable:
            return Outcome(codes=request.codes)
        match request.operation:
            case StackOperation.PUSH | StackOperation.CALL | StackOperation.PREPARE_CALL:
                return replace(self._push(request), codes=request.codes)
            case StackOperation.UNWIND | StackOperation.POP_QUAD:
                return self._unwind(request.codes, request.operation is StackOperation.POP_QUAD)
            case StackOperation.GET_POINTER:
                return Outcome(
                    value=self.kill << 31 | self.calls << 23 | _whole_lines(len(self.tokens))
                )
            case StackOperation.SET_POINTER:
                return self._set(request.operand)
            case StackOperation.GET_BASE:
                return Outcome(value=self.base)
            case StackOperation.SET_BASE:
                self.base = request.operand & (1 << 31) - 1
            case StackOperation.WRITE_BACK:
                self._write_back()
            case StackOperation.SET_MODE:
                enters, if_room = (bool(request.operand & bit) for bit in (1, 2))
                self.trap = enters and not (if_room and self.entry is not WarpError.NONE)
            case StackOperation.RESTORE:
                self.trap = False
                return self._restore()
            case StackOperation.CLEAR:
                self.tokens, self.calls, self.kill = [], 0, False
                return Outcome(empty=True, codes=request.codes)
            case StackOperation.LAUNCH:
                self.tokens, self.calls, self.kill, self.trap = [], 0, False, False
        return Outcome()

    def _push(self, request: Request) -> Outcome:
        counts = request.operation is not StackOperation.PUSH
        at_limit = self.check_calls and self.calls >= API_CALL_LIMIT
        if counts and at_limit:
            if request.operation is StackOperation.CALL:
                return Outcome(error=WarpError.API_STACK_ERROR)
            self.kill = True
            return Outcome()
        if len(self.tokens) + request.pair >= self.limit:
            return Outcome(error=WarpError.STACK_OVERFLOW)
        if request.operation is StackOperation.PREPARE_CALL:
            self.kill = False
        self.calls = (self.calls + counts) % 256
        self.tokens.append(StackToken(request.kind, request.operand, request.mask, counts))
        return Outcome()

    def _unwind(self, codes: tuple[ThreadCode, ...], quad: bool) -> Outcome:
        calls = 0
        for position in reversed(range(len(self.tokens))):
            token = self.tokens[position]
            if token.kind is TokenKind.NONE:
                continue
            calls += token.counted and token.kind is TokenKind.RETURN
            threads = [thread for thread in range(WARP_THREADS) if token.mask >> thread & 1]
            if quad:
                if token.kind is not TokenKind.QUAD:
                    return Outcome(error=WarpError.STACK_ERROR)
                revived = [thread for thread in threads if codes[thread] is ThreadCode.NONE]
                if not revived:
                    return Outcome(error=WarpError.STACK_ERROR)
            elif token.kind in (TokenKind.SYNC, TokenKind.DIVERGE):
                revived = [thread for thread in threads if codes[thread] is ThreadCode.NONE]
            elif token.kind in _WAITED_FOR:
                if any(codes[thread] is ThreadCode.NONE for thread in threads):
                    return Outcome(error=WarpError.STACK_ERROR)
                revived = [thread for thread in threads if codes[thread].value == token.kind.value]
            else:
                return Outcome(error=WarpError.STACK_ERROR)
            if revived:
                if token.pc % 8 and not quad:
                    return Outcome(error=WarpError.MISALIGNED_PC)
                del self.tokens[position:]
                self.calls = (self.calls - calls) % 256
                after = (
                    codes
                    if quad
                    else tuple(
                        ThreadCode.NONE if thread in revived else code
                        for thread, code in enumerate(codes)
                    )
                )
                return Outcome(
                    resume=True,
                    kind=token.kind,
                    pc=token.pc,
                    mask=sum(1 << t for t in revived),
                    codes=after,
                )
        if quad or any(
            code not in (ThreadCode.EXIT, ThreadCode.KILLED, ThreadCode.RETURN) for code in codes
        ):
            return Outcome(error=WarpError.STACK_ERROR)
        self.tokens, self.calls, self.kill = [], 0, False
        error = WarpError.RET_EMPTY_STACK_ERROR if ThreadCode.RETURN in codes else WarpError.NONE
        return Outcome(empty=True, error=error)

    def _restore(self) -> Outcome:
        calls = 0
        for start in reversed(range(0, len(self.tokens), TOKENS_PER_LINE)):
            line = self.tokens[start : start + TOKENS_PER_LINE]
            if line[0].kind is not TokenKind.TRAP:
                calls += sum(token.counted and token.kind is TokenKind.RETURN for token in line)
                continue
            trap, saved = line[0], line[1:]
            if [token.kind for token in saved] != [TokenKind.MASKS] * 3 or not trap.mask:
                return Outcome(error=WarpError.STACK_ERROR)
            holes = trap.pc % 4
            if trap.pc % 8 >= 4:
                return Outcome(error=WarpError.MISALIGNED_PC)
            del self.tokens[max(start - holes, 0) :]
            self.calls = (self.calls - calls) % 256
            return Outcome(
                resume=True,
                kind=TokenKind.TRAP,
                pc=trap.pc - holes,
                mask=trap.mask,
                codes=tuple(_saved_code(line, thread) for thread in range(WARP_THREADS)),
            )
        return Outcome(error=WarpError.STACK_ERROR)

    def _write_back(self) -> None:
        lines = _whole_lines(len(self.tokens))
        if self.granules:
            self.memory[:lines] = self.tokens + [_HOLE] * (lines - len(self.tokens))

    def _set(self, value: int) -> Outcome:
        depth = min(_whole_lines(value & _DEPTH_MASK), self.limit) if self.granules else 0
        self.memory += [_HOLE] * (depth - len(self.memory))
        self.tokens = self.memory[:depth]
        self.calls, self.kill = value >> 23 & 0xFF, bool(value >> 31)
        return Outcome(error=WarpError.NONE if self.granules else WarpError.STACK_ERROR)


def _saved_code(line: list[StackToken], thread: int) -> ThreadCode:
    """The code of a thread in a trap frame: that of the first mask that has the thread, but an
    active thread is neither killed nor exited.
    """
    trap, low, middle, high = line
    words = (
        (high.pc, ThreadCode.KILLED),
        (high.mask, ThreadCode.EXIT),
        (middle.pc, ThreadCode.LONGJMP),
        (middle.mask, ThreadCode.RETURN),
        (low.pc, ThreadCode.CONTINUE),
        (low.mask, ThreadCode.BREAK),
    )
    code = next((code for word, code in words if word >> thread & 1), ThreadCode.NONE)
    return (
        ThreadCode.NONE
        if trap.mask >> thread & 1 and code in (ThreadCode.EXIT, ThreadCode.KILLED)
        else code
    )


def _whole_lines(tokens: int) -> int:
    return -(-tokens // TOKENS_PER_LINE) * TOKENS_PER_LINE
