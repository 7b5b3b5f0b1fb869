"""Double-precision arithmetic and comparisons, exact in Python integers and rounded once.

Choices of this project where no public page has a rule: every generated NaN is 0x7ff8000000000000.
Zeros, DMNMX and CC are as in single precision (:mod:`.single`), with CC computed from both words. A
64-bit operand in a constant bank may begin at any word; a word beyond the bank's end is 0.
"""

from collections.abc import Callable

from rtl.isa.kinds import FloatCompare

from .comparison import condition_of
from .conversion import write_wide
from .decode import Result, ThreadInstruction, semantics
from .floats import DOUBLE, Rounding, fused, lesser_and_greater, order
from .single import RELATION
from .state import Operation, Thread

__all__: list[str] = []

_TOP = 1 << DOUBLE.bits - 1
_ONE = DOUBLE.bias << DOUBLE.fraction


def _operand(i: ThreadInstruction, role: str) -> Callable[[Thread], int]:
    """An operand with the instruction's negation and absolute value applied."""
    low, high = i.sources(role, 2)
    kept = _TOP - 1 if i[f"absolute_{role}"] else 2 * _TOP - 1
    flipped = _TOP if i[f"negate_{role}"] else 0
    return lambda thread: (thread.values[low] | thread.values[high] << 32) & kept ^ flipped


def _writing(i: ThreadInstruction, compute: Result) -> Operation:
    places, set_cc = i.destinations(2), i["cc"]
    return lambda thread: write_wide(thread, places, compute(thread), set_cc)


@semantics("DADD")
def _add(i: ThreadInstruction) -> Operation:
    a, b, rounding = _operand(i, "a"), _operand(i, "b"), Rounding(i["round"])
    return _writing(i, lambda thread: fused(a(thread), _ONE, b(thread), DOUBLE, rounding))


@semantics("DMUL")
def _multiply(i: ThreadInstruction) -> Operation:
    a, b, rounding = _operand(i, "a"), _operand(i, "b"), Rounding(i["round"])

    def result(thread: Thread) -> int:
        x, y = a(thread), b(thread)
        # Adding a zero of the product's sign changes nothing.
        return fused(x, y, (x ^ y) & _TOP, DOUBLE, rounding)

    return _writing(i, result)


@semantics("DFMA")
def _multiply_and_add(i: ThreadInstruction) -> Operation:
    a, b, c, rounding = _operand(i, "a"), _operand(i, "b"), _operand(i, "c"), Rounding(i["round"])
    return _writing(i, lambda thread: fused(a(thread), b(thread), c(thread), DOUBLE, rounding))


@semantics("DMNMX")
def _lesser_or_greater(i: ThreadInstruction) -> Operation:
    a, b = _operand(i, "a"), _operand(i, "b")
    x, negated = i.predicate("x")

    def result(thread: Thread) -> int:
        lesser = thread.predicates[x] != negated
        return lesser_and_greater(a(thread), b(thread), DOUBLE)[0 if lesser else 1]

    return _writing(i, result)


@condition_of("DSETP", "DSET")
def _relation(i: ThreadInstruction) -> Result:
    a, b, holds = _operand(i, "a"), _operand(i, "b"), RELATION[FloatCompare(i["compare"])]
    return lambda thread: int(order(a(thread), b(thread), DOUBLE) in holds)
