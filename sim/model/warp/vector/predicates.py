"""Logic of predicates and CC, their moves to and from registers, votes, and plain moves of words."""

import numpy as np

from rtl.isa.kinds import VoteMode
from rtl.isa.syntax import PT, Values
from rtl.params import WARP_THREADS

from .comparison import combined, set_predicates, set_register, truth_words
from .lanes import ALL_THREADS, Condition, LaneOutcome, Sources, Words, bits_of, mask_of, uniform

__all__ = ["cset", "csetp", "mov", "move_lanes", "p2r", "pset", "psetp", "r2p", "vote"]

_CC_BITS = 4
_BYTE = np.uint32(0xFF)
_QUAD = 4


def psetp(sources: Sources, values: Values) -> LaneOutcome:
    """PSETP: two predicates combined, and the complement, each combined with a third."""
    first, second = values["combine_first"], values["combine"]
    both = combined(first, sources.x, sources.y)
    return LaneOutcome(
        p=combined(second, both, sources.z), q=combined(second, ALL_THREADS & ~both, sources.z)
    )


def pset(sources: Sources, values: Values) -> LaneOutcome:
    """PSET: three predicates combined, as a register."""
    first, second, as_one = values["combine_first"], values["combine"], values["one"]
    return LaneOutcome(
        truth_words(combined(second, combined(first, sources.x, sources.y), sources.z), as_one)
    )


def _condition_test(sources: Sources, values: Values) -> int:
    return sources.condition.holds(values["test"])


csetp, cset = set_predicates(_condition_test), set_register(_condition_test)


def _packed(predicates: list[int]) -> Words:
    """Returns the predicates as bits by their number, with PT as bit 7."""
    result = uniform(0)
    for number, mask in enumerate(predicates):
        result = result | bits_of(mask) << np.uint32(number)
    return result


def p2r(sources: Sources, values: Values) -> LaneOutcome:
    """P2R: a, with the bits of one byte that the mask b selects replaced by predicates or CC.

    PT is bit 7, CC has four bits; only the low byte of b is used (ours).
    """
    of_condition, shift = values["which"], np.uint32(8 * values["byte"])
    bits = sources.condition.nibbles() if of_condition else _packed(sources.predicates)
    mask = sources.b & _BYTE
    return LaneOutcome(sources.a & ~(mask << shift) | (bits & mask) << shift)


def r2p(sources: Sources, values: Values) -> LaneOutcome:
    """R2P: the predicates, or flags of CC, that the mask b selects, from one byte of a.

    Where b differs between threads, each thread uses its own mask.
    """
    word, condition = sources.a >> np.uint32(8 * values["byte"]), sources.condition

    def bits(old: list[int]) -> list[int]:
        masks = [
            mask_of((sources.b >> np.uint32(number) & np.uint32(1)) != 0)
            for number in range(len(old))
        ]
        news = [
            mask_of((word >> np.uint32(number) & np.uint32(1)) != 0) for number in range(len(old))
        ]
        return [
            before & ~mask | new & mask for before, mask, new in zip(old, masks, news, strict=True)
        ]

    if not values["which"]:
        return LaneOutcome(predicates=dict(enumerate(bits(sources.predicates[:PT]))))
    return LaneOutcome(
        condition=Condition(
            *bits([condition.zero, condition.sign, condition.carry, condition.overflow])
        )
    )


def vote(sources: Sources, values: Values) -> LaneOutcome:
    """VOTE: the executing threads whose predicate holds; and whether all do, any does, or all or
    none do.
    """
    mode = VoteMode(values["mode"])
    ballot = sources.x & sources.threads
    everybody, nobody = ballot == sources.threads, ballot == 0
    verdict = {VoteMode.ALL: everybody, VoteMode.ANY: ballot != 0, VoteMode.EQ: everybody | nobody}[
        mode
    ]
    return LaneOutcome(uniform(ballot), p=verdict * ALL_THREADS)


def move_lanes(values: Values) -> int:
    """Returns the threads that MOV's lane mask lets write: one bit for each thread of a quad
    (ours).
    """
    return sum(values["lanes"] << quad for quad in range(0, WARP_THREADS, _QUAD))


def mov(sources: Sources, _values: Values) -> LaneOutcome:
    """MOV and MOV32I: b."""
    return LaneOutcome(sources.b)
