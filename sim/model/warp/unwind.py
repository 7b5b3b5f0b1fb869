"""Mask operations: threads that leave early, and the unwind that finds the next active threads."""

from dataclasses import dataclass, replace

from rtl.isa.control_code import INSTRUCTION_BYTES
from rtl.isa.errors import WarpError
from rtl.isa.tokens import TokenKind

from .faults import WarpFaultError
from .retirement import Retirement, StackToken, WarpMasks
from .state import Warp
from .vector.lanes import ALL_THREADS

__all__ = ["CALL_DEPTHS", "DISABLED_BY", "check_pc", "continue_or_unwind", "moved", "push"]

DISABLED_BY = {
    TokenKind.BREAK: "broken",
    TokenKind.CONTINUE: "continued",
    TokenKind.RETURN: "returned",
    TokenKind.EXIT: "exited",
    TokenKind.LONGJMP: "longjumped",
}
"""The disabled mask whose threads wait for a token, by the token's kind."""
_HOLDERS = (TokenKind.DIVERGE, TokenKind.SYNC)
CALL_DEPTHS = 256
"""The modulus of the API call depth."""


@dataclass(frozen=True)
class _Unwound:
    """The result of an unwind.

    Attributes:
        masks: The masks after it.
        pc: The pc at which the warp continues, None if the warp ends.
        popped: The popped tokens.
        calls_closed: Counted calls that it closed.
        returned_from_nothing: Whether threads returned with an empty stack, and so ended.
    """

    masks: WarpMasks
    pc: int | None
    popped: tuple[StackToken, ...]
    calls_closed: int = 0
    returned_from_nothing: bool = False


def check_pc(pc: int) -> int:
    """Returns a computed pc; WarpFaultError with MISALIGNED_PC if no instruction starts there."""
    if pc % INSTRUCTION_BYTES:
        raise WarpFaultError(WarpError.MISALIGNED_PC)
    return pc


def moved(masks: WarpMasks, threads: int, to: str | None) -> WarpMasks:
    """Returns the masks with ``threads`` removed from all of them and added to the disabled mask
    ``to``, if one is named.
    """
    kept = {name: getattr(masks, name) & ~threads for name in WarpMasks.__slots__}
    if to is not None:
        kept[to] |= threads
    return WarpMasks(**kept)


def push(warp: Warp, record: Retirement, *tokens: StackToken) -> None:
    """Pushes tokens and records them."""
    warp.stack.push(*tokens)
    record.pushed = tokens


def _unwind(warp: Warp, masks: WarpMasks, depth: int) -> _Unwound:
    """Returns the result of popping tokens from ``depth`` on until a thread is active, without
    changing the warp.
    """
    popped, calls_closed = [], 0
    for index in reversed(range(depth)):
        token = warp.stack.token(index)
        popped.append(token)
        if token.kind in DISABLED_BY:
            name = DISABLED_BY[token.kind]
            if token.mask & ~masks.disabled:
                raise WarpFaultError(
                    WarpError.STACK_ERROR
                )  # Some had waited for a token below this one.
            masks = replace(masks, **{name: getattr(masks, name) & ~token.mask})
            calls_closed += token.counted and token.kind is TokenKind.RETURN
        elif token.kind is TokenKind.NONE:
            continue
        elif token.kind not in _HOLDERS:
            raise WarpFaultError(WarpError.STACK_ERROR)
        if active := token.mask & ~masks.disabled:
            return _Unwound(
                replace(masks, active=active), check_pc(token.pc), tuple(popped), calls_closed
            )
    live = ALL_THREADS & ~(masks.exited | masks.killed)
    if live & ~masks.returned:
        raise WarpFaultError(WarpError.STACK_ERROR)
    return _Unwound(moved(masks, live, "exited"), None, tuple(popped), calls_closed, bool(live))


def continue_or_unwind(
    warp: Warp, record: Retirement, masks: WarpMasks, popped: tuple[StackToken, ...] = ()
) -> None:
    """Continues with the active threads of ``masks`` at the next instruction, or unwinds if there
    are none.

    ``popped`` are tokens that the instruction pops before. Threads that return with an empty stack
    exit, with RET_EMPTY_STACK_ERROR in the record.
    """
    end = _Unwound(masks, record.next_pc, ())
    if not masks.active:
        end = _unwind(warp, masks, warp.stack.depth - len(popped))
    record.popped = popped + end.popped
    warp.stack.drop(len(record.popped))
    warp.masks = end.masks
    warp.api_call_depth = (warp.api_call_depth - end.calls_closed) % CALL_DEPTHS
    if end.pc is None:
        warp.terminated = record.terminated = True
        if end.returned_from_nothing:
            record.error = WarpError.RET_EMPTY_STACK_ERROR
    else:
        record.next_pc = end.pc
