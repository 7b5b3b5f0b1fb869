"""Quotients, reciprocals and roots in double precision, rounded once in every direction: functions that code calls.

As in single precision (:mod:`.single_division`), on all numbers: a division is that of numbers between 1 and 2, a root
that of a number between 1 and 4. The float unit knows the upper words' reciprocals and roots to some 20 bits, which
Newton's method doubles twice. The sign of an exact rest says how a quotient is rounded.
"""

from collections.abc import Callable, Mapping

from rtl.isa.kinds import Boolean, Compare, FloatCompare, Logic, MultiFunction
from sim.toolchain.compiler.abi import STACK_POINTER, STANDARD_CLOBBERS
from sim.toolchain.compiler.ir import PT, RZ, SIGN, Function, Source, Value, number
from sim.toolchain.compiler.layout import Layout
from sim.toolchain.ptx.module import Instruction

from .builder import Builder
from .double import (
    INFINITY,
    LEAST,
    ONE,
    Pair,
    absolute,
    compared,
    computed,
    double,
    negated,
    operand,
)
from .long import shifted_left, shifted_right
from .roundings import ROUNDINGS

__all__ = ["DOUBLE_DIVISIONS"]

_DIRECTIONS = ("rn", "rz", "rm", "rp")
_REGISTERS = range(4, 8)
"""Where a function has dividend and divisor; the result is in the first two."""
_HALF = [RZ, number(0x3FE0_0000)]
_TWO_54 = [RZ, number(0x4350_0000)]
_TWO_27 = [RZ, number(0x41A0_0000)]
_THREE_EIGHTHS = [RZ, number(0x3FD8_0000)]
_FIFTY_FOUR = 54
_LARGE, _FOUR = 0x7FE0_0000, [RZ, number(0x4010_0000)]
"""Numbers whose product is beyond all: the upper word of one."""
_EXPONENT = number(20 | 11 << 8)
"""Place and length of the exponent in the upper word, for BFE."""
_BIAS, _TOP_EXPONENT = 1023, 2047
_HALF_STEP = 53
"""A half of a significand's last bit, as a power of 2 below it."""
_SHIFT_LIMIT = 55
"""A significand that is shifted by as much is less than half of what is left."""


def _fused(b: Builder, x: Pair, y: Pair, z: Pair, direction: str = "rn") -> Pair:
    # A product's sign stands at its second factor.
    if x[0].negated:
        x, y = y, x
    return computed(b, "DFMA", x, y, z, round=ROUNDINGS[direction])


def _chosen(b: Builder, x: Pair, y: Pair, condition: Source) -> Pair:
    return [b.compute("SEL", one, other, condition) for one, other in zip(x, y, strict=True)]


def _and(b: Builder, x: Source, bits: int) -> Source:
    return b.compute("LOP", x, number(bits), operation=Logic.AND)


def _or(b: Builder, x: Source, y: Source) -> Source:
    return b.compute("LOP", x, y, operation=Logic.OR)


def _field(b: Builder, x: Pair) -> Source:
    return b.compute("BFE", x[1], _EXPONENT, signed=False)


class _Part:
    """An operand between 1 and 2, with its sign and without, and its exponent; zeros, infinities and NaNs are as they
    are.
    """

    def __init__(self, b: Builder, x: Pair) -> None:
        tiny = compared(b, FloatCompare.LT, absolute(x), LEAST)
        normal = _chosen(b, computed(b, "DMUL", x, _TWO_54), x, tiny)
        self.exponent = b.compute(
            "IADD", _field(b, normal), b.compute("SEL", number(-_FIFTY_FOUR), RZ, tiny)
        )
        positive = compared(b, FloatCompare.GT, absolute(x), [RZ, RZ])
        self.ordinary = compared(b, FloatCompare.LT, absolute(x), INFINITY, positive)
        high = _or(b, _and(b, normal[1], 0x800F_FFFF), ONE[1])
        self.value = _chosen(b, [normal[0], high], x, self.ordinary)
        self.size = [self.value[0], _and(b, self.value[1], SIGN - 1)]


def _begin(name: str, count: int) -> tuple[Builder, list[Pair]]:
    """A function and its numbers."""
    function = Function(name, False, [])
    b = Builder(function, Layout(), {}, Value("stack", fixed=STACK_POINTER))
    function.stack = b.stack
    b.begin(b.block)
    function.parameters = [b.temporary(fixed=register) for register in _REGISTERS[: 2 * count]]
    words = [b.compute("MOV", Source(value)) for value in function.parameters]
    return b, [words[at : at + 2] for at in range(0, len(words), 2)]


def _finish(b: Builder, result: Pair) -> Function:
    b.function.results = [b.temporary(fixed=register) for register in _REGISTERS[:2]]
    for value, word in zip(b.function.results, result, strict=True):
        b.op("MOV", [value], word)
    b.end("ret")
    return b.function


def _estimate(b: Builder, function: MultiFunction, x: Pair) -> Pair:
    return [RZ, b.compute("MUFU", x[1], function=function)]


