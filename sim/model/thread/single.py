"""Single-precision arithmetic and comparisons, exact in Python integers and rounded once.

Choices of this project where no public page has a rule: every generated NaN is 0x7fffffff. A
difference of equal numbers is +0, or -0 when rounding down. A subnormal result is flushed after
rounding; FMUL's scale is applied before it. With .FMZ the product of a zero and any factor is +0.
With .SAT a NaN becomes +0. FMNMX returns the number beside a NaN, and orders -0 below +0. FCHK is
true for operands that the fast path of a division does not handle: divisors and dividends that are
not normal or near the end of the range, and quotients near it. CC has the zero and sign of the
result's word.
"""

from collections.abc import Callable

from rtl.isa.kinds import FloatCompare, FloatFlush, ProductScale

from .comparison import FLOAT_ONE, condition_of
from .decode import Result, ThreadInstruction, result_of, semantics
from .floats import SINGLE, Rounding, fused, infinity, lesser_and_greater, order
from .integers import TOP, WORD
from .state import Operation, Thread

__all__ = ["RELATION", "sum_flushed"]

_SCALE = {
    ProductScale.NONE: 0,
    ProductScale.D2: -1,
    ProductScale.D4: -2,
    ProductScale.D8: -3,
    ProductScale.M8: 3,
    ProductScale.M4: 2,
    ProductScale.M2: 1,
}
RELATION: dict[FloatCompare, str] = {
    FloatCompare.F: "",
    FloatCompare.LT: "<",
    FloatCompare.EQ: "=",
    FloatCompare.LE: "<=",
    FloatCompare.GT: ">",
    FloatCompare.NE: "<>",
    FloatCompare.GE: ">=",
    FloatCompare.NUM: "<=>",
    FloatCompare.NAN: "?",
    FloatCompare.LTU: "<?",
    FloatCompare.EQU: "=?",
    FloatCompare.LEU: "<=?",
    FloatCompare.GTU: ">?",
    FloatCompare.NEU: "<>?",
    FloatCompare.GEU: ">=?",
    FloatCompare.T: "<=>?",
}
"""The outcomes of a comparison for which each relation holds."""


def _is_tiny(bits: int) -> bool:
    return not bits & 0x7F80_0000


def _flushed(bits: int, flush: int) -> int:
    """Replaces a subnormal number with a zero of its sign, if ``flush`` is set."""
    return bits & TOP if flush and _is_tiny(bits) else bits


def _operand(i: ThreadInstruction, role: str) -> Callable[[Thread], int]:
    """Returns a function that reads an operand, with its absolute value and negation applied,
    flushed if the instruction flushes.
    """
    at, flush = i.source(role), i["flush"]
    kept = WORD & ~TOP if i[f"absolute_{role}"] else WORD
    flipped = TOP if i[f"negate_{role}"] else 0
    return lambda thread: _flushed(thread.values[at] & kept ^ flipped, flush)


def sum_flushed(a: int, b: int) -> int:
    """FADD.FTZ of two numbers, rounded to nearest."""
    return _flushed(
        fused(_flushed(a, 1), FLOAT_ONE, _flushed(b, 1), SINGLE, Rounding.NEAREST_EVEN), 1
    )


def _finished(i: ThreadInstruction, result: Result) -> Result:
    """Returns a result function with flushing and saturation applied."""
    flush, saturate = i["flush"], i["saturate"]

    def compute(thread: Thread) -> int:
        value = _flushed(result(thread), flush)
        if saturate:
            value = 0 if value & TOP or value > infinity(False, SINGLE) else min(value, FLOAT_ONE)
        return value

    return compute


@result_of("FADD", "FADD32I")
def _add(i: ThreadInstruction) -> Result:
    a, b, rounding = _operand(i, "a"), _operand(i, "b"), Rounding(i["round"])
    return _finished(i, lambda thread: fused(a(thread), FLOAT_ONE, b(thread), SINGLE, rounding))


@result_of("FSWZADD")
def _add_in_quads(i: ThreadInstruction) -> Result:
    """FSWZADD: PP, NP, PN or ZP gives, for each thread of a quad, the signs of a and b; Z replaces
    a with 0.
    """
    a, b, rounding = _operand(i, "a"), _operand(i, "b"), Rounding(i["round"])
    letters = [("PP", "NP", "PN", "ZP")[i["swizzle"] >> shift & 3] for shift in (6, 4, 2, 0)]

    def result(thread: Thread) -> int:
        first, second = letters[thread.lane % 4]
        x = 0 if first == "Z" else a(thread) ^ (TOP if first == "N" else 0)
        return fused(x, FLOAT_ONE, b(thread) ^ (TOP if second == "N" else 0), SINGLE, rounding)

    return _finished(i, result)


@result_of("FMUL", "FMUL32I")
def _multiply(i: ThreadInstruction) -> Result:
    a, b, rounding, scale = (
        _operand(i, "a"),
        _operand(i, "b"),
        Rounding(i["round"]),
        _SCALE[ProductScale(i["scale"])],
    )
    zero_wins = i["flush"] == FloatFlush.FMZ.value

    def result(thread: Thread) -> int:
        x, y = a(thread), b(thread)
        # Adding a zero of the product's sign changes nothing.
        vanishes = zero_wins and not (x & ~TOP and y & ~TOP)
        return fused(x, y, 0 if vanishes else (x ^ y) & TOP, SINGLE, rounding, scale, zero_wins)

    return _finished(i, result)


@result_of("FFMA", "FFMA32I")
def _multiply_and_add(i: ThreadInstruction) -> Result:
    a, b, c, rounding = _operand(i, "a"), _operand(i, "b"), _operand(i, "c"), Rounding(i["round"])
    zero_wins = i["flush"] == FloatFlush.FMZ.value
    return _finished(
        i,
        lambda thread: fused(
            a(thread), b(thread), c(thread), SINGLE, rounding, zero_wins=zero_wins
        ),
    )


@condition_of("FSETP", "FSET")
def _relation(i: ThreadInstruction) -> Result:
    a, b, holds = _operand(i, "a"), _operand(i, "b"), RELATION[FloatCompare(i["compare"])]
    return lambda thread: int(order(a(thread), b(thread), SINGLE) in holds)


@result_of("FCMP")
def _select(i: ThreadInstruction) -> Result:
    """Selects a where the relation holds of c and zero, else b; both unchanged."""
    a, b, c = i.source("a"), i.source("b"), i.source("c")
    holds, flush = RELATION[FloatCompare(i["compare"])], i["flush"]

    def compute(thread: Thread) -> int:
        values = thread.values
        return values[a] if order(_flushed(values[c], flush), 0, SINGLE) in holds else values[b]

    return compute


@result_of("FMNMX")
def _lesser_or_greater(i: ThreadInstruction) -> Result:
    a, b = _operand(i, "a"), _operand(i, "b")
    x, negated = i.predicate("x")

    def compute(thread: Thread) -> int:
        lesser = thread.predicates[x] != negated
        return lesser_and_greater(a(thread), b(thread), SINGLE)[0 if lesser else 1]

    return compute


@semantics("FCHK")
def _check_division(i: ThreadInstruction) -> Operation:
    a, b, p = _operand(i, "a"), _operand(i, "b"), i.predicate_destination("p")

    def operation(thread: Thread) -> None:
        dividend, divisor = (max(bits >> 23 & 0xFF, 1) for bits in (a(thread), b(thread)))
        short = 30 <= dividend <= 254 and divisor <= 252 and -124 <= dividend - divisor <= 125
        thread.predicates[p] = int(not short or _is_tiny(b(thread)))

    return operation
