"""Selection of integer arithmetic of 64 bits, in pairs of registers."""

from dataclasses import replace

from rtl.isa.kinds import Compare, FunnelWidth, Logic
from sim.toolchain.compiler.ir import PT, RZ, Source, number
from sim.toolchain.ptx.module import PtxHalf, PtxInstruction

from .builder import Builder, ComputeKind, handles

__all__ = ["comparison"]

_CHOICE = 0xCA
"""LOP3's truth table that selects the second operand where the first has ones, else the third."""


@handles("add", "sub", "addc", "subc", kind=ComputeKind.LONGS)
def _add(b: Builder, i: PtxInstruction) -> None:
    """Selects sums and differences."""
    x, y = (b.read(operand, 64) for operand in i.operands[1:3])
    if i.opcode in ("sub", "subc"):
        y = [word.negate() for word in y]
    _sum_of(b, i, x, y, i.opcode in ("addc", "subc"))


def _sum_of(b: Builder, i: PtxInstruction, x: list[Source], y: list[Source], carried: bool) -> None:
    """Adds two numbers, with the carries that the instruction uses."""
    results = b.write(i.operands[0], 64)
    if not carried and not i.carry_out:
        b.op("ADD64", results, *x, *y)
        return
    low, high = b.pair()
    b.op("IADD", [low], x[0], y[0], sets_carry=True, takes_carry=carried)
    b.op("IADD", [high], x[1], y[1], sets_carry=i.carry_out, takes_carry=True)
    b.move(results, [Source(low), Source(high)])


@handles("mul", "mad", "madc", kind=ComputeKind.LONGS)
def _multiply(b: Builder, i: PtxInstruction) -> None:
    """Selects products: the lower or upper 64 bits."""
    x, y = (b.read(operand, 64) for operand in i.operands[1:3])
    product = (
        _low_product(b, x, y) if i.half is PtxHalf.LO else _high_product(b, x, y, i.type.signed)
    )
    if len(i.operands) == 3:
        b.move(b.write(i.operands[0], 64), product)
    else:
        _sum_of(b, i, product, b.read(i.operands[3], 64), i.opcode == "madc")


def _low_product(b: Builder, x: list[Source], y: list[Source]) -> list[Source]:
    """Returns the lower half of a product."""
    low, high = b.compute_pair("MULWIDE", x[0], y[0], signed=False)
    middle = b.compute("MAD", x[0], y[1], high)
    return [low, b.compute("MAD", x[1], y[0], middle)]


def _high_product(b: Builder, x: list[Source], y: list[Source], signed: bool) -> list[Source]:
    """Returns the upper half of a product: four partial products, summed in columns. Signed numbers
    need a correction for their sign bits.
    """
    carry = b.compute("MULHI", x[0], y[0], signed=False)
    first, second, top = b.pair(), b.pair(), b.pair()
    for pair, one, other in ((first, x[1], y[0]), (second, x[0], y[1]), (top, x[1], y[1])):
        b.op("MULWIDE", list(pair), one, other, signed=False)
    column, above, sum_low, sum_high = (*b.pair(), *b.pair())
    b.op("ADD64", [column, above], Source(first[0]), Source(first[1]), carry, RZ)
    b.op(
        "ADD64", [b.temporary(), sum_low], Source(second[0]), Source(second[1]), Source(column), RZ
    )
    low, high = b.pair()
    b.op("ADD64", [low, high], Source(top[0]), Source(top[1]), Source(above), RZ)
    b.op(
        "ADD64", [column := b.temporary(), sum_high], Source(low), Source(high), Source(sum_low), RZ
    )
    result = [Source(column), Source(sum_high)]
    if signed:
        for one, other in ((x, y), (y, x)):
            sign = b.compute("SHR", one[1], number(31))
            masked = [b.compute("LOP", word, sign, operation=Logic.AND).negate() for word in other]
            result = b.compute_pair("ADD64", *result, *masked)
    return result


