"""Directed cases of a stack on chip: each operation, each kind of token, each error, each limit.

The first line of the docstring of a case is the name of the check. Cases that need memory are in
``cases_memory``.
"""

from rtl.isa.errors import WarpError
from rtl.isa.tokens import API_CALL_LIMIT, CRS_GRANULE, TOKEN_BYTES, TRAP_RESERVE, TokenKind
from rtl.layouts import StackOperation, ThreadCode
from sim.model.warp.retirement import StackToken
from testbench.crs.steps import (
    Source,
    Start,
    Step,
    WarpStack,
    aimed_at,
    code_for,
    codes_of,
    push,
    unwind,
)

USER_LIMIT = 2 * CRS_GRANULE // TOKEN_BYTES - TRAP_RESERVE
"""Tokens that user mode may hold in a region of two granules."""
PENDING = (TokenKind.BREAK, TokenKind.CONTINUE, TokenKind.RETURN, TokenKind.EXIT, TokenKind.LONGJMP)
"""Token kinds on which threads may be pending: they have left the active mask early."""
_HOLDING = (TokenKind.SYNC, TokenKind.DIVERGE)
_ALL = 0xFFFF_FFFF
_OVER = codes_of({})
"""The codes of a warp whose threads were all killed: no token makes any of them active."""
_BOUNDARIES = (0, 1, 3, 4, 5, 15, 16, 17, USER_LIMIT - 1, USER_LIMIT)


def numbered(index: int) -> StackToken:
    """Token number ``index``. It differs from its neighbours: the kinds alternate, and each token
    has the mask of one thread.
    """
    kinds = _HOLDING + PENDING
    return StackToken(kinds[index % len(kinds)], 8 * index + 0x1000, 1 << index % 32)


def pushed(first: int, end: int) -> Source:
    """Pushes the numbered tokens from ``first`` up to, but not including, ``end``."""
    for index in range(first, end):
        token = numbered(index)
        assert (yield push(token.kind, token.pc, token.mask)).error is WarpError.NONE


def launched(stack: WarpStack, granules: int, tokens: int) -> Source:
    """Launches a warp and pushes the first ``tokens`` numbered tokens."""
    yield stack.launch(granules)
    yield from pushed(0, tokens)


def taken_off(stack: WarpStack, count: int) -> Source:
    """Pops the topmost ``count`` tokens, which must be numbered ones, one by one."""
    for _ in range(count):
        token = stack.reference.tokens[-1]
        outcome = yield unwind(aimed_at(token))
        assert outcome.resume
        assert (outcome.kind, outcome.pc, outcome.mask) == (token.kind, token.pc, token.mask)


def _depth(stack: WarpStack) -> Step:
    return stack.ask(StackOperation.GET_POINTER)


def _every_depth(stack: WarpStack) -> Source:
    """Tokens are popped one by one from every depth"""
    yield stack.launch(2)
    for depth in _BOUNDARIES:
        yield from pushed(0, depth)
        assert (yield _depth(stack)).value == (depth + 3) // 4 * 4
        yield from taken_off(stack, depth)
        assert (yield _depth(stack)).value == 0
        outcome = yield unwind(_OVER)
        assert outcome.empty
        assert not outcome.resume


def _every_way_down(stack: WarpStack) -> Source:
    """An unwind finds the lowest token below any number of tokens of killed threads"""
    yield stack.launch(2)
    for depth in _BOUNDARIES[1:]:
        yield push(TokenKind.SYNC, pc=0x40, mask=0xF0)
        for index in range(1, depth):
            yield push(TokenKind.DIVERGE if index % 2 else TokenKind.BREAK, pc=8 * index, mask=0xF)
        outcome = yield unwind({ThreadCode.NONE: 0xF0})
        assert (outcome.kind, outcome.pc, outcome.mask) == (TokenKind.SYNC, 0x40, 0xF0)
        yield from pushed(0, depth)
        assert (yield unwind(_OVER)).empty
        assert (yield _depth(stack)).value == 0


