"""Directed cases of a stack with trap frames: frames that are restored, warps that end."""

from dataclasses import replace

from rtl.isa.errors import WarpError
from rtl.isa.tokens import LINE_BYTES, TOKENS_PER_LINE, TRAP_RESERVE, TokenKind
from rtl.layouts import StackOperation, ThreadCode
from sim.model.warp.retirement import StackToken
from testbench.crs.cases import USER_LIMIT, launched, numbered, pushed, taken_off
from testbench.crs.reference import Outcome, encode_token
from testbench.crs.steps import (
    Source,
    Start,
    Step,
    WarpStack,
    aimed_at,
    clear,
    codes_of,
    frame,
    push,
    restore,
    unwind,
    whole_lines,
)

_PC = 0x4008
_ACTIVE = 0x0000_00FF
_SAVED = ((0x100, 0x200), (0x400, 0x800), (0x1000, 0x2000))
"""The masks of the MASKS tokens of a frame: BREAK and CONTINUE, RETURN and LONGJMP, EXIT and
KILLED.
"""
_CODES = codes_of(
    {
        ThreadCode.BREAK: 0x100,
        ThreadCode.CONTINUE: 0x200,
        ThreadCode.RETURN: 0x400,
        ThreadCode.LONGJMP: 0x800,
        ThreadCode.EXIT: 0x1000,
        ThreadCode.KILLED: 0x2000,
    },
    ThreadCode.NONE,
)
_PATIENCE = 60
"""Retries of a step until the line that it needs has arrived."""
_TRAP = StackToken(TokenKind.TRAP, _PC, _ACTIVE)


def _entered(stack: WarpStack) -> Source:
    """Enters the trap handler and pushes a frame."""
    yield stack.ask(StackOperation.SET_MODE, 1)
    depth = whole_lines(stack.depth) + TOKENS_PER_LINE
    yield from frame(stack.depth, _TRAP, *_SAVED)
    assert stack.depth == depth


def _trapped(stack: WarpStack, granules: int, depth: int) -> Source:
    """Launches a warp that enters the trap handler with ``depth`` numbered tokens on its stack."""
    yield from launched(stack, granules, depth)
    yield from _entered(stack)


def _left(stack: WarpStack, depth: int) -> Source:
    """Leaves the trap handler by restoring its frame; the holes above the lower ``depth`` tokens
    are popped with it.
    """
    outcome = yield restore()
    assert outcome == Outcome(resume=True, kind=TokenKind.TRAP, pc=_PC, mask=_ACTIVE, codes=_CODES)
    assert stack.depth == depth


def _frames(stack: WarpStack) -> Source:
    """RESTORE returns masks and pc at every depth, from below any number of tokens of any kind"""
    for depth in (0, 1, 2, 3, 4, 15, 16, USER_LIMIT - 1, USER_LIMIT):
        for above in (0, 1, 3, 4, 9, 12):
            yield from _trapped(stack, 2, depth)
            for index in range(above):
                kind = (
                    TokenKind.QUAD,
                    TokenKind.MASKS,
                    TokenKind.SYNC,
                    TokenKind.EXIT,
                    TokenKind.TRAP,
                )[index % 5]
                # A TRAP token that does not begin a line is not a frame.
                yield push(
                    TokenKind.NONE if kind is TokenKind.TRAP and index % 4 == 0 else kind,
                    0x40,
                    0xFFFF_FFFF,
                )
            yield from _left(stack, depth)
            yield from _off(stack, depth)


def _off(stack: WarpStack, depth: int) -> Source:
    """Pops the topmost tokens, up to seven, of a stack of ``depth`` numbered tokens."""
    if depth:
        token = numbered(depth - 1)
        assert (yield unwind(aimed_at(token))).pc == token.pc
        yield from taken_off(stack, min(depth - 1, 6))