@handles("neg", "abs", "not", "cnot", kind=ComputeKind.LONGS)
def _unary(b: Builder, i: PtxInstruction) -> None:
    """Selects neg, abs, not and cnot."""
    x = b.read(i.operands[1], 64)
    results = b.write(i.operands[0], 64)
    if i.opcode == "not":
        b.move(results, [b.compute("LOP", RZ, word.invert(), operation=Logic.PASS_B) for word in x])
    elif i.opcode == "neg":
        b.op("ADD64", results, RZ, RZ, *(word.negate() for word in x))
    elif i.opcode == "abs":
        opposite = b.compute_pair("ADD64", RZ, RZ, *(word.negate() for word in x))
        negative = b.test(Compare.LT, x[1], RZ)
        b.move(
            results,
            [b.compute("SEL", new, old, negative) for new, old in zip(opposite, x, strict=True)],
        )
    else:
        zero = b.test_unsigned(Compare.EQ, b.compute("LOP", *x, operation=Logic.OR), RZ)
        b.move(results, [b.compute("SEL", number(1), RZ, zero), RZ])


@handles("shl", "shr", kind=ComputeKind.LONGS)
def _shift(b: Builder, i: PtxInstruction) -> None:
    """Selects shifts. A shift amount above 64 has the effect of 64."""
    x, by = b.read(i.operands[1], 64), b.word(i.operands[2])
    results = b.write(i.operands[0], 64)
    if i.opcode == "shl":
        b.move(results, _shifted_left(b, x, by))
    else:
        b.move(results, _shifted_right(b, x, by, i.type.signed))


def _shifted_left(b: Builder, words: list[Source], by: Source) -> list[Source]:
    """Returns a 64-bit number shifted left."""
    low, high = words
    if isinstance(by.operand, int) and by.operand >= 32:
        return [RZ, b.compute("SHL", low, number(min(by.operand - 32, 32)))]
    return [b.compute("SHL", low, by), b.compute("SHF.L", low, by, high, width=FunnelWidth.U64)]


def _shifted_right(b: Builder, words: list[Source], by: Source, signed: bool) -> list[Source]:
    """Returns a 64-bit number shifted right."""
    low, high = words
    if isinstance(by.operand, int) and by.operand >= 32:
        top = b.compute("SHR", high, number(31)) if signed else RZ
        return [b.compute("SHR", high, number(min(by.operand - 32, 32)), signed=signed), top]
    return [
        b.compute("SHF.R", low, by, high, width=FunnelWidth.S64 if signed else FunnelWidth.U64),
        b.compute("SHR", high, by, signed=signed),
    ]


def comparison(
    b: Builder, compare: Compare, signed: bool, x: list[Source], y: list[Source]
) -> Source:
    """Returns the predicate of a comparison of two numbers. The borrow of the lower words is passed
    in CC.
    """
    result = b.temporary(True)
    b.op("SETP64", [result], *x, *y, compare=compare, signed=signed)
    return Source(result)


@handles("min", "max", kind=ComputeKind.LONGS)
def _extreme(b: Builder, i: PtxInstruction) -> None:
    """Selects min and max."""
    x, y = (b.read(operand, 64) for operand in i.operands[1:])
    chosen = comparison(b, Compare.LT if i.opcode == "min" else Compare.GT, i.type.signed, x, y)
    b.move(
        b.write(i.operands[0], 64),
        [b.compute("SEL", one, other, chosen) for one, other in zip(x, y, strict=True)],
    )


@handles("sad", kind=ComputeKind.LONGS)
def _absolute_difference(b: Builder, i: PtxInstruction) -> None:
    """Selects sad: the absolute difference plus a third number."""
    x, y, base = (b.read(operand, 64) for operand in i.operands[1:])
    less = comparison(b, Compare.LT, i.type.signed, x, y)
    differences = []
    for one, other in ((y, x), (x, y)):
        differences.append(b.compute_pair("ADD64", *one, *(word.negate() for word in other)))
    difference = [b.compute("SEL", up, down, less) for up, down in zip(*differences, strict=True)]
    b.op("ADD64", b.write(i.operands[0], 64), *difference, *base)


@handles("popc", "clz", "bfind", "brev", kind=ComputeKind.LONGS)
def _bits(b: Builder, i: PtxInstruction) -> None:
    """Selects popc, clz, bfind and brev."""
    low, high = b.read(i.operands[1], 64)
    results = b.write(i.operands[0], 64 if i.opcode == "brev" else 32)
    if i.opcode == "popc":
        b.op("IADD", results, b.compute("POPC", low), b.compute("POPC", high))
    elif i.opcode == "brev":
        b.move(
            results,
            [
                b.compute("BFE", word, number(0x2000), signed=False, reverse=True)
                for word in (high, low)
            ],
        )
    else:
        _first_bit(b, i, results, low, high)


