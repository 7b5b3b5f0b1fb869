"""Comparisons, selections, and operations on predicates and CC.

A comparison with .X goes on with one of the lower words: it compares by what a - b - 1 + carry gives, and its words
are equal only if CC's zero flag says that the lower ones were. That is what 64-bit comparisons compile to, an IADD into
RZ.CC before it.

The upper word of a long minimum or maximum (IMNMX.XHI) is compared first and leaves in CC: zero if the words were
equal, carry unless a was below b, the result's sign, and no overflow. The lower parts go on with that: they follow the
decision if there was one, else make it themselves, and leave the same (ours; the order is the one that compiled code
has).
IMNMX of a whole word, and everything else here that writes CC, leaves zero and sign of its result (ours).
"""

from collections.abc import Callable

from rtl.isa.condition import TRUTH
from rtl.isa.kinds import Boolean, Compare, MinMaxPart, VideoSecond

from .decode import Instruction, semantics
from .integers import CARRY, SIGN, TOP, WORD, ZERO, carry_in, flags_of_result, signed
from .state import Operation, Thread

__all__ = ["BOOLEAN"]

FLOAT_ONE = 0x3F80_0000

BOOLEAN: dict[Boolean, Callable[[int, int], int]] = {
    Boolean.AND: lambda x, y: x & y,
    Boolean.OR: lambda x, y: x | y,
    Boolean.XOR: lambda x, y: x ^ y,
}
"""How two predicates are joined."""
_RELATION: dict[Compare, Callable[[bool, bool], bool]] = {
    Compare.F: lambda less, equal: False,
    Compare.LT: lambda less, equal: less,
    Compare.EQ: lambda less, equal: equal,
    Compare.LE: lambda less, equal: less or equal,
    Compare.GT: lambda less, equal: not (less or equal),
    Compare.NE: lambda less, equal: not equal,
    Compare.GE: lambda less, equal: not less,
    Compare.T: lambda less, equal: True,
}


def _comparison(i: Instruction, b: str = "b") -> Callable[[Thread], int]:
    """Whether a stands in the instruction's relation to b (or another operand)."""
    x_at, y_at, relation = i.source("a"), i.source(b), _RELATION[Compare(i["compare"])]
    bias = TOP if i["signed"] else 0

    def extended(thread: Thread) -> int:
        values = thread.values
        x, y = values[x_at] ^ bias, values[y_at] ^ bias
        total = x + (y ^ WORD) + carry_in(thread.condition)
        return int(relation(not total >> 32, not total & WORD and bool(thread.condition & ZERO)))

    def single(thread: Thread) -> int:
        values = thread.values
        x, y = values[x_at] ^ bias, values[y_at] ^ bias
        return int(relation(x < y, x == y))
    return extended if i["extended"] else single


def predicate_results(i: Instruction, first: Callable[[Thread], int]) -> Operation:
    """Writes p = first op x and q = not first op x; the last predicate source may be called z."""
    p, q, following = i.predicate_destination("p"), i.predicate_destination("q"), i.next
    x, negated = i.predicate("z" if "z" in i.form.operands else "x")
    combine = BOOLEAN[Boolean(i["combine"])]

    def operation(thread: Thread) -> int:
        predicates = thread.predicates
        holds, other = first(thread), predicates[x] ^ negated
        predicates[p] = combine(holds, other)
        predicates[q] = combine(holds ^ 1, other)
        return following
    return operation


def register_result(i: Instruction, first: Callable[[Thread], int]) -> Operation:
    """Writes all ones (or, with .BF, 1.0) where first op x, else 0."""
    d, following, one, set_cc = i.destination(), i.next, FLOAT_ONE if i["one"] else WORD, i["cc"]
    x, negated = i.predicate("z" if "z" in i.form.operands else "x")
    combine = BOOLEAN[Boolean(i["combine"])]

    def operation(thread: Thread) -> int:
        result = one if combine(first(thread), thread.predicates[x] ^ negated) else 0
        thread.values[d] = result
        if set_cc:
            thread.condition = flags_of_result(result)
        return following
    return operation


@semantics("ISETP")
def _compare_to_predicates(i: Instruction) -> Operation:
    return predicate_results(i, _comparison(i))


@semantics("ISET")
def _compare_to_register(i: Instruction) -> Operation:
    return register_result(i, _comparison(i))


