"""Division of 64 bits: calls of a function of the runtime library (``sim/toolchain/runtime/division.ptx``), which
divides numbers without sign.
"""

from rtl.isa.kinds import Compare, Logic
from sim.toolchain.compiler.abi import STANDARD_CLOBBERS
from sim.toolchain.compiler.ir import RZ, Source, number
from sim.toolchain.ptx.module import Instruction

from .builder import Builder, Kind, handles

__all__ = ["DIVIDE"]

DIVIDE = "__divide_u64"
"""The function's name. It takes dividend and divisor in R4 to R7 and leaves quotient and remainder there."""
_REGISTERS = range(4, 8)


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
