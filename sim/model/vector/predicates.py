"""Logic of predicates and CC, their moves to and from registers, votes, and plain moves of words."""

from collections.abc import Callable

import numpy as np

from rtl.isa.kinds import VoteMode
from rtl.isa.syntax import PT, Values
from rtl.params import WARP_THREADS

from .comparison import combined, truth_words
from .lanes import ALL_THREADS, Condition, Outcome, Sources, Words, bits_of, mask_of, uniform

__all__ = ["cset", "csetp", "mov", "move_lanes", "p2r", "pset", "psetp", "r2p", "vote"]

_CC_BITS = 4
_BYTE = np.uint32(0xFF)
_QUAD = 4


def psetp(values: Values) -> Callable[[Sources], Outcome]:
    """PSETP: two predicates joined, and the opposite, each joined with a third."""
    first, second = values["combine_first"], values["combine"]

    def run(sources: Sources) -> Outcome:
        both = combined(first, sources.x, sources.y)
        return Outcome(p=combined(second, both, sources.z), q=combined(second, ALL_THREADS & ~both, sources.z))

    return run


def pset(values: Values) -> Callable[[Sources], Outcome]:
    """PSET: three predicates joined, as a register."""
    first, second, as_one = values["combine_first"], values["combine"], values["one"]
    return lambda sources: Outcome(
        truth_words(combined(second, combined(first, sources.x, sources.y), sources.z), as_one))


def csetp(values: Values) -> Callable[[Sources], Outcome]:
    """CSETP: a test of CC, and its opposite, each joined with a predicate."""
    test, combine = values["test"], values["combine"]

    def run(sources: Sources) -> Outcome:
        holds = sources.condition.holds(test)
        return Outcome(p=combined(combine, holds, sources.x), q=combined(combine, ALL_THREADS & ~holds, sources.x))

    return run


def cset(values: Values) -> Callable[[Sources], Outcome]:
    """CSET: a test of CC joined with a predicate, as a register."""
    test, combine, as_one = values["test"], values["combine"], values["one"]
    return lambda sources: Outcome(
        truth_words(combined(combine, sources.condition.holds(test), sources.x), as_one))


def _packed(predicates: list[int]) -> Words:
    """The predicates as bits by their number, PT as bit 7."""
    result = uniform(0)
    for number, mask in enumerate(predicates):
        result = result | bits_of(mask) << np.uint32(number)
    return result


def p2r(values: Values) -> Callable[[Sources], Outcome]:
    """P2R: a, with the bits of one byte that the mask b names replaced by predicates or CC (PT reads as bit 7, CC
    has four bits; only the low byte of b counts: ours).
    """
    of_condition, shift = values["which"], np.uint32(8 * values["byte"])

    def run(sources: Sources) -> Outcome:
        bits = sources.condition.nibbles() if of_condition else _packed(sources.predicates)
        mask = sources.b & _BYTE
        return Outcome(sources.a & ~(mask << shift) | (bits & mask) << shift)

    return run


def r2p(values: Values) -> Callable[[Sources], Outcome]:
    """R2P: the predicates, or flags of CC, that the mask b names, from the bits of one byte of a.

    Where b differs between threads, each thread's own mask counts.
    """
    shift = np.uint32(8 * values["byte"])

    def bits(sources: Sources, old: list[int]) -> list[int]:
        word = sources.a >> shift
        masks = [mask_of((sources.b >> np.uint32(number) & np.uint32(1)) != 0) for number in range(len(old))]
        news = [mask_of((word >> np.uint32(number) & np.uint32(1)) != 0) for number in range(len(old))]
        return [before & ~mask | new & mask for before, mask, new in zip(old, masks, news, strict=True)]

    def to_predicates(sources: Sources) -> Outcome:
        return Outcome(predicates=dict(enumerate(bits(sources, sources.predicates[:PT]))))

    def to_condition(sources: Sources) -> Outcome:
        old = sources.condition
        return Outcome(condition=Condition(*bits(sources, [old.zero, old.sign, old.carry, old.overflow])))

    return to_condition if values["which"] else to_predicates


def vote(values: Values) -> Callable[[Sources], Outcome]:
    """VOTE: the executing threads whose predicate holds; and whether all, any, or all or none of them do."""
    mode = VoteMode(values["mode"])

    def run(sources: Sources) -> Outcome:
        ballot = sources.x & sources.threads
        verdict = {VoteMode.ALL: ballot == sources.threads, VoteMode.ANY: ballot != 0,
                   VoteMode.EQ: ballot in (0, sources.threads)}[mode]
        return Outcome(uniform(ballot), p=ALL_THREADS if verdict else 0)

    return run


def move_lanes(values: Values) -> int:
    """The threads that MOV's lane mask lets write: one bit for each thread of a quad (ours)."""
    return sum(values["lanes"] << quad for quad in range(0, WARP_THREADS, _QUAD))


def mov(_values: Values) -> Callable[[Sources], Outcome]:
    """MOV and MOV32I: b."""
    return lambda sources: Outcome(sources.b)