def _condition_test(i: Instruction) -> Callable[[Thread], int]:
    truth = TRUTH[i["test"]]
    return lambda thread: truth >> thread.condition & 1


@semantics("CSETP")
def _test_to_predicates(i: Instruction) -> Operation:
    return predicate_results(i, _condition_test(i))


@semantics("CSET")
def _test_to_register(i: Instruction) -> Operation:
    return register_result(i, _condition_test(i))


def _two_predicates(i: Instruction) -> Callable[[Thread], int]:
    (x, not_x), (y, not_y) = i.predicate("x"), i.predicate("y")
    combine = BOOLEAN[Boolean(i["combine_first"])]
    return lambda thread: combine(thread.predicates[x] ^ not_x, thread.predicates[y] ^ not_y)


@semantics("PSETP")
def _predicates_to_predicates(i: Instruction) -> Operation:
    return predicate_results(i, _two_predicates(i))


@semantics("PSET")
def _predicates_to_register(i: Instruction) -> Operation:
    return register_result(i, _two_predicates(i))


@semantics("ICMP")
def _select_by_sign(i: Instruction) -> Operation:
    """Selection by a sign: a where c compares with 0, else b."""
    d, a, b, c, following = i.destination(), i.source("a"), i.source("b"), i.source("c"), i.next
    relation, is_signed = _RELATION[Compare(i["compare"])], i["signed"]

    def operation(thread: Thread) -> int:
        values = thread.values
        value = values[c]
        values[d] = values[a] if relation(bool(is_signed and value & TOP), value == 0) else values[b]
        return following
    return operation


@semantics("SEL")
def _select(i: Instruction) -> Operation:
    d, a, b, following = i.destination(), i.source("a"), i.source("b"), i.next
    x, negated = i.predicate("x")

    def operation(thread: Thread) -> int:
        values = thread.values
        values[d] = values[a] if thread.predicates[x] != negated else values[b]
        return following
    return operation


@semantics("IMNMX")
def _lesser_or_greater(i: Instruction) -> Operation:
    """The lesser of a and b where the predicate holds, else the greater."""
    d, a, b, following, set_cc = i.destination(), i.source("a"), i.source("b"), i.next, i["cc"]
    x, negated = i.predicate("x")
    bias = TOP if i["signed"] else 0
    part = MinMaxPart(i["part"])
    continues = part in (MinMaxPart.XLO, MinMaxPart.XMED)

    def operation(thread: Thread) -> int:
        values = thread.values
        left, right = values[a], values[b]
        less, equal = left ^ bias < right ^ bias, left == right
        if continues and not thread.condition & ZERO:
            less, equal = not thread.condition & CARRY, False
        result = values[d] = left if less == (thread.predicates[x] != negated) else right
        if set_cc:
            order = (ZERO if equal else 0) | (0 if less else CARRY) | flags_of_result(result) & SIGN
            thread.condition = flags_of_result(result) if part is MinMaxPart.WHOLE else order
        return following
    return operation


@semantics("VMNMX", "VABSDIFF")
def _video(i: Instruction) -> Operation:
    """Lesser, greater or difference of a and b, then its sum, lesser or greater with c."""
    d, a, b, c, following = i.destination(), i.source("a"), i.source("b"), i.source("c"), i.next
    to_signed, saturate, set_cc, then = i["signed_d"], i["saturate"], i["cc"], VideoSecond(i["then"])
    lowest, highest = (-TOP, TOP - 1) if to_signed else (0, WORD)
    difference, greater = i.name == "VABSDIFF", i["larger"]
    sign_a, sign_b = i["signs"] & 1, i["signs"] >> 1

    def operation(thread: Thread) -> int:
        values = thread.values
        x = signed(values[a]) if sign_a else values[a]
        y = signed(values[b]) if sign_b else values[b]
        first = abs(x - y) if difference else max(x, y) if greater else min(x, y)
        if saturate:
            first = min(max(first, lowest), highest)
        first = signed(first) if to_signed else first & WORD
        third = signed(values[c]) if to_signed else values[c]
        match then:
            case VideoSecond.ACC:
                first += third
            case VideoSecond.MIN:
                first = min(first, third)
            case VideoSecond.MAX:
                first = max(first, third)
            case VideoSecond.NONE:
                pass
        result = values[d] = first & WORD
        if set_cc:
            thread.condition = flags_of_result(result)
        return following
    return operation