def _division(name: str, direction: str) -> Function:
    b, numbers = _begin(name, 2)
    x, y = (_Part(b, words) for words in numbers)
    first = _estimate(b, MultiFunction.RCP64H, y.size)
    inverse = first
    for _ in range(3):
        inverse = _fused(b, inverse, _fused(b, negated(y.size), inverse, ONE), inverse)
    nearest = computed(b, "DMUL", x.size, inverse)
    for _ in range(2):
        nearest = _fused(b, _fused(b, negated(y.size), nearest, x.size), inverse, nearest)
    cut = _fused(b, _fused(b, negated(y.size), nearest, x.size), inverse, nearest, "rz")
    rest = _fused(b, negated(y.size), cut, x.size)
    power = b.compute("IADD", x.exponent, y.exponent.negate())
    sign = _and(b, b.compute("LOP", x.value[1], y.value[1], operation=Logic.XOR), SIGN)
    more = compared(b, FloatCompare.NE, rest, [RZ, RZ])
    small = _subnormal(b, cut, power, more, sign, direction)
    rounded = _rounded(b, cut, rest, y.size, more, sign, direction)
    exponent = b.compute("IADD", _field(b, rounded), power)
    result = [rounded[0], b.compute("IADD", b.compute("SHL", power, number(20)), rounded[1])]
    result = _chosen(b, small, result, b.test(Compare.LT, exponent, number(1)))
    result = [result[0], _or(b, result[1], sign)]
    beyond = computed(
        b, "DMUL", [RZ, _or(b, sign, number(_LARGE))], _FOUR, round=ROUNDINGS[direction]
    )
    result = _chosen(b, beyond, result, b.test(Compare.GE, exponent, number(_TOP_EXPONENT)))
    both = b.temporary(True)
    b.op("PSETP", [both, None], x.ordinary, y.ordinary, PT)
    # The float unit does not see a NaN by the upper word alone.
    estimate = _estimate(b, MultiFunction.RCP64H, y.value)
    special = _chosen(b, y.value, estimate, compared(b, FloatCompare.NAN, y.value, y.value))
    return _finish(b, _chosen(b, result, computed(b, "DMUL", x.value, special), Source(both)))


def _rounded(
    b: Builder, cut: Pair, rest: Pair, divisor: Pair, more: Source, sign: Source, direction: str
) -> Pair:
    """A quotient that is cut off, or the next larger one: to the nearest if half of that step is less than the rest is
    worth. No quotient of two numbers lies halfway.
    """
    match direction:
        case "rz":
            return cut
        case "rn":
            half = [RZ, b.compute("IADD", _and(b, cut[1], 0x7FF0_0000), number(-_HALF_STEP << 20))]
            upwards = compared(
                b, FloatCompare.GT, _fused(b, negated(divisor), half, rest), [RZ, RZ]
            )
        case _:
            upwards = b.test(Compare.LT if direction == "rm" else Compare.GE, sign, RZ, with_=more)
    return b.compute_pair("ADD64", *cut, b.compute("SEL", number(1), RZ, upwards), RZ)


def _subnormal(
    b: Builder, cut: Pair, power: Source, more: Source, sign: Source, direction: str
) -> Pair:
    """The bits of a subnormal result without its sign, of a significand that is cut off and whether it was more."""
    exponent = b.compute("IADD", _field(b, cut), power)
    shift = b.compute(
        "IMNMX", b.compute("IADD", number(1), exponent.negate()), number(_SHIFT_LIMIT), PT
    )
    one_more = b.compute("IADD", shift, number(1))
    fraction = [cut[0], _or(b, _and(b, cut[1], 0xF_FFFF), LEAST[1])]
    low, high = shifted_left(b, fraction, number(1))
    significand = [_or(b, low, b.compute("SEL", number(1), RZ, more)), high]
    if direction == "rz":
        added: Pair = [RZ, RZ]
    else:
        power_of_two = shifted_left(b, [number(1), RZ], shift if direction == "rn" else one_more)
        added = b.compute_pair("ADD64", *power_of_two, number(-1), number(-1))
        if direction == "rn":
            odd = _and(b, shifted_right(b, significand, one_more, False)[0], 1)
            added = b.compute_pair("ADD64", *added, odd, RZ)
        else:
            outwards = b.test(Compare.LT if direction == "rm" else Compare.GE, sign, RZ)
            added = _chosen(b, added, [RZ, RZ], outwards)
    return shifted_right(b, b.compute_pair("ADD64", *significand, *added), one_more, False)


