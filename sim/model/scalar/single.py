"""Arithmetic and comparisons in single precision, exact on Python integers and rounded once.

Choices of this project where no public page has a rule: every NaN that an operation makes is 0x7fffffff. A difference
of equal numbers is +0, rounded down -0. A subnormal result is flushed after rounding; FMUL's scale comes before it.
With .FMZ a zero factor makes +0 of the product, whatever the other one is. With .SAT a NaN becomes +0. FMNMX gives the
number beside a NaN, and takes -0 for less than +0. FCHK holds of operands that the short way of a division does not
take: divisors and dividends that are not normal or near the end of the range, and quotients near it. CC is zero and
sign of the result's word.
"""

from collections.abc import Callable

from rtl.isa.kinds import FloatCompare, FloatFlush, ProductScale

from .comparison import FLOAT_ONE, condition_of
from .decode import Instruction, Result, result_of, semantics
from .floats import SINGLE, Rounding, Special, decode, encode, infinity, not_a_number
from .integers import TOP, WORD
from .state import Operation, Thread

__all__: list[str] = []

_NAN = not_a_number(SINGLE)
_SCALE = {ProductScale.NONE: 0, ProductScale.D2: -1, ProductScale.D4: -2, ProductScale.D8: -3, ProductScale.M8: 3,
          ProductScale.M4: 2, ProductScale.M2: 1}
_RELATION: dict[FloatCompare, str] = {
    FloatCompare.F: "", FloatCompare.LT: "<", FloatCompare.EQ: "=", FloatCompare.LE: "<=", FloatCompare.GT: ">",
    FloatCompare.NE: "<>", FloatCompare.GE: ">=", FloatCompare.NUM: "<=>", FloatCompare.NAN: "?",
    FloatCompare.LTU: "<?", FloatCompare.EQU: "=?", FloatCompare.LEU: "<=?", FloatCompare.GTU: ">?",
    FloatCompare.NEU: "<>?", FloatCompare.GEU: ">=?", FloatCompare.T: "<=>?"}
"""The outcomes of a comparison of which each relation holds."""


def _is_tiny(bits: int) -> bool:
    return not bits & 0x7F80_0000


def _flushed(bits: int, flush: int) -> int:
    """A zero of its sign for a subnormal number."""
    return bits & TOP if flush and _is_tiny(bits) else bits


def _operand(i: Instruction, role: str) -> Callable[[Thread], int]:
    """An operand with its signs as the instruction wants them, flushed if it does."""
    at, flush = i.source(role), i["flush"]
    kept = WORD & ~TOP if i[f"absolute_{role}"] else WORD
    flipped = TOP if i[f"negate_{role}"] else 0
    return lambda thread: _flushed(thread.values[at] & kept ^ flipped, flush)


def _fused(a: int, b: int, c: int, rounding: Rounding, scale: int = 0, zero_wins: bool = False) -> int:
    """A * b * 2**scale + c."""
    x, y, z = (decode(bits, SINGLE) for bits in (a, b, c))
    negative = x[0] ^ y[0]
    vanishes = zero_wins and not (a & ~TOP and b & ~TOP)
    if not vanishes and (Special.NAN in (x[1], y[1])
                         or (Special.INFINITY in (x[1], y[1]) and not (a & ~TOP and b & ~TOP))):
        return _NAN
    if z[1] is Special.NAN:
        return _NAN
    if not vanishes and Special.INFINITY in (x[1], y[1]):
        return _NAN if z[1] is Special.INFINITY and z[0] != negative else infinity(negative, SINGLE)
    if len(z) == 2:
        return infinity(z[0], SINGLE)
    if vanishes or len(x) == 2 or len(y) == 2:
        negative, product, exponent = False, 0, 0
    else:
        product, exponent = x[1] * y[1], x[2] + y[2] + scale
    last = min(exponent, z[2])
    total = (-product if negative else product) << exponent - last
    total += (-z[1] if z[0] else z[1]) << z[2] - last
    if not total:
        below = negative if negative == z[0] else rounding is Rounding.DOWN
        return TOP if below else 0
    return encode(total < 0, abs(total), last, SINGLE, rounding)


def _finished(i: Instruction, result: Result) -> Result:
    """A result, flushed and saturated."""
    flush, saturate = i["flush"], i["saturate"]

    def compute(thread: Thread) -> int:
        value = _flushed(result(thread), flush)
        if saturate:
            value = 0 if value & TOP or value > infinity(False, SINGLE) else min(value, FLOAT_ONE)
        return value
    return compute