def _overflow(stack: WarpStack) -> Source:
    """A push beyond the limit is refused, also the first push of a pair"""
    yield from launched(stack, 2, USER_LIMIT - 1)
    assert (yield push(TokenKind.SYNC, pair=True)).error is WarpError.STACK_OVERFLOW
    yield from pushed(USER_LIMIT - 1, USER_LIMIT)
    for operation in (StackOperation.PUSH, StackOperation.CALL, StackOperation.PREPARE_CALL):
        assert (yield push(TokenKind.RETURN, operation=operation)).error is WarpError.STACK_OVERFLOW
    assert (yield _depth(stack)).value == USER_LIMIT
    yield from taken_off(stack, 2)
    assert (yield push(TokenKind.DIVERGE, pair=True)).error is WarpError.NONE
    assert (yield push(TokenKind.DIVERGE)).error is WarpError.NONE
    assert (yield push(TokenKind.DIVERGE)).error is WarpError.STACK_OVERFLOW


def _on_chip_alone(stack: WarpStack) -> Source:
    """Without memory the limit is the number of entries on chip, in every mode"""
    for trap in (0, 1):
        yield stack.launch(0)
        yield stack.ask(StackOperation.SET_MODE, trap)
        yield from pushed(0, stack.on_chip)
        assert (yield push(TokenKind.SYNC)).error is WarpError.STACK_OVERFLOW
        yield stack.ask(StackOperation.WRITE_BACK)
        yield from taken_off(stack, 5)
        yield from pushed(stack.on_chip - 5, stack.on_chip)
        yield from taken_off(stack, stack.on_chip)
        yield from pushed(0, 6)
        outcome = yield stack.ask(StackOperation.SET_POINTER, 3 << 23 | 8)
        assert outcome.error is WarpError.STACK_ERROR
        assert (yield _depth(stack)).value == 3 << 23
        assert (yield unwind(_OVER)).empty


def _modes(stack: WarpStack) -> Source:
    """The trap handler may fill the reserved entries; user mode can't push to them"""
    yield from launched(stack, 1, TRAP_RESERVE)
    assert (yield push(TokenKind.SYNC)).error is WarpError.STACK_OVERFLOW
    yield stack.ask(StackOperation.SET_MODE, 1)
    yield from pushed(TRAP_RESERVE, 2 * TRAP_RESERVE - 1)
    assert (yield push(TokenKind.SYNC, pair=True)).error is WarpError.STACK_OVERFLOW
    yield from pushed(2 * TRAP_RESERVE - 1, 2 * TRAP_RESERVE)
    assert (yield push(TokenKind.SYNC)).error is WarpError.STACK_OVERFLOW
    yield from taken_off(stack, 3)
    yield stack.ask(StackOperation.SET_MODE, 0)
    assert (yield push(TokenKind.SYNC)).error is WarpError.STACK_OVERFLOW
    yield from taken_off(stack, TRAP_RESERVE - 3)
    assert (yield push(TokenKind.SYNC)).error is WarpError.STACK_OVERFLOW
    yield from taken_off(stack, 1)
    yield from pushed(TRAP_RESERVE - 1, TRAP_RESERVE)


def _holding_kinds(stack: WarpStack) -> Source:
    """SYNC and DIVERGE make the threads active that are not pending on another token"""
    yield stack.launch(0)
    for kind in _HOLDING:
        yield push(TokenKind.SYNC, pc=0x8, mask=_ALL)
        yield push(kind, pc=0x48, mask=0xFFFF)
        outcome = yield unwind(
            {ThreadCode.NONE: 0xF_0F0F, ThreadCode.BREAK: 0xF0, ThreadCode.EXIT: 0xF000}
        )
        assert (outcome.kind, outcome.pc, outcome.mask) == (kind, 0x48, 0x0F0F)
        yield push(kind, pc=0x48, mask=0xFFFF)
        left = {code_for(pending): 1 << thread for thread, pending in enumerate(PENDING)}
        outcome = yield unwind({ThreadCode.NONE: 0xF_0000, **left})
        assert (outcome.kind, outcome.mask) == (TokenKind.SYNC, 0xF_0000)


