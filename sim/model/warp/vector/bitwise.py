"""Shifts, bit fields, logic, byte permutations and bit counts. None of them sets C or O."""

from collections.abc import Callable, Iterator
from functools import reduce
from operator import and_, or_

import numpy as np

from rtl.isa.kinds import FunnelWidth, Logic, PermuteMode, PredicateTest
from rtl.isa.syntax import PT, Values

from .lanes import Condition, Doubles, LaneOutcome, Sources, Words, bools_of, mask_of, pair, uniform

__all__ = ["bfe", "bfi", "flo", "highest_bit", "lop", "lop3", "popc", "prmt", "shf", "shl", "shr"]

_WORD_BITS = np.uint32(32)
_TOP_BIT = np.uint32(31)
_NONE = uniform(0xFFFF_FFFF)
_ONE = uniform(1)


def _count(sources: Sources, values: Values) -> Words:
    """Returns the shift count: b modulo 32, or clamped to 32."""
    return sources.b & _TOP_BIT if values["wrap"] else np.minimum(sources.b, _WORD_BITS)


def _reversed(word: Words) -> Words:
    """Returns words with their bits in reverse order."""
    for step, keep in (
        (1, 0x5555_5555),
        (2, 0x3333_3333),
        (4, 0x0F0F_0F0F),
        (8, 0x00FF_00FF),
        (16, 0x0000_FFFF),
    ):
        word = (word >> np.uint32(step)) & np.uint32(keep) | (word & np.uint32(keep)) << np.uint32(
            step
        )
    return word


def shl(sources: Sources, values: Values) -> LaneOutcome:
    """SHL: a << b."""
    count = _count(sources, values)
    return LaneOutcome((sources.a.astype(np.uint64) << count).astype(np.uint32))


def shr(sources: Sources, values: Values) -> LaneOutcome:
    """SHR: a >> b, sign- or zero-filled; ``.BREV`` reverses the bits of a first."""
    count, signed, reverse = _count(sources, values), values["signed"], values["reverse"]
    a = _reversed(sources.a) if reverse else sources.a
    if signed:
        wide = a.view(np.int32).astype(np.int64) >> count.astype(np.int64)
        return LaneOutcome(wide.astype(np.uint32))
    return LaneOutcome((a.astype(np.uint64) >> count).astype(np.uint32))


def _shifted_right(wide: Doubles, count: Words, signed: bool) -> Doubles:
    """Shifts a 64-bit value right by any count."""
    near = np.minimum(count, np.uint32(63)).astype(np.uint64)
    if signed:
        return (wide.view(np.int64) >> near.view(np.int64)).view(np.uint64)
    return np.where(count > 63, np.uint64(0), wide >> near)


def shf(sources: Sources, values: Values, left: bool) -> LaneOutcome:
    """SHF: the pair (c, a) shifted by b: its high word after a left shift, its low word after a
    right shift.

    The count is clamped to 32, or to 64 where the pair is one number; ``.W`` takes it modulo that.
    """
    most = 32 if values["width"] == FunnelWidth.B32.value else 64
    signed = values["width"] == FunnelWidth.S64.value
    wrap = np.uint32(most - 1) if values["wrap"] else None
    wide = pair(sources.a, sources.c)
    count = sources.b & wrap if wrap is not None else np.minimum(sources.b, np.uint32(most))
    if left:
        shifted = np.where(
            count > 63, np.uint64(0), wide << np.minimum(count, np.uint32(63)).astype(np.uint64)
        )
        return LaneOutcome((shifted >> np.uint64(32)).astype(np.uint32))
    return LaneOutcome(_shifted_right(wide, count, signed).astype(np.uint32))


def bfe(sources: Sources, values: Values) -> LaneOutcome:
    """BFE: the field of a with lowest bit b[7:0] and length b[15:8], sign- or zero-extended.

    The missing bits of a field beyond the end of a are copies of a's top bit, or zeros.
    """
    signed, reverse = bool(values["signed"]), values["reverse"]
    a = _reversed(sources.a) if reverse else sources.a
    position, length = sources.b & np.uint32(0xFF), sources.b >> np.uint32(8) & np.uint32(0xFF)
    wide = a.view(np.int32).astype(np.int64).view(np.uint64) if signed else a.astype(np.uint64)
    moved = _shifted_right(wide, position, signed)
    # A left shift followed by a right shift cuts the field to its length and extends it.
    spare = np.uint64(64) - np.minimum(length, np.uint32(63)).astype(np.uint64)
    spare = np.minimum(spare, np.uint64(63))
    cut = _shifted_right(moved << spare, spare.astype(np.uint32), signed)
    return LaneOutcome(np.where(length == 0, np.uint32(0), cut.astype(np.uint32)))


def bfi(sources: Sources, _values: Values) -> LaneOutcome:
    """BFI: c with the field of b (lowest bit b[7:0], length b[15:8]) replaced by the low bits of a."""
    position = np.minimum(sources.b & np.uint32(0xFF), _WORD_BITS).astype(np.uint64)
    length = np.minimum(sources.b >> np.uint32(8) & np.uint32(0xFF), _WORD_BITS).astype(np.uint64)
    field = (np.uint64(1) << length) - np.uint64(1) << position
    inserted = sources.a.astype(np.uint64) << position & field
    return LaneOutcome((sources.c & ~field | inserted).astype(np.uint32))