def _deep(stack: WarpStack) -> Source:
    """A spilled frame is restored, and the tokens below it are intact"""
    yield from _trapped(stack, 6, 22)
    yield from pushed(0, 50)
    yield from _left(stack, 22)
    yield from _off(stack, 22)


def _modes(stack: WarpStack) -> Source:
    """RESTORE returns to user mode, also when it fails for lack of a frame"""
    for framed in (True, False):
        yield from launched(stack, 1, TRAP_RESERVE)
        if framed:
            yield from _entered(stack)
            yield from _left(stack, TRAP_RESERVE)
        else:
            yield stack.ask(StackOperation.SET_MODE, 1)
            assert (yield restore()).error is WarpError.STACK_ERROR
        assert (yield push(TokenKind.SYNC)).error is WarpError.STACK_OVERFLOW
        yield from taken_off(stack, 6)


def _room(stack: WarpStack) -> Source:
    """A conditional entry has the reserve if there is room; else the warp stays in user mode"""
    yield from launched(stack, 1, TRAP_RESERVE)
    yield stack.ask(StackOperation.SET_MODE, 3)
    yield from frame(stack.depth, _TRAP, *_SAVED)
    yield from pushed(0, TRAP_RESERVE - TOKENS_PER_LINE)
    yield stack.ask(StackOperation.SET_MODE, 0)
    yield stack.ask(StackOperation.SET_MODE, 3)
    yield from taken_off(stack, TRAP_RESERVE - TOKENS_PER_LINE)
    assert (yield push(TokenKind.SYNC)).error is WarpError.STACK_OVERFLOW
    yield stack.ask(StackOperation.SET_MODE, 3)
    yield from pushed(0, 3)
    yield from _left(stack, TRAP_RESERVE)


def _calls(stack: WarpStack) -> Source:
    """RESTORE subtracts the counted calls above the frame from the call depth, no others"""
    yield stack.launch(2, check_calls=True)
    for _ in range(2):
        yield push(TokenKind.RETURN, 0x40, 1, operation=StackOperation.CALL)
    yield from _entered(stack)
    for _ in range(11):
        yield push(TokenKind.RETURN, 0x40, 1, operation=StackOperation.CALL)
    yield push(TokenKind.RETURN, 0x40, 1)
    yield from _left(stack, 2)
    assert (yield stack.ask(StackOperation.GET_POINTER)).value == 2 << 23 | 4


def _nested(stack: WarpStack) -> Source:
    """The topmost of two nested frames is restored first"""
    yield from _trapped(stack, 2, 5)
    yield stack.ask(StackOperation.SET_MODE, 0)
    yield push(TokenKind.SYNC, 0x40, 1)
    yield stack.ask(StackOperation.SET_MODE, 1)
    yield from frame(stack.depth, StackToken(TokenKind.TRAP, 0x80, 1), (0, 0), (0, 0), (0, 2))
    outcome = yield restore()
    assert (outcome.pc, outcome.mask, outcome.codes) == (
        0x80,
        1,
        codes_of({ThreadCode.KILLED: 2}, ThreadCode.NONE),
    )
    assert (yield unwind({ThreadCode.NONE: 1})).pc == 0x40
    yield from _left(stack, 5)
    yield from _off(stack, 5)


def _broken(stack: WarpStack) -> Source:
    """An invalid frame is an error and leaves the stack unchanged"""
    masks = StackToken(TokenKind.MASKS, 0, 0)
    for tokens, error in (
        ([StackToken(TokenKind.TRAP, _PC, 0), masks, masks, masks], WarpError.STACK_ERROR),
        ([StackToken(TokenKind.TRAP, _PC + 4, 1), masks, masks, masks], WarpError.MISALIGNED_PC),
        ([_TRAP, masks, masks, StackToken(TokenKind.SYNC, 0, 0)], WarpError.STACK_ERROR),
        ([_TRAP, StackToken(TokenKind.NONE, 0, 0), masks, masks], WarpError.STACK_ERROR),
        ([_TRAP, masks, masks], WarpError.STACK_ERROR),
        ([_TRAP], WarpError.STACK_ERROR),
        ([masks, _TRAP, masks, masks], WarpError.STACK_ERROR),
        ([], WarpError.STACK_ERROR),
    ):
        for above in (0, 13):
            yield from launched(stack, 2, 4)
            for token in tokens:
                yield push(token.kind, token.pc, token.mask)
            yield from pushed(0, above)
            assert (yield restore()).error is error
            assert stack.depth == 4 + len(tokens) + above
            yield from taken_off(stack, min(above, 6))