def _pending_kinds(stack: WarpStack) -> Source:
    """BREAK, CONTINUE, RETURN, EXIT and LONGJMP revive pending threads; others are an error"""
    yield stack.launch(0)
    for kind in PENDING:
        others = {
            code_for(other): 0x10 << n for n, other in enumerate(PENDING) if other is not kind
        }
        yield push(TokenKind.SYNC, pc=0x8, mask=_ALL)
        yield push(kind, pc=0x50, mask=0xFFFF)
        outcome = yield unwind({code_for(kind): 0x1_0003, **others})
        assert (outcome.kind, outcome.pc, outcome.mask) == (kind, 0x50, 0x3)
        assert outcome.codes == codes_of({code_for(kind): 0x1_0000, ThreadCode.NONE: 0x3, **others})
        yield push(kind, pc=0x50, mask=0xFFFF)
        for waiting in (0x8000, 0xFFFF):
            outcome = yield unwind({ThreadCode.NONE: waiting, code_for(kind): 0xFFFF & ~waiting})
            assert outcome.error is WarpError.STACK_ERROR
        outcome = yield unwind({ThreadCode.NONE: 0x1_0000, **others})
        assert (outcome.kind, outcome.mask) == (TokenKind.SYNC, 0x1_0000)


def _kinds_that_stop_no_unwind(stack: WarpStack) -> Source:
    """An unwind that reaches QUAD, TRAP or MASKS fails; it skips NONE"""
    for kind in (TokenKind.QUAD, TokenKind.TRAP, TokenKind.MASKS):
        yield stack.launch(0)
        yield push(kind, pc=0x48, mask=_ALL)
        yield push(TokenKind.SYNC, pc=0x8, mask=0x3)
        assert (yield unwind({ThreadCode.NONE: 0xC})).error is WarpError.STACK_ERROR
        assert (yield unwind({ThreadCode.NONE: 0x2})).mask == 0x2
        assert (yield unwind({ThreadCode.NONE: 0x2})).error is WarpError.STACK_ERROR
    yield push(TokenKind.NONE, pc=0x48, mask=_ALL)
    assert (yield unwind({ThreadCode.NONE: 0x2})).error is WarpError.STACK_ERROR
    yield stack.launch(0)
    yield push(TokenKind.SYNC, pc=0x8, mask=0xF)
    for _ in range(6):
        yield push(TokenKind.NONE, pc=0x49, mask=_ALL)
    assert (yield unwind({ThreadCode.NONE: 0x2})).pc == 0x8


def _quads(stack: WarpStack) -> Source:
    """POP_QUAD pops a QUAD token on top or under holes; other tokens and threads are errors"""
    yield stack.launch(0)
    assert (yield unwind({ThreadCode.NONE: _ALL}, quad=True)).error is WarpError.STACK_ERROR
    yield push(TokenKind.SYNC, pc=0x8, mask=_ALL)
    yield push(TokenKind.QUAD, pc=0x4, mask=0xFF)
    outcome = yield unwind({ThreadCode.NONE: 0xF0F}, quad=True)
    assert (outcome.resume, outcome.kind, outcome.mask) == (True, TokenKind.QUAD, 0xF)
    assert (yield unwind({ThreadCode.NONE: _ALL}, quad=True)).error is WarpError.STACK_ERROR
    yield push(TokenKind.QUAD, mask=0xFF)
    for _ in range(5):
        yield push(TokenKind.NONE, mask=_ALL)
    assert (yield unwind({ThreadCode.NONE: 0xF00}, quad=True)).error is WarpError.STACK_ERROR
    assert (yield unwind({ThreadCode.NONE: 0x010}, quad=True)).mask == 0x10
    assert (yield unwind({ThreadCode.NONE: 0x80})).mask == 0x80


