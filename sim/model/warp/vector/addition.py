"""Sums: of two, of three, of a scaled value; the carries between the words of wider sums.

A negated term is its complement plus one. An extended instruction (``.X``) continues a sum or
difference of several words: it adds the carry in place of these ones, and of that of ``.PO``
(ours).
"""

from functools import reduce
from operator import add

import numpy as np

from rtl.isa.fields import PLUS_ONE
from rtl.isa.kinds import HalfSelect, SumShift
from rtl.isa.syntax import PT, Values
from sim.launch import LOCAL_WINDOW, SHARED_WINDOW, WINDOW_BYTES

from .lanes import Bools, LaneOutcome, Sources, Words, bits_of, mask_of, pair, uniform

__all__ = ["extended_addend", "iadd", "iadd3", "iscadd", "lea", "lea_high", "negated", "sum_of"]

_LOW_33_BITS = np.uint64((1 << 33) - 1)
_LOWEST, _HIGHEST = np.int64(-1 << 31), np.int64((1 << 31) - 1)


def negated(term: Words, negate: int) -> Words:
    """Returns a term of a sum, complemented if it is subtracted; the sum's ``plus`` completes the
    negation.
    """
    return ~term if negate else term


def _exact(terms: tuple[Words, ...], plus: Words) -> tuple[Words, Bools]:
    """Returns the low words of a signed sum, saturated, and where it would have overflowed."""
    total = reduce(add, (term.view(np.int32).astype(np.int64) for term in terms)) + plus.astype(
        np.int64
    )
    clamped = np.clip(total, _LOWEST, _HIGHEST)
    return clamped.astype(np.uint32), clamped != total


def sum_of(
    terms: tuple[Words, ...], plus: Words, flags: bool, saturate: bool = False
) -> LaneOutcome:
    """Adds ``terms`` and ``plus``; computes carry and overflow only if ``flags`` is set.

    ``saturate`` replaces a signed overflow by the nearest bound.
    """
    if not flags and not saturate:
        return LaneOutcome(reduce(add, terms) + plus)
    value, overflow = _exact(terms, plus)
    if not saturate:
        value = reduce(add, terms) + plus
    carry = reduce(add, (term.astype(np.uint64) for term in terms)) + plus >> np.uint64(32)
    return LaneOutcome(value, carry=carry != 0, overflow=overflow)


def extended_addend(sources: Sources, values: Values, ones: int) -> Words:
    """Returns the addend besides the terms: ``ones``, or the carry if the instruction is extended."""
    return bits_of(sources.condition.carry) if values.get("extended") else uniform(ones)


def _negations_of_two(values: Values) -> tuple[int, int]:
    """Returns whether a and b are negated. Both flags together encode something else, and negate
    neither.
    """
    flags = values["plus_one"]
    return (0, 0) if flags == PLUS_ONE else (flags >> 1, flags & 1)


def iadd(sources: Sources, values: Values) -> LaneOutcome:
    """IADD and IADD32I: a + b, plus one with ``.PO``."""
    negate_a, negate_b = _negations_of_two(values)
    plus = extended_addend(sources, values, negate_a + negate_b + (values["plus_one"] == PLUS_ONE))
    flags, saturate = bool(values["cc"]), bool(values["saturate"])
    return sum_of(
        (negated(sources.a, negate_a), negated(sources.b, negate_b)), plus, flags, saturate
    )


def iscadd(sources: Sources, values: Values) -> LaneOutcome:
    """ISCADD and ISCADD32I: (a << shift) + b. The carry is that of the 32-bit sum."""
    values = {"plus_one": 0} | dict(values)
    negate_a, negate_b = _negations_of_two(values)
    plus = uniform(negate_a + negate_b + (values["plus_one"] == PLUS_ONE))
    shift, flags = np.uint32(values["shift"]), bool(values["cc"])
    return sum_of(
        (negated(sources.a << shift, negate_a), negated(sources.b, negate_b)), plus, flags
    )