def _root(name: str, direction: str) -> Function:
    b, (x,) = _begin(name, 1)
    part = _Part(b, x)
    # An even exponent: the number is between 1 and 4.
    odd = b.compute(
        "LOP", b.compute("IADD", part.exponent, number(1)), number(1), operation=Logic.AND
    )
    value = [part.value[0], b.compute("IADD", part.value[1], b.compute("SHL", odd, number(20)))]
    inverse = _estimate(b, MultiFunction.RSQ64H, value)
    for _ in range(2):
        # r + r * (1 - x * r * r) / 2
        error = _fused(b, negated(computed(b, "DMUL", value, inverse)), inverse, ONE)
        inverse = _fused(b, computed(b, "DMUL", inverse, _HALF), error, inverse)
    root, half = computed(b, "DMUL", value, inverse), computed(b, "DMUL", inverse, _HALF)
    error = _fused(b, negated(root), half, _HALF)
    root, half = _fused(b, root, error, root), _fused(b, half, error, half)
    for rounding in ("rn", "rn", *([] if direction == "rn" else [direction])):
        root = _fused(b, _fused(b, negated(root), root, value), half, root, rounding)
    power = b.compute("IADD", b.compute("IADD", part.exponent, odd.negate()), number(-_BIAS))
    root = [root[0], b.compute("IADD", root[1], b.compute("SHL", power, number(19)))]
    # Zeros and infinity are their own, NaNs and negative numbers are none.
    itself = compared(
        b, FloatCompare.EQ, x, INFINITY, compared(b, FloatCompare.EQ, x, [RZ, RZ]), Boolean.OR
    )
    positive = compared(b, FloatCompare.GT, x, [RZ, RZ])
    nothing = computed(b, "DMUL", INFINITY, [RZ, RZ])
    return _finish(b, _chosen(b, x, _chosen(b, root, nothing, positive), itself))


_KINDS: Mapping[str, Callable[[str, str], Function]] = {"divide": _division, "root": _root}
DOUBLE_DIVISIONS: Mapping[str, Callable[[], Function]] = {
    f"__{kind}_f64_{direction}": lambda kind=kind, direction=direction: _KINDS[kind](
        f"__{kind}_f64_{direction}", direction
    )
    for kind in _KINDS
    for direction in _DIRECTIONS
}
"""The functions by name."""


def _gross(b: Builder, i: Instruction) -> Pair:
    """What the float unit knows of the upper word; the lower one is zero."""
    return _estimate(
        b, MultiFunction.RCP64H if i.opcode == "rcp" else MultiFunction.RSQ64H, operand(b, i, 1)
    )


@double("rsqrt")
def _inverse_root(b: Builder, i: Instruction) -> None:
    if i.flush:
        b.move(b.write(i.operands[0], 64), _gross(b, i))
        return
    x = operand(b, i, 1)
    tiny = compared(b, FloatCompare.LT, absolute(x), LEAST)
    normal = _chosen(b, computed(b, "DMUL", x, _TWO_54), x, tiny)
    first = _estimate(b, MultiFunction.RSQ64H, normal)
    # r + r * e * (1/2 + 3/8 e), e = 1 - x * r * r
    error = _fused(b, normal, negated(computed(b, "DMUL", first, first)), ONE)
    slope = _fused(b, error, _THREE_EIGHTHS, _HALF)
    found = _fused(b, slope, computed(b, "DMUL", first, error), first)
    found = _chosen(b, computed(b, "DMUL", found, _TWO_27), found, tiny)
    # Of zeros infinities of their signs, of infinity zero; other numbers that are not positive have none.
    zero = compared(b, FloatCompare.EQ, x, [RZ, RZ])
    edge = _chosen(
        b,
        [RZ, _or(b, _and(b, x[1], SIGN), INFINITY[1])],
        computed(b, "DMUL", INFINITY, [RZ, RZ]),
        zero,
    )
    edge = _chosen(b, [RZ, RZ], edge, compared(b, FloatCompare.EQ, x, INFINITY))
    ordinary = compared(b, FloatCompare.LT, x, INFINITY, compared(b, FloatCompare.GT, x, [RZ, RZ]))
    b.move(b.write(i.operands[0], 64), _chosen(b, found, edge, ordinary))


@double("div", "rcp", "sqrt")
def _divide(b: Builder, i: Instruction) -> None:
    """A call, but for an approximation."""
    if i.approximation:
        b.move(b.write(i.operands[0], 64), _gross(b, i))
        return
    x = operand(b, i, 1)
    numbers = [x, operand(b, i, 2)] if i.opcode == "div" else [ONE, x] if i.opcode == "rcp" else [x]
    name = f"__{'root' if i.opcode == 'sqrt' else 'divide'}_f64_{i.rounding}"
    guard, b.guard = b.guard, None
    words = [b.compute("MOV", word) for pair in numbers for word in pair]
    fixed = [b.temporary(fixed=register) for register in _REGISTERS[: len(words)]]
    for value, word in zip(fixed, words, strict=True):
        b.op("MOV", [value], word)
    results = [b.temporary(fixed=register) for register in _REGISTERS[:2]]
    b.op(
        "CAL",
        list(results),
        *(Source(value) for value in fixed),
        symbol=name,
        clobbers=STANDARD_CLOBBERS,
    )
    b.function.calls.append(name)
    copies = [b.compute("MOV", Source(value)) for value in results]
    b.guard = guard
    b.move(b.write(i.operands[0], 64), copies)