@result_of("FADD", "FADD32I")
def _add(i: Instruction) -> Result:
    a, b, rounding = _operand(i, "a"), _operand(i, "b"), Rounding(i["round"])
    return _finished(i, lambda thread: _fused(a(thread), FLOAT_ONE, b(thread), rounding))


@result_of("FSWZADD")
def _add_in_quads(i: Instruction) -> Result:
    """Each thread of a quad by its own two letters of PP, NP, PN and ZP: signs of a and b, or no a."""
    a, b, rounding = _operand(i, "a"), _operand(i, "b"), Rounding(i["round"])
    letters = [("PP", "NP", "PN", "ZP")[i["swizzle"] >> shift & 3] for shift in (6, 4, 2, 0)]

    def result(thread: Thread) -> int:
        first, second = letters[thread.lane % 4]
        x = 0 if first == "Z" else a(thread) ^ (TOP if first == "N" else 0)
        return _fused(x, FLOAT_ONE, b(thread) ^ (TOP if second == "N" else 0), rounding)
    return _finished(i, result)


@result_of("FMUL", "FMUL32I")
def _multiply(i: Instruction) -> Result:
    a, b, rounding, scale = _operand(i, "a"), _operand(i, "b"), Rounding(i["round"]), _SCALE[ProductScale(i["scale"])]
    zero_wins = i["flush"] == FloatFlush.FMZ.value

    def result(thread: Thread) -> int:
        x, y = a(thread), b(thread)
        # A zero of the product's sign changes nothing.
        vanishes = zero_wins and not (x & ~TOP and y & ~TOP)
        return _fused(x, y, 0 if vanishes else (x ^ y) & TOP, rounding, scale, zero_wins)
    return _finished(i, result)


@result_of("FFMA", "FFMA32I")
def _multiply_and_add(i: Instruction) -> Result:
    a, b, c, rounding = _operand(i, "a"), _operand(i, "b"), _operand(i, "c"), Rounding(i["round"])
    zero_wins = i["flush"] == FloatFlush.FMZ.value
    return _finished(i, lambda thread: _fused(a(thread), b(thread), c(thread), rounding, zero_wins=zero_wins))


def _order(x: int, y: int) -> str:
    """How two numbers relate."""
    if max(x & ~TOP, y & ~TOP) > infinity(False, SINGLE):
        return "?"
    left, right = (-(bits & ~TOP) if bits & TOP else bits for bits in (x, y))
    return "<" if left < right else ">" if left > right else "="


@condition_of("FSETP", "FSET")
def _relation(i: Instruction) -> Result:
    a, b, holds = _operand(i, "a"), _operand(i, "b"), _RELATION[FloatCompare(i["compare"])]
    return lambda thread: int(_order(a(thread), b(thread)) in holds)


@result_of("FCMP")
def _select(i: Instruction) -> Result:
    """A where c compares with zero, else b; both as they are."""
    a, b, c = i.source("a"), i.source("b"), i.source("c")
    holds, flush = _RELATION[FloatCompare(i["compare"])], i["flush"]

    def compute(thread: Thread) -> int:
        values = thread.values
        return values[a] if _order(_flushed(values[c], flush), 0) in holds else values[b]
    return compute


@result_of("FMNMX")
def _lesser_or_greater(i: Instruction) -> Result:
    a, b = _operand(i, "a"), _operand(i, "b")
    x, negated = i.predicate("x")

    def compute(thread: Thread) -> int:
        numbers = [bits for bits in (a(thread), b(thread)) if bits & ~TOP <= infinity(False, SINGLE)]
        # In this order -0 comes before +0.
        numbers.sort(key=lambda bits: ~(bits & ~TOP) if bits & TOP else bits)
        lesser = thread.predicates[x] != negated
        return numbers[0 if lesser else -1] if numbers else _NAN
    return compute


@semantics("FCHK")
def _check_division(i: Instruction) -> Operation:
    a, b, p = _operand(i, "a"), _operand(i, "b"), i.predicate_destination("p")

    def operation(thread: Thread) -> None:
        dividend, divisor = (max(bits >> 23 & 0xFF, 1) for bits in (a(thread), b(thread)))
        short = 30 <= dividend <= 254 and divisor <= 252 and -124 <= dividend - divisor <= 125
        thread.predicates[p] = int(not short or _is_tiny(b(thread)))
    return operation