def _dead_above_living(stack: WarpStack) -> Source:
    """An unwind fails at a token of the wrong kind, and at a QUAD token of other threads"""
    odd = (TokenKind.QUAD, TokenKind.TRAP, TokenKind.MASKS)
    for quad, below, above in (
        (True, TokenKind.QUAD, (*odd, *_HOLDING, *PENDING)),
        (False, TokenKind.SYNC, odd),
    ):
        for kind in above:
            yield stack.launch(0)
            yield push(below, pc=0x8, mask=0xF)
            yield push(kind, pc=0x48, mask=0xF0)
            outcome = yield unwind({ThreadCode.NONE: 0xF}, quad=quad)
            assert outcome.error is WarpError.STACK_ERROR


def _ends(stack: WarpStack) -> Source:
    """An empty stack ends the warp, unless a thread is still pending"""
    yield stack.launch(0)
    outcome = yield unwind({ThreadCode.EXIT: 0x00FF_FFFF})
    assert (outcome.empty, outcome.error) == (True, WarpError.NONE)
    yield push(TokenKind.BREAK, mask=0x3)
    outcome = yield unwind({ThreadCode.RETURN: 0xF, ThreadCode.EXIT: 0xF0})
    assert (outcome.empty, outcome.error) == (True, WarpError.RET_EMPTY_STACK_ERROR)
    for code in ThreadCode:
        if code not in (ThreadCode.EXIT, ThreadCode.KILLED, ThreadCode.RETURN):
            outcome = yield unwind({code: 1 << 31, ThreadCode.RETURN: 1})
            assert (outcome.empty, outcome.error) == (False, WarpError.STACK_ERROR)


def _failing_unwind(stack: WarpStack) -> Source:
    """An unwind that fails far below the top leaves the stack unchanged"""
    yield stack.launch(2)
    for depth in (3, 4, 13, stack.on_chip, stack.on_chip + 1, 30):
        yield push(TokenKind.QUAD, mask=1)
        yield from pushed(1, depth)
        before = (yield _depth(stack)).value
        assert (yield unwind(_OVER)).error is WarpError.STACK_ERROR
        assert (yield _depth(stack)).value == before
        yield from taken_off(stack, depth - 1)
        yield unwind({ThreadCode.NONE: 1}, quad=True)


def _misaligned(stack: WarpStack) -> Source:
    """A misaligned pc is an error, and its token stays on the stack"""
    yield stack.launch(0)
    for bit in range(3):
        yield push(TokenKind.SYNC, pc=0x40 | 1 << bit, mask=1)
        for _ in range(2):
            assert (yield unwind({ThreadCode.NONE: 1})).error is WarpError.MISALIGNED_PC


