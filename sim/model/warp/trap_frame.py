"""The trap frame: a line of the stack that saves a warp's masks and pc when it enters the trap
handler.

========  =====  ================  ======================================
token     kind   mask              pc
========  =====  ================  ======================================
lowest    TRAP   active            saved pc; bits 1:0: holes under the frame
second    MASKS  broken            continued
third     MASKS  returned          longjumped
topmost   MASKS  exited            killed
========  =====  ================  ======================================

A warp enters and leaves as a whole: guard, CC and the active mask have no influence.
"""

from rtl.isa.errors import WarpError
from rtl.isa.tokens import HOLE_BITS, TOKENS_PER_LINE, TokenKind

from .faults import WarpFaultError
from .retirement import StackToken, WarpMasks
from .state import Warp
from .unwind import CALL_DEPTHS, check_pc
from .vector.lanes import ALL_THREADS

__all__ = ["HOLES", "leave_frame", "masks_of_frame", "push_frame", "restore_frame", "terminate"]

HOLES = (1 << HOLE_BITS) - 1
"""The bits of a TRAP token's pc that hold the number of holes."""
_SAVED = (("broken", "continued"), ("returned", "longjumped"), ("exited", "killed"))
"""The two disabled masks of each MASKS token: in its mask and in its pc field."""
_PRECEDENCE = ("killed", "exited", "longjumped", "returned", "continued", "broken")
"""Precedence of the disabled masks, for a frame written by software that has a thread in several of
them (ours).
"""
_DEAD = ("killed", "exited")


def push_frame(warp: Warp, pc: int) -> None:
    """Enters the trap handler: saves the warp's masks and ``pc`` in a frame on a new line, above
    holes that fill the current line, and activates all live threads.

    The caller sets the pc to the handler's.

    Raises:
        WarpFaultError: STACK_OVERFLOW, with nothing changed: without a region in memory, or when
            the handler's SETCRSPTR has used up the reserved tokens.
    """
    masks, stack = warp.masks, warp.stack
    holes = [StackToken(TokenKind.NONE, 0, 0)] * (-stack.depth % TOKENS_PER_LINE)
    saved = [
        StackToken(TokenKind.MASKS, getattr(masks, second), getattr(masks, first))
        for first, second in _SAVED
    ]
    stack.in_trap = True
    try:
        stack.push(*holes, StackToken(TokenKind.TRAP, pc | len(holes), masks.active), *saved)
    except WarpFaultError:
        stack.in_trap = False
        raise
    warp.masks = WarpMasks(active=warp.live, exited=masks.exited, killed=masks.killed)


def restore_frame(warp: Warp) -> int:
    """Leaves the trap handler by RTT.POPCRS: pops the topmost frame, everything above it and the
    holes below it, and restores the masks.

    Tokens above the frame are ignored, except that counted calls among them are closed.

    Returns:
        The pc at which the warp continues.

    Raises:
        WarpFaultError: STACK_ERROR if there is no frame, if it is incomplete, or if it has no
            active thread (ours); MISALIGNED_PC; MMU_FAULT. Masks and stack are then unchanged, but
            the mode is user mode.
    """
    stack = warp.stack
    stack.in_trap = False
    calls_closed, line = 0, list[StackToken]()
    for index in reversed(range(stack.depth)):
        token = stack.token(index)
        line.insert(0, token)
        if index % TOKENS_PER_LINE:
            continue
        if token.kind is TokenKind.TRAP:
            masks = masks_of_frame(line)
            holes = token.pc & HOLES
            pc = check_pc(token.pc - holes)
            stack.drop(stack.depth - index + min(holes, index))
            warp.masks = masks
            warp.api_call_depth = (warp.api_call_depth - calls_closed) % CALL_DEPTHS
            return pc
        calls_closed += sum(each.counted and each.kind is TokenKind.RETURN for each in line)
        line.clear()
    raise WarpFaultError(WarpError.STACK_ERROR)


def masks_of_frame(line: list[StackToken]) -> WarpMasks:
    """Returns the masks that the tokens of a trap frame hold.

    A waiting thread that SAM made active is in both masks; no thread is active and dead.
    WarpFaultError: STACK_ERROR if the frame is not whole.
    """
    trap, *saved = line
    if [token.kind for token in saved] != [TokenKind.MASKS] * len(_SAVED) or not trap.mask:
        raise WarpFaultError(WarpError.STACK_ERROR)
    found = {
        name: word
        for names, token in zip(_SAVED, saved, strict=True)
        for name, word in zip(names, (token.mask, token.pc), strict=True)
    }
    masks, taken = {}, 0
    for name in _PRECEDENCE:
        masks[name] = found[name] & ~taken & ~(trap.mask if name in _DEAD else 0)
        taken |= found[name]
    return WarpMasks(active=trap.mask, **masks)


def leave_frame(warp: Warp) -> None:
    """Leaves the trap handler by RTT.FALLTHROUGH: in user mode, with masks and stack unchanged."""
    warp.stack.in_trap = False


def terminate(warp: Warp) -> None:
    """Ends the warp by RTT.TERMINATE: every thread exits, whatever is on the stack."""
    warp.stack.reset(0)
    warp.stack.in_trap = False
    warp.masks = WarpMasks(active=0, exited=ALL_THREADS)
    warp.api_call_depth, warp.kill_future_branch = 0, False
    warp.terminated = True