def _predicate_of(values: Values, result: Words) -> int | None:
    """Returns the predicate result of a logic operation: a test of the result; without one, false
    (ours).
    """
    if values.get("Pd", PT) == PT:
        return None
    match PredicateTest(values["predicate_test"]):
        case PredicateTest.T:
            return mask_of(np.ones_like(result, np.bool_))
        case PredicateTest.Z:
            return mask_of(result == 0)
        case PredicateTest.NZ:
            return mask_of(result != 0)
        case _:
            return 0


def lop(sources: Sources, values: Values) -> LaneOutcome:
    """LOP and LOP32I: AND, OR or XOR of a and b, or b alone, each optionally inverted.

    With ``.X`` they are the top words of longer numbers: the test, and CC's zero flag, are whether
    the whole result is 0; CC's old zero flag covers its lower words.
    """
    invert_a, invert_b, operation = (
        values["invert_a"],
        values["invert_b"],
        Logic(values["operation"]),
    )
    a = ~sources.a if invert_a else sources.a
    b = ~sources.b if invert_b else sources.b
    match operation:
        case Logic.AND:
            result = a & b
        case Logic.OR:
            result = a | b
        case Logic.XOR:
            result = a ^ b
        case Logic.PASS_B:
            result = b
    if not values["extended"]:
        return LaneOutcome(result, p=_predicate_of(values, result))
    whole = np.where(bools_of(sources.condition.zero), result, _ONE)
    sign = mask_of(result.view(np.int32) < 0)
    return LaneOutcome(
        result, p=_predicate_of(values, whole), condition=Condition(mask_of(whole == 0), sign)
    )


def lop3(sources: Sources, values: Values) -> LaneOutcome:
    """LOP3: any bitwise function of a, b and c; its truth table is indexed by {a, b, c}."""
    minterms = [index for index in range(8) if values["lut"] >> index & 1]

    def terms(sources: Sources) -> Iterator[Words]:
        for index in minterms:
            bits = ((sources.a, index >> 2), (sources.b, index >> 1), (sources.c, index))
            yield reduce(and_, (word if bit & 1 else ~word for word, bit in bits))

    result = reduce(or_, terms(sources), np.zeros_like(sources.a))
    return LaneOutcome(result, p=_predicate_of(values, result))


_PICKED: dict[PermuteMode, Callable[[Words, np.uint32], Words]] = {
    PermuteMode.INDEX: lambda selector, place: selector >> np.uint32(4) * place & np.uint32(15),
    PermuteMode.F4E: lambda selector, place: (selector & np.uint32(3)) + place,
    PermuteMode.B4E: lambda selector, place: (selector & np.uint32(3)) - place & np.uint32(7),
    PermuteMode.RC8: lambda selector, place: selector & np.uint32(3),
    PermuteMode.ECL: lambda selector, place: np.maximum(selector & np.uint32(3), place),
    PermuteMode.ECR: lambda selector, place: np.minimum(selector & np.uint32(3), place),
    PermuteMode.RC16: lambda selector, place: (
        (selector & np.uint32(1)) * np.uint32(2) + (place & np.uint32(1))
    ),
}
"""The selector of a byte of the result, the lowest being byte 0.

Bits 2:0 of a selector name the source byte among {c, a}; bit 3 replicates its sign instead.
"""


def prmt(sources: Sources, values: Values) -> LaneOutcome:
    """PRMT: selects four of the bytes of a (0 to 3) and c (4 to 7) by b."""
    pick = _PICKED[PermuteMode(values["mode"])]
    wide, result = pair(sources.a, sources.c), np.zeros_like(sources.a)
    for place in range(4):
        number = pick(sources.b, np.uint32(place))
        shift = (number & np.uint32(7)) * np.uint32(8)
        byte = (wide >> shift).astype(np.uint32) & np.uint32(0xFF)
        sign = np.where(byte & np.uint32(0x80), np.uint32(0xFF), np.uint32(0))
        result |= np.where(number & np.uint32(8), sign, byte) << np.uint32(8 * place)
    return LaneOutcome(result)


def popc(sources: Sources, values: Values) -> LaneOutcome:
    """POPC: the number of 1 bits of b, optionally inverted."""
    invert = values["invert_b"]
    return LaneOutcome(np.bitwise_count(~sources.b if invert else sources.b).astype(np.uint32))


def highest_bit(wide: Doubles) -> Doubles:
    """Returns the position of the highest 1 bit of 64-bit values, 0 for 0."""
    number = np.zeros_like(wide)
    for step in (32, 16, 8, 4, 2, 1):
        shift = np.where(wide >> np.uint64(step) != 0, np.uint64(step), np.uint64(0))
        wide, number = wide >> shift, number + shift
    return number


def flo(sources: Sources, values: Values) -> LaneOutcome:
    """FLO: the position of the highest 1 bit of b (for a negative signed b, of the highest 0 bit),
    all ones if there is none.

    ``.SH`` counts from the top instead.
    """
    invert, signed, shift = values["invert_b"], values["signed"], values["shift"]
    b = ~sources.b if invert else sources.b
    if signed:
        b = np.where(b.view(np.int32) < 0, ~b, b)
    number = highest_bit(b.astype(np.uint64)).astype(np.uint32)
    return LaneOutcome(np.where(b == 0, _NONE, _TOP_BIT - number if shift else number))
