"""Comparisons, selections, and operations on predicates and CC.

A comparison with .X continues a number of several words: it compares by the result of a - b - 1 +
carry, and the numbers are equal only if CC's zero flag says that the lower words were. Compiled
code compares 64-bit numbers with an IADD into RZ.CC followed by such a comparison.

A minimum or maximum of several words starts at the upper word (IMNMX.XHI), which sets CC: zero if
the words were equal, carry unless a was below b, the result's sign, and no overflow. The lower
words follow: if the upper words differed they keep that decision, else they compare, and they set
the same flags (ours; the order is that of compiled code). IMNMX of a single word, and everything
else here that writes CC, sets zero and sign of its result (ours).
"""

from collections.abc import Callable

from rtl.isa.condition import TRUTH
from rtl.isa.kinds import Boolean, Compare, MinMaxPart

from .decode import Result, ThreadInstruction, result_of, semantics
from .integers import CARRY, SIGN, TOP, WORD, ZERO, carry_in, flags_of_result
from .state import Operation, Thread

__all__ = ["BOOLEAN", "RELATION", "condition_of", "writes_predicates"]

FLOAT_ONE = 0x3F80_0000

BOOLEAN: dict[Boolean, Callable[[int, int], int]] = {
    Boolean.AND: lambda x, y: x & y,
    Boolean.OR: lambda x, y: x | y,
    Boolean.XOR: lambda x, y: x ^ y,
}
"""The combination of two predicates."""
RELATION: dict[Compare, Callable[[bool, bool], bool]] = {
    Compare.F: lambda less, equal: False,
    Compare.LT: lambda less, equal: less,
    Compare.EQ: lambda less, equal: equal,
    Compare.LE: lambda less, equal: less or equal,
    Compare.GT: lambda less, equal: not (less or equal),
    Compare.NE: lambda less, equal: not equal,
    Compare.GE: lambda less, equal: not less,
    Compare.T: lambda less, equal: True,
}
"""Each relation, as a function of whether the first number is less than the second, and whether
they are equal.
"""


def writes_predicates(i: ThreadInstruction, first: Result) -> Operation:
    """Returns an operation that writes p = first op x and q = not first op x; the form may call x
    z.
    """
    p, q = i.predicate_destination("p"), i.predicate_destination("q")
    x, negated = i.predicate("z" if "z" in i.form.operands else "x")
    combine = BOOLEAN[Boolean(i["combine"])]

    def operation(thread: Thread) -> None:
        predicates = thread.predicates
        holds, other = first(thread), predicates[x] ^ negated
        predicates[p] = combine(holds, other)
        predicates[q] = combine(holds ^ 1, other)

    return operation


def _to_register(i: ThreadInstruction, first: Result) -> Result:
    """Returns all ones (or, with .BF, 1.0) where first op x holds, else 0."""
    one = FLOAT_ONE if i["one"] else WORD
    x, negated = i.predicate("z" if "z" in i.form.operands else "x")
    combine = BOOLEAN[Boolean(i["combine"])]

    return lambda thread: one if combine(first(thread), thread.predicates[x] ^ negated) else 0


def condition_of(
    to_predicates: str, to_register: str
) -> Callable[[Callable[[ThreadInstruction], Result]], None]:
    """Registers the decorated maker of a condition for two instructions: one writes the condition
    to predicates, the other to a register.
    """

    def register(make: Callable[[ThreadInstruction], Result]) -> None:
        semantics(to_predicates)(lambda i: writes_predicates(i, make(i)))
        result_of(to_register)(lambda i: _to_register(i, make(i)))

    return register


@condition_of("ISETP", "ISET")
def _comparison(i: ThreadInstruction) -> Result:
    """Whether the instruction's relation holds of a and b."""
    x_at, y_at, relation = i.source("a"), i.source("b"), RELATION[Compare(i["compare"])]
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


@condition_of("CSETP", "CSET")
def _condition_test(i: ThreadInstruction) -> Result:
    truth = TRUTH[i["test"]]
    return lambda thread: truth >> thread.condition & 1


@condition_of("PSETP", "PSET")
def _two_predicates(i: ThreadInstruction) -> Result:
    (x, not_x), (y, not_y) = i.predicate("x"), i.predicate("y")
    combine = BOOLEAN[Boolean(i["combine_first"])]
    return lambda thread: combine(thread.predicates[x] ^ not_x, thread.predicates[y] ^ not_y)


@result_of("ICMP")
def _select_by_sign(i: ThreadInstruction) -> Result:
    """Selects a where the relation holds of c and 0, else b."""
    a, b, c = i.source("a"), i.source("b"), i.source("c")
    relation, is_signed = RELATION[Compare(i["compare"])], i["signed"]

    def compute(thread: Thread) -> int:
        values = thread.values
        value = values[c]
        return values[a] if relation(bool(is_signed and value & TOP), value == 0) else values[b]

    return compute


@result_of("SEL")
def _select(i: ThreadInstruction) -> Result:
    a, b = i.source("a"), i.source("b")
    x, negated = i.predicate("x")

    def compute(thread: Thread) -> int:
        values = thread.values
        return values[a] if thread.predicates[x] != negated else values[b]

    return compute


@semantics("IMNMX")
def _lesser_or_greater(i: ThreadInstruction) -> Operation:
    """The minimum of a and b where the predicate holds, else the maximum."""
    d, a, b, set_cc = i.destination(), i.source("a"), i.source("b"), i["cc"]
    x, negated = i.predicate("x")
    bias = TOP if i["signed"] else 0
    part = MinMaxPart(i["part"])
    continues = part in (MinMaxPart.XLO, MinMaxPart.XMED)

    def operation(thread: Thread) -> None:
        values = thread.values
        left, right = values[a], values[b]
        less, equal = left ^ bias < right ^ bias, left == right
        if continues and not thread.condition & ZERO:
            less, equal = not thread.condition & CARRY, False
        result = values[d] = left if less == (thread.predicates[x] != negated) else right
        if set_cc:
            order = (ZERO if equal else 0) | (0 if less else CARRY) | flags_of_result(result) & SIGN
            thread.condition = flags_of_result(result) if part is MinMaxPart.WHOLE else order

    return operation