def _overlapping(stack: WarpStack) -> Source:
    """The masks of a frame may overlap: a fixed order of kinds decides each thread's code

    The first mask of killed, exit, longjmp, return, continue, break that has the thread determines
    its code; an active thread is neither killed nor exited.
    """
    codes = (
        ThreadCode.KILLED,
        ThreadCode.EXIT,
        ThreadCode.LONGJMP,
        ThreadCode.RETURN,
        ThreadCode.CONTINUE,
        ThreadCode.BREAK,
    )
    for first, code in enumerate(codes):
        yield stack.launch(1)
        yield stack.ask(StackOperation.SET_MODE, 1)
        words = [
            0xFFFF_0000 if index > first else 0xFFFF_FFFF if index == first else 0
            for index in range(6)
        ]
        killed, exited, longjumped, returned, continued, broken = words
        yield from frame(
            0,
            StackToken(TokenKind.TRAP, _PC, 0xFF00_00FF),
            (broken, continued),
            (returned, longjumped),
            (exited, killed),
        )
        outcome = yield restore()
        dead = code in (ThreadCode.KILLED, ThreadCode.EXIT)
        assert outcome.mask == 0xFF00_00FF
        assert outcome.codes == codes_of(
            {code: 0x00FF_FF00 if dead else 0xFFFF_FFFF}, ThreadCode.NONE
        )


def _rewritten(stack: WarpStack) -> Source:
    """A frame that the handler has changed in memory is restored as changed"""
    yield from _trapped(stack, 2, 6)
    yield stack.ask(StackOperation.WRITE_BACK)
    stack.learn()
    for holes, depth in ((0, 8), (1, 7), (2, 6)):
        stack.overwrite(8, encode_token(StackToken(TokenKind.TRAP, 0x9000 + holes, 0x30)))
        yield stack.ask(StackOperation.SET_POINTER, 12)
        outcome = yield restore()
        assert (outcome.pc, outcome.mask, outcome.codes) == (0x9000, 0x30, _CODES)
        assert stack.depth == depth
    yield from _off(stack, 6)


def _lowest(stack: WarpStack) -> Source:
    """RESTORE of a frame in the lowest line leaves an empty stack"""
    for granules in (0, 1):
        yield stack.launch(granules)
        yield from frame(0, StackToken(TokenKind.TRAP, _PC + 3, 1), (0, 0), (0, 0), (0, 0))
        assert (yield restore()).pc == _PC
        assert stack.depth == 0
        yield from pushed(0, 5)
        yield from taken_off(stack, 5)


def _pushed_on(stack: WarpStack) -> Source:
    """Pushes after RESTORE go into the line below the frame, on chip or still in memory"""
    for depth in (1, 2, 3, 6, 15, USER_LIMIT - 1):
        for above in (0, 16, 40):
            yield from _trapped(stack, 6, depth)
            yield from pushed(0, above)
            yield from _left(stack, depth)
            yield from pushed(depth, depth + 6)
            yield from _off(stack, depth + 6)
            yield from taken_off(stack, min(depth - 1, 6))


