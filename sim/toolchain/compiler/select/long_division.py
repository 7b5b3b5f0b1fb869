"""Division of 64 bits: a function that compiled code calls, and its calls.

The function divides numbers without sign. Its reciprocal begins as a float, is made exact enough by two steps of
Newton's method, each of which doubles the bits that are right, and gives a quotient that 2 at most are missing of.
"""

from rtl.isa.kinds import Compare, FloatFormat, FloatRounding, Logic, MultiFunction
from sim.toolchain.compiler.abi import STACK_POINTER, STANDARD_CLOBBERS
from sim.toolchain.compiler.ir import RZ, Function, Source, Value, number
from sim.toolchain.compiler.layout import Layout
from sim.toolchain.compiler.opcodes import IntegerFormat
from sim.toolchain.ptx.module import Instruction

from . import long
from .builder import Builder, Kind, handles

__all__ = ["DIVIDE", "division_function"]

DIVIDE = "__divide_u64"
"""The function's name. It takes dividend and divisor in R4 to R7 and leaves quotient and remainder there."""
_REGISTERS = range(4, 8)
_RECIPROCAL_SCALE = 0x1FFF_FFFE
"""What is added to the bits of 1 / b to have a float a little less than 2**64 / b."""


def division_function() -> Function:
    """The function."""
    function = Function(DIVIDE, False, [])
    b = Builder(function, Layout(), {}, Value("stack", fixed=STACK_POINTER))
    function.stack = b.stack
    b.begin(b.block)
    function.parameters = [b.temporary(fixed=register) for register in _REGISTERS]
    words = [b.compute("MOV", Source(value)) for value in function.parameters]
    x, y = words[:2], words[2:]
    rounded = b.compute(
        "I2F", *y, destination=FloatFormat.F32, source=IntegerFormat.U64, round=FloatRounding.RP
    )
    scaled = b.compute(
        "IADD", b.compute("MUFU", rounded, function=MultiFunction.RCP), number(_RECIPROCAL_SCALE)
    )
    inverse = b.compute_pair(
        "F2I", scaled, destination=IntegerFormat.U64, source=FloatFormat.F32, round=FloatRounding.RZ
    )
    negative = _sum(b, [RZ, RZ], [word.negate() for word in y])
    for _ in range(2):
        error = long.low_product(b, inverse, negative)
        inverse = _sum(b, inverse, long.high_product(b, inverse, error, False))
    quotient = long.high_product(b, inverse, x, False)
    rest = _sum(b, x, long.low_product(b, quotient, negative))
    for _ in range(2):
        enough = long.comparison(b, Compare.GE, False, rest, y)
        more, less = _sum(b, quotient, [number(1), RZ]), _sum(b, rest, negative)
        quotient, rest = (
            [b.compute("SEL", new, old, enough) for new, old in zip(words, olds, strict=True)]
            for words, olds in ((more, quotient), (less, rest))
        )
    function.results = [b.temporary(fixed=register) for register in _REGISTERS]
    for result, word in zip(function.results, [*quotient, *rest], strict=True):
        b.op("MOV", [result], word)
    b.end("ret")
    return function


def _sum(b: Builder, x: list[Source], y: list[Source]) -> list[Source]:
    return b.compute_pair("ADD64", *x, *y)


@handles("div", "rem", kind=Kind.LONGS)
def _divide(b: Builder, i: Instruction) -> None:
    """Div and rem: a call with the magnitudes. Quotient and remainder by zero are all ones."""
    x, y = (b.read(operand, 64) for operand in i.operands[1:])
    guard, b.guard = b.guard, None
    divisor = _number(y)
    magnitudes = [_magnitude(b, words) if i.type.signed else words for words in (x, y)]
    copies = [b.compute("MOV", word) for words in magnitudes for word in words]
    fixed = [b.temporary(fixed=register) for register in _REGISTERS]
    for value, word in zip(fixed, copies, strict=True):
        b.op("MOV", [value], word)
    results = [b.temporary(fixed=register) for register in _REGISTERS]
    b.op(
        "CAL",
        list(results),
        *(Source(value) for value in fixed),
        symbol=DIVIDE,
        clobbers=STANDARD_CLOBBERS,
    )
    b.function.calls.append(DIVIDE)
    copies = [b.compute("MOV", Source(value)) for value in results]
    b.guard = guard
    found = copies[:2] if i.opcode == "div" else copies[2:]
    if i.type.signed:
        sign = b.compute("LOP", x[1], y[1], operation=Logic.XOR) if i.opcode == "div" else x[1]
        found = _signed(b, found, sign)
    if divisor:
        b.move(b.write(i.operands[0], 64), found)
        return
    zero = b.test_unsigned(Compare.EQ, b.compute("LOP", *y, operation=Logic.OR), RZ)
    b.move(b.write(i.operands[0], 64), [b.compute("SEL", number(-1), word, zero) for word in found])


def _number(words: list[Source]) -> int | None:
    """The number of 64 bits that two words are."""
    low, high = (word.number for word in words)
    return None if low is None or high is None else low | high << 32


def _magnitude(b: Builder, words: list[Source]) -> list[Source]:
    value = _number(words)
    if value is not None:
        value = min(value, (1 << 64) - value)
        return [number(value), number(value >> 32)]
    return _signed(b, words, words[1])


def _signed(b: Builder, words: list[Source], sign: Source) -> list[Source]:
    """The number, negated where the sign is."""
    negative = b.test(Compare.LT, sign, RZ)
    return [
        b.compute("SEL", new, old, negative)
        for new, old in zip(
            _sum(b, [RZ, RZ], [word.negate() for word in words]), words, strict=True
        )
    ]