def _disabled(stack: WarpStack) -> Source:
    """A request that is not enabled has no effect"""
    yield stack.launch(-(-(stack.on_chip + TRAP_RESERVE) * TOKEN_BYTES // CRS_GRANULE))
    for depth in (0, 3, stack.on_chip):
        yield from pushed(stack.depth, depth)
        for operation in (StackOperation.PUSH, StackOperation.CALL, StackOperation.PREPARE_CALL):
            outcome = yield push(TokenKind.RETURN, operation=operation, enable=False)
            assert outcome.error is WarpError.NONE
        assert not (yield unwind(_OVER, enable=False)).empty
        assert (yield _depth(stack)).value == (depth + 3) // 4 * 4


def _call_limit(stack: WarpStack) -> Source:
    """At the limit of the API call depth a call fails, and a prepared call sets the kill bit"""
    call, prepare = StackOperation.CALL, StackOperation.PREPARE_CALL
    yield stack.launch(8, check_calls=True)
    for index in range(API_CALL_LIMIT):
        outcome = yield push(
            TokenKind.RETURN, 8 * index, 1, operation=prepare if index % 2 else call
        )
        assert outcome.error is WarpError.NONE
    assert (yield push(TokenKind.RETURN, 0, 1, operation=call)).error is WarpError.API_STACK_ERROR
    assert (yield push(TokenKind.RETURN, 0, 2)).error is WarpError.NONE, (
        "a token that does not count"
    )
    assert (yield push(TokenKind.RETURN, 0, 1, operation=prepare)).error is WarpError.NONE
    assert (yield _depth(stack)).value == 1 << 31 | API_CALL_LIMIT << 23 | API_CALL_LIMIT + 4
    assert (yield unwind({ThreadCode.RETURN: 1})).pc == 8 * (API_CALL_LIMIT - 1)
    assert (yield _depth(stack)).value == 1 << 31 | API_CALL_LIMIT - 1 << 23 | API_CALL_LIMIT
    assert (yield push(TokenKind.RETURN, 0, 1, operation=prepare)).error is WarpError.NONE
    assert (yield _depth(stack)).value == API_CALL_LIMIT << 23 | API_CALL_LIMIT
    yield push(TokenKind.RETURN, operation=prepare)
    assert (yield unwind(_OVER)).empty
    assert (yield _depth(stack)).value == 0


def _calls_without_limit(stack: WarpStack) -> Source:
    """With the check disabled the API call depth is counted modulo 256"""
    yield stack.launch(9)
    for index in range(260):
        outcome = yield push(
            TokenKind.RETURN, 8 * index, 2 - index // 200, operation=StackOperation.CALL
        )
        assert outcome.error is WarpError.NONE
    assert (yield _depth(stack)).value == 4 << 23 | 260
    assert (yield unwind({ThreadCode.RETURN: 2})).pc == 8 * 199
    assert (yield _depth(stack)).value == 199 << 23 | 200


def _uncounted_calls(stack: WarpStack) -> Source:
    """Only counted RETURN tokens decrement the API call depth"""
    yield stack.launch(0, check_calls=True)
    yield push(TokenKind.RETURN, 0x40, 1, operation=StackOperation.CALL)
    yield push(TokenKind.RETURN, 0x48, 2, operation=StackOperation.CALL)
    yield push(TokenKind.RETURN, 0x50, 4)
    yield push(TokenKind.SYNC, 0x58, 8)
    assert (yield unwind({ThreadCode.RETURN: 4})).pc == 0x50
    assert (yield _depth(stack)).value == 2 << 23 | 4
    assert (yield unwind({ThreadCode.RETURN: 1})).pc == 0x40
    assert (yield _depth(stack)).value == 0


def _relaunch(stack: WarpStack) -> Source:
    """A launch empties the stack and resets mode, call depth and kill bit"""
    yield stack.launch(1, check_calls=True)
    yield stack.ask(StackOperation.SET_MODE, 1)
    for _ in range(2 * TRAP_RESERVE):
        yield push(TokenKind.RETURN, 0, 1, operation=StackOperation.CALL)
    yield push(TokenKind.RETURN, operation=StackOperation.PREPARE_CALL)
    yield stack.launch(1, check_calls=True)
    assert (yield _depth(stack)).value == 0
    yield from pushed(0, TRAP_RESERVE)
    assert (yield push(TokenKind.SYNC)).error is WarpError.STACK_OVERFLOW


CASES: tuple[Start, ...] = (
    _every_depth,
    _every_way_down,
    _overflow,
    _on_chip_alone,
    _modes,
    _holding_kinds,
    _pending_kinds,
    _kinds_that_stop_no_unwind,
    _quads,
    _dead_above_living,
    _ends,
    _failing_unwind,
    _misaligned,
    _disabled,
    _call_limit,
    _calls_without_limit,
    _uncounted_calls,
    _relaunch,
)
"""All cases of this file. Each begins with a launch."""