def _half(term: Words, select: int) -> Words:
    """Returns the half of a term that IADD3 selects, or the whole."""
    if select == HalfSelect.H0.value:
        return term & np.uint32(0xFFFF)
    return term >> np.uint32(16) if select == HalfSelect.H1.value else term


def iadd3(sources: Sources, values: Values) -> LaneOutcome:
    """IADD3: a + b + c, or the 33-bit sum of a and b shifted by a half word, + c.

    A sum of three carries 0, 1 or 2, and compiled code adds three 64-bit numbers with two of these
    instructions. So CC holds both carries (ours): C is set for at least one, O for the second, and
    ``.X`` adds both.
    """
    negate = tuple(values[f"negate_{name}"] for name in "abc")
    halves = tuple(values.get(f"half_{name}", HalfSelect.WORD.value) for name in "abc")
    shift, flags, extended = (
        values.get("shift", SumShift.NONE.value),
        bool(values["cc"]),
        bool(values["extended"]),
    )
    ones = 0 if extended else sum(negate)
    a, b, c = (
        negated(_half(term, half), sign)
        for term, half, sign in zip((sources.a, sources.b, sources.c), halves, negate, strict=True)
    )
    plus = np.uint64(ones)
    total = a.astype(np.uint64) + b.astype(np.uint64)
    if shift == SumShift.NONE.value:
        total = total + plus
    else:
        # The ones of a and b are added to their sum, that of c to the total.
        total = total + np.uint64(0 if extended else negate[0] + negate[1])
        total &= _LOW_33_BITS
        total = total >> np.uint64(16) if shift == SumShift.RS.value else total << np.uint64(16)
        total = (total & np.uint64(0xFFFF_FFFF)) + np.uint64(0 if extended else negate[2])
    total = total + c.astype(np.uint64)
    if extended:
        total = total + bits_of(sources.condition.carry) + bits_of(sources.condition.overflow)
    if not flags:
        return LaneOutcome(total.astype(np.uint32))
    carries = total >> np.uint64(32)
    return LaneOutcome(total.astype(np.uint32), carry=carries >= 1, overflow=carries >= 2)


def _outside_windows(high: Words, low: Words) -> int:
    """Returns the threads whose generic address is in neither the shared nor the local window."""
    in_shared = low - np.uint32(SHARED_WINDOW) < WINDOW_BYTES
    in_local = low - np.uint32(LOCAL_WINDOW) < WINDOW_BYTES
    return mask_of((high != 0) | ~(in_shared | in_local))


_NO_WORDS = uniform(0)


def lea(sources: Sources, values: Values) -> LaneOutcome:
    """LEA: (a << shift) + b.

    The predicate is that of LEA.HI for a sum whose high word is 0 (ours: compiled code does not use
    it).
    """
    plus = extended_addend(sources, values, values["negate_a"])
    shift, negate_a = np.uint32(values["shift"]), values["negate_a"]
    flags, tests = bool(values["cc"]), values["Pd"] != PT
    outcome = sum_of((negated(sources.a << shift, negate_a), sources.b), plus, flags)
    if tests and outcome.value is not None:
        outcome.p = _outside_windows(_NO_WORDS, outcome.value)
    return outcome


def lea_high(sources: Sources, values: Values) -> LaneOutcome:
    """LEA.HI: the high word of the pair (c, a) << shift, + b.

    The predicate is whether the address is outside the shared and the local window: a 64-bit
    address whose high word is the result and whose low word is that of the shifted pair (ours, from
    how compiled code splits generic accesses; the low word's own addend is not among the operands).
    """
    negate_a, extended = values["negate_a"], values["extended"]
    plus = extended_addend(sources, values, 0)
    shift, flags, tests = np.uint64(values["shift"]), bool(values["cc"]), values["Pd"] != PT
    wide = pair(sources.a, sources.c) << shift
    if negate_a:
        wide = ~wide if extended else ~wide + np.uint64(1)
    outcome = sum_of(((wide >> np.uint64(32)).astype(np.uint32), sources.b), plus, flags)
    if tests and outcome.value is not None:
        outcome.p = _outside_windows(outcome.value, wide.astype(np.uint32))
    return outcome