def _first_bit(b: Builder, i: PtxInstruction, results: list, low: Source, high: Source) -> None:
    """Finds the highest significant bit: in the upper word if it has one, else in the lower."""
    if i.type.signed:
        sign = b.compute("SHR", high, number(31))
        low, high = (b.compute("LOP", word, sign, operation=Logic.XOR) for word in (low, high))
    empty = b.test_unsigned(Compare.EQ, high, RZ)
    top = b.compute("IADD", b.compute("FLO", high, signed=False), number(32))
    found = b.compute("SEL", b.compute("FLO", low, signed=False), top, empty)
    if i.opcode == "bfind" and i.operation != "shiftamt":
        b.move(results, [found])
        return
    shifted = b.compute("IADD", found.negate(), number(63))
    if i.opcode == "clz":
        b.move(results, [shifted])
        return
    b.op("SEL", results, found, shifted, b.test(Compare.EQ, found, number(-1)))


@handles("bfe", kind=ComputeKind.LONGS)
def _extract(b: Builder, i: PtxInstruction) -> None:
    """Selects bfe: shifts left until the field's top bit is bit 63, then right."""
    (low, high), position, length = (
        b.read(i.operands[1], 64),
        b.word(i.operands[2]),
        b.word(i.operands[3]),
    )
    position, length = (_byte(b, source) for source in (position, length))
    # The bits above bit 63 are sign copies or zeros: a field that extends beyond it ends there.
    reach = _sum(b, position, length)
    end = _least(b, reach, 64)
    left = (
        _sum(b, number(64), end.negate())
        if not isinstance(end.operand, int)
        else number(64 - end.operand)
    )
    shifted_low, shifted_high = _shifted_left(b, [low, high], left)
    right = _sum(b, number(64), _sum(b, end, position.negate()).negate())
    if isinstance(length.operand, int) and not isinstance(right.operand, int):
        right = _least(b, right, 64)
    found = _shifted_right(b, [shifted_low, shifted_high], right, i.type.signed)
    if (
        isinstance(position.operand, int)
        and isinstance(length.operand, int)
        and position.operand < 64
        and length.operand
    ):
        b.move(b.write(i.operands[0], 64), found)
        return
    # A field above bit 63 is all sign copies. A field of no bits is zero.
    sign = b.compute("SHR", high, number(31)) if i.type.signed else RZ
    beyond = b.test_unsigned(Compare.GE, position, number(64))
    words = [b.compute("SEL", sign, word, beyond) for word in found]
    none = b.test_unsigned(Compare.EQ, length, RZ)
    b.move(b.write(i.operands[0], 64), [b.compute("SEL", RZ, word, none) for word in words])


def _byte(b: Builder, source: Source) -> Source:
    if isinstance(source.operand, int):
        return number(source.operand & 0xFF)
    return b.compute("LOP", source, number(0xFF), operation=Logic.AND)


def _sum(b: Builder, x: Source, y: Source) -> Source:
    one, other = x.number, y.number
    return number(one + other) if one is not None and other is not None else b.compute("IADD", x, y)


def _least(b: Builder, source: Source, bound: int) -> Source:
    if isinstance(source.operand, int):
        return number(min(source.operand, bound))
    return b.compute("IMNMX", source, number(bound), PT, signed=False)


@handles("bfi", kind=ComputeKind.LONGS)
def _insert(b: Builder, i: PtxInstruction) -> None:
    """Selects bfi: a mask of the field selects between the shifted number and the base."""
    x, base = (b.read(operand, 64) for operand in i.operands[1:3])
    position, length = (_byte(b, b.word(operand)) for operand in i.operands[3:5])
    ones_low, ones_high = (
        _inverse(b, word)
        for word in _shifted_left(b, [number(-1), number(-1)], _least(b, length, 64))
    )
    mask, field = (
        _shifted_left(b, [ones_low, ones_high], position),
        _shifted_left(b, x[:2], position),
    )
    b.move(
        b.write(i.operands[0], 64),
        [
            b.compute("LOP3.LUT", m, f, old, lut=_CHOICE)
            for m, f, old in zip(mask, field, base, strict=True)
        ],
    )


def _inverse(b: Builder, word: Source) -> Source:
    if isinstance(word.operand, int):
        return replace(word, operand=word.operand ^ 0xFFFF_FFFF)
    return b.compute("LOP", RZ, word.invert(), operation=Logic.PASS_B)
