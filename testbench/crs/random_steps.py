"""Random operations on one warp's stack. Unwinds search mostly for tokens that exist."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random

from rtl.isa.errors import WarpError
from rtl.isa.tokens import TOKEN_BYTES, TokenKind
from rtl.layouts import StackOperation, ThreadCode
from rtl.params import WARP_THREADS
from sim.model.warp.retirement import StackToken
from testbench.crs.reference import Request
from testbench.crs.steps import (
    Codes,
    Source,
    Step,
    WarpStack,
    clear,
    code_for,
    frame,
    restore,
    unwind,
    whole_lines,
)

_GRANULES = (0, 1, 1, 2, 2, 6)
_GRANULES_OF_FAULTS = (1, 1, 2)
"""Region sizes in granules; small, so that an unwind has a chance to succeed without a fault."""
_KINDS = (
    TokenKind.SYNC,
    TokenKind.DIVERGE,
    TokenKind.BREAK,
    TokenKind.CONTINUE,
    TokenKind.RETURN,
    TokenKind.EXIT,
    TokenKind.LONGJMP,
)
_ODD_KINDS = (TokenKind.QUAD, TokenKind.TRAP, TokenKind.NONE, TokenKind.MASKS)
_ENDS = (ThreadCode.EXIT, ThreadCode.KILLED, ThreadCode.RETURN)
_RARE = 0.01
_MOOD_LENGTH = 40
"""The maximum number of operations of one mood."""


@dataclass(frozen=True)
class _Mood:
    """A distribution of operations that a warp uses for a while: probability of a push, and depths
    of unwinds below the top.
    """

    push: float
    depths: tuple[int, ...]


_NEAR = (1, 1, 2, 3, 4, 5, 6, 8, 12, 17, 30, 60)
_MOODS = (
    _Mood(1.0, _NEAR),
    _Mood(1.0, _NEAR),
    _Mood(0.1, _NEAR),
    _Mood(0.5, _NEAR),
    _Mood(0.0, (20, 40, 80, 200)),
)


def _random_codes(stack: WarpStack, random: Random, depths: tuple[int, ...]) -> Codes:
    """Thread codes for an unwind: mostly such that a token one of ``depths`` below the top stops
    it.
    """
    tokens = stack.reference.tokens
    if not tokens or random.random() < 0.1:
        choices = _ENDS if random.random() < 1 - _RARE else tuple(ThreadCode)
        return tuple(random.choice(choices) for _ in range(WARP_THREADS))
    token = tokens[-min(random.choice(depths), len(tokens))]
    code = code_for(token.kind)
    return tuple(
        code if token.mask >> thread & 1 and random.random() < 0.7 else ThreadCode.KILLED
        for thread in range(WARP_THREADS)
    )


def _push(stack: WarpStack, random: Random, pair: bool) -> Step:
    operation = random.choice(
        (*[StackOperation.PUSH] * 5, StackOperation.CALL, StackOperation.PREPARE_CALL)
    )
    kind = random.choice(_KINDS) if operation is StackOperation.PUSH else TokenKind.RETURN
    if random.random() < _RARE:
        kind = random.choice(_ODD_KINDS)
    mask = random.choice(
        (1 << random.randrange(WARP_THREADS), random.getrandbits(32) & random.getrandbits(32), 0)
    )
    pc = random.getrandbits(29) << 3 | (random.random() < _RARE) << 2
    return Step(
        Request(
            operation,
            kind,
            pc,
            mask,
            _random_codes(stack, random, _NEAR),
            random.random() < 0.97,
            pair,
        )
    )


def _move(stack: WarpStack) -> Iterator[Step]:
    """Moves the memory of the stack to another address, as software does."""
    yield stack.ask(StackOperation.WRITE_BACK)
    base = stack.allocate(stack.local + stack.reference.granules)
    stack.copy_to(base)
    yield stack.ask(StackOperation.SET_BASE, base)


def _set(stack: WarpStack, random: Random) -> Iterator[Step]:
    """Sets the pointer to a random depth, after a write-back."""
    yield stack.ask(StackOperation.WRITE_BACK)
    stack.learn()
    depth = random.choice(
        (
            whole_lines(stack.depth),
            random.randrange(stack.size // TOKEN_BYTES + 8),
            random.getrandbits(17),
        )
    )
    yield stack.ask(StackOperation.SET_POINTER, random.getrandbits(9) << 23 | depth)


def _trap(stack: WarpStack, random: Random) -> Iterator[Step]:
    """Enters the trap handler, conditionally or not, executes some operations there, and mostly
    leaves by restoring the frame.
    """
    yield stack.ask(StackOperation.SET_MODE, random.choice((1, 3)))
    if not stack.reference.trap:
        return
    active, *left = (random.getrandbits(32) & random.getrandbits(32) for _ in range(7))
    trap = StackToken(
        TokenKind.TRAP, random.getrandbits(29) << 3 | (random.random() < _RARE), active
    )
    yield from frame(stack.depth, trap, *zip(left[::2], left[1::2], strict=True))
    for _ in range(random.choice((0, 2, 10, 40))):
        yield _push(stack, random, False)
        if random.random() < 0.2:
            yield unwind(_random_codes(stack, random, (1, 2)))
    if random.random() < 0.2:
        yield stack.ask(StackOperation.WRITE_BACK)
    yield restore() if random.random() < 0.9 else stack.ask(StackOperation.SET_MODE, 0)


def _others(stack: WarpStack, random: Random) -> Iterator[Step]:
    """One of the rarer operations, with the operations that it needs before."""
    chances: dict[Callable[[], Iterable[Step]], float] = {
        lambda: [stack.ask(StackOperation.GET_POINTER)]: 6,
        lambda: [stack.ask(StackOperation.GET_BASE)]: 3,
        lambda: [Step(Request(StackOperation.NONE, codes=_random_codes(stack, random, _NEAR)))]: 3,
        lambda: [stack.ask(StackOperation.SET_MODE, random.getrandbits(1))]: 2,
        lambda: [stack.ask(StackOperation.WRITE_BACK)]: 6,
        lambda: _set(stack, random): 3,
        lambda: _move(stack): 1,
        lambda: _trap(stack, random): 6,
        lambda: [restore()]: 2,
        lambda: [clear()]: 0.3,
    }
    yield from random.choices(list(chances), list(chances.values()))[0]()


def _sequence(stack: WarpStack, random: Random, granules: Sequence[int]) -> Iterator[Step]:
    """An endless sequence of operations, beginning with a launch."""
    yield _launch(stack, random, granules)
    while True:
        mood = random.choice(_MOODS)
        for _ in range(random.randint(1, _MOOD_LENGTH)):
            if random.random() < mood.push:
                pair = random.random() < 0.1
                yield _push(stack, random, pair)
                if pair:
                    yield _push(stack, random, False)
            elif random.random() < 0.8:
                yield unwind(_random_codes(stack, random, mood.depths), quad=random.random() < 0.06)
            else:
                yield from _others(stack, random)
        if random.random() < 0.05:
            yield _launch(stack, random, granules)


def _launch(stack: WarpStack, random: Random, granules: Sequence[int]) -> Step:
    return stack.launch(
        random.choice(granules), check_calls=random.random() < 0.5, local=random.randrange(4)
    )


def operations(stack: WarpStack, random: Random, count: int, *, faults: bool = False) -> Source:
    """About ``count`` random operations.

    With ``faults`` memory may refuse lines: a step that fails with MMU_FAULT must have changed
    nothing, and is repeated.
    """
    granules = _GRANULES_OF_FAULTS if faults else _GRANULES
    for _, step in zip(range(count), _sequence(stack, random, granules), strict=False):
        tried = replace(step, may_fault=faults)
        while (yield tried).error is WarpError.MMU_FAULT:
            yield stack.ask(StackOperation.GET_POINTER)
    yield stack.ask(StackOperation.WRITE_BACK)