def _no_holes(stack: WarpStack) -> Source:
    """Tokens that a frame counts as holes are removed, in memory as well"""
    for above in (0, 40):
        yield from launched(stack, 6, 7)
        yield stack.ask(StackOperation.SET_MODE, 1)
        yield push(TokenKind.NONE)
        yield from frame(8, StackToken(TokenKind.TRAP, _PC + 3, 1), (0, 0), (0, 0), (0, 0))
        yield from pushed(0, above)
        yield restore()
        assert stack.depth == 5
        yield stack.ask(StackOperation.WRITE_BACK)
        yield stack.ask(StackOperation.SET_POINTER, 8)
        yield from _off(stack, 5)


def _fault(stack: WarpStack) -> Source:
    """A frame that memory can't read is an error and leaves the stack unchanged"""
    yield stack.launch(2)
    region = range(stack.region, stack.region + stack.size)
    yield from pushed(0, 6)
    yield from _entered(stack)
    yield from pushed(0, 30)
    yield stack.ask(StackOperation.WRITE_BACK)
    stack.memory.refusing.add(region)
    for _ in range(2):
        yield Step(restore().request, fault=Outcome(error=WarpError.MMU_FAULT))
        assert (yield stack.ask(StackOperation.GET_POINTER)).value == 12 + 32
    stack.memory.refusing.remove(region)
    outcome = yield Step(restore().request, may_fault=True)
    # a refused fill of an earlier step was still in flight
    if outcome.error is WarpError.MMU_FAULT:
        yield stack.ask(StackOperation.GET_POINTER)
        yield from _left(stack, 6)
    yield from _off(stack, 6)


def _lost_top(stack: WarpStack) -> Source:
    """A refused fill of the line below a frame is repeated by the next unwind or push"""
    for depth in (1, 6):
        for pushes in (False, True):
            yield stack.launch(2)
            line = stack.region + (depth - 1) // TOKENS_PER_LINE * LINE_BYTES
            lines = range(line, line + LINE_BYTES)
            yield from pushed(0, depth)
            yield from _entered(stack)
            yield from pushed(0, stack.on_chip)
            yield stack.ask(StackOperation.WRITE_BACK)
            stack.memory.refusing.add(lines)
            yield from _left(stack, depth)
            top = numbered(depth)
            step = (
                push(top.kind, top.pc, top.mask)
                if pushes
                else unwind(aimed_at(numbered(depth - 1)))
            )
            yield replace(step, fault=Outcome(error=WarpError.MMU_FAULT))
            stack.memory.refusing.remove(lines)
            for _ in range(_PATIENCE):
                outcome = yield replace(step, may_fault=True)
                if outcome.error is WarpError.NONE:
                    break
                yield stack.ask(StackOperation.GET_POINTER)
            assert outcome.error is WarpError.NONE
            yield from taken_off(stack, stack.depth)


def _any_pc(stack: WarpStack) -> Source:
    """The number of holes below a frame is in its TRAP token only: tokens above may have any pc"""
    yield from _trapped(stack, 2, 6)
    for index in range(stack.on_chip):
        yield push(TokenKind.SYNC, 8 * index + 3, 1)
    yield stack.ask(StackOperation.WRITE_BACK)
    yield from _left(stack, 6)
    yield from _off(stack, 6)


def _cleared(stack: WarpStack) -> Source:
    """CLEAR empties the stack of a warp that ends, whatever it holds"""
    for granules, depths in (
        (0, (0, 1, stack.on_chip // 2 + 1, stack.on_chip)),
        (2, (0, 4, 17, USER_LIMIT)),
    ):
        for depth in depths:
            yield from launched(stack, granules, depth)
            outcome = yield clear()
            assert outcome.empty
            assert (yield stack.ask(StackOperation.GET_POINTER)).value == 0
            yield from pushed(0, 3)
            yield from taken_off(stack, 3)


CASES: tuple[Start, ...] = (
    _frames,
    _deep,
    _modes,
    _room,
    _calls,
    _nested,
    _broken,
    _overlapping,
    _rewritten,
    _lowest,
    _pushed_on,
    _no_holes,
    _fault,
    _lost_top,
    _any_pc,
    _cleared,
)
"""All cases of this file. Each begins with a launch."""
