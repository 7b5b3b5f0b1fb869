"""Comparisons, and selections by them."""

from collections.abc import Callable

import numpy as np

from rtl.isa.kinds import Boolean, Compare, MinMaxPart
from rtl.isa.syntax import Values

from .lanes import (
    ALL_THREADS,
    Bools,
    Condition,
    LaneOutcome,
    Sources,
    Words,
    bits_of,
    bools_of,
    mask_of,
    uniform,
)

__all__ = [
    "CONDITIONS",
    "Operation",
    "combined",
    "icmp",
    "imnmx",
    "iset",
    "isetp",
    "less",
    "sel",
    "set_predicates",
    "set_register",
    "truth_words",
]

Operation = Callable[[Sources, Values], LaneOutcome]
Relation = Callable[[Sources, Values], int]
"""Returns the threads for whose operands the instruction's relation holds."""
_TRUE, _FALSE = uniform(0xFFFF_FFFF), uniform(0)
_ONE = uniform(0x3F80_0000)
CONDITIONS: dict[Compare, Callable[[Bools, Bools], Bools]] = {
    Compare.F: lambda less, equal: np.zeros_like(less),
    Compare.LT: lambda less, equal: less,
    Compare.EQ: lambda less, equal: equal,
    Compare.LE: lambda less, equal: less | equal,
    Compare.GT: lambda less, equal: ~(less | equal),
    Compare.NE: lambda less, equal: ~equal,
    Compare.GE: lambda less, equal: ~less,
    Compare.T: lambda less, equal: np.ones_like(less),
}
"""Each relation, as a function of whether the first number is less than the second, and whether
they are equal.
"""


def combined(operation: int, first: int, second: int) -> int:
    """Combines two predicates, as masks, by a code of Boolean."""
    match Boolean(operation):
        case Boolean.AND:
            return first & second
        case Boolean.OR:
            return first | second
        case Boolean.XOR:
            return first ^ second


def truth_words(mask: int, as_one: int) -> Words:
    """Returns a condition as a register: all ones where it holds, or 1.0 if ``as_one`` is set."""
    return np.where(bools_of(mask), _ONE if as_one else _TRUE, _FALSE)


def less(a: Words, b: Words, signed: int) -> Bools:
    """Returns where a is below b."""
    return a.view(np.int32) < b.view(np.int32) if signed else a < b


def _relation(sources: Sources, values: Values) -> int:
    """Returns the threads in which the relation of a to b holds.

    With ``.X`` a and b are the top words of numbers, and CC holds the difference of the rest: they
    are subtracted with its carry, and are equal only if it was zero.
    """
    condition, signed = CONDITIONS[Compare(values["compare"])], values["signed"]
    if not values.get("extended"):
        return mask_of(condition(less(sources.a, sources.b, signed), sources.a == sources.b))
    borrow = np.int64(1) - bits_of(sources.condition.carry)
    if signed:
        difference = sources.a.view(np.int32).astype(np.int64) - sources.b.view(np.int32) - borrow
    else:
        difference = sources.a.astype(np.int64) - sources.b - borrow
    return mask_of(condition(difference < 0, (difference == 0) & bools_of(sources.condition.zero)))


def set_predicates(relation: Relation) -> Operation:
    """ISETP, FSETP, CSETP: the relation and its complement, each combined with a predicate."""

    def run(sources: Sources, values: Values) -> LaneOutcome:
        holds, combine = relation(sources, values), values["combine"]
        return LaneOutcome(
            p=combined(combine, holds, sources.x),
            q=combined(combine, ALL_THREADS & ~holds, sources.x),
        )

    return run


def set_register(relation: Relation) -> Operation:
    """ISET, FSET, CSET: the relation combined with a predicate, as a register."""

    def run(sources: Sources, values: Values) -> LaneOutcome:
        holds = combined(values["combine"], relation(sources, values), sources.x)
        return LaneOutcome(truth_words(holds, values["one"]))

    return run


isetp, iset = set_predicates(_relation), set_register(_relation)


def icmp(sources: Sources, values: Values) -> LaneOutcome:
    """ICMP: a where the relation holds of c and 0, else b."""
    condition, signed = CONDITIONS[Compare(values["compare"])], values["signed"]
    return LaneOutcome(
        np.where(condition(less(sources.c, _FALSE, signed), sources.c == 0), sources.a, sources.b)
    )


def sel(sources: Sources, _values: Values) -> LaneOutcome:
    """SEL: a where the predicate holds, else b."""
    return LaneOutcome(np.where(bools_of(sources.x), sources.a, sources.b))


def imnmx(sources: Sources, values: Values) -> LaneOutcome:
    """IMNMX: the smaller of a and b where the predicate holds, else the larger.

    Numbers of several words are compared from the top words (``.XHI``) down, and CC carries the
    decision (ours): Z is set while all words were equal, C unless a's words are below b's; S is the
    result's sign and O is clear. ``.XMED`` and ``.XLO`` use the decision if there is one.
    """
    part, signed = MinMaxPart(values["part"]), values["signed"]
    continues = part in (MinMaxPart.XMED, MinMaxPart.XLO)
    below, equal = less(sources.a, sources.b, signed), sources.a == sources.b
    if continues:
        undecided = bools_of(sources.condition.zero)
        below = np.where(undecided, below, ~bools_of(sources.condition.carry))
        equal = undecided & equal
    value = np.where(below == bools_of(sources.x), sources.a, sources.b)
    if part is MinMaxPart.WHOLE:
        return LaneOutcome(value)
    sign = mask_of(value.view(np.int32) < 0)
    return LaneOutcome(value, condition=Condition(mask_of(equal), sign, mask_of(~below), 0))
