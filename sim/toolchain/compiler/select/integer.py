"""Selection of integer arithmetic of up to 32 bits.

The upper bits of registers for 8 and 16 bits are undefined: instructions that depend on them extend
the value first.
"""

from dataclasses import replace
from typing import Any

from rtl.isa.kinds import Boolean, Compare, FunnelWidth, Logic, PermuteMode
from sim.toolchain.compiler.ir import PT, RZ, Source, number
from sim.toolchain.compiler.opcodes import IntegerFormat
from sim.toolchain.ptx.module import PtxHalf, PtxImmediate, PtxInstruction, Type

from .builder import Builder, handles

__all__ = ["extended"]

_BOTH_SIGNED = 3
"""The XMAD code for two signed factors."""


def extended(b: Builder, source: Source, kind: Type) -> Source:
    """Returns a number of at most 32 bits, extended to 32 bits by its type."""
    if kind.bits == 32:
        return source
    if isinstance(source.operand, int):
        value = source.operand & (1 << kind.bits) - 1
        return number(value - (1 << kind.bits) if kind.signed and value >> kind.bits - 1 else value)
    return b.compute(
        "I2I",
        source,
        destination=IntegerFormat.S32 if kind.signed else IntegerFormat.U32,
        source=IntegerFormat[kind.value.upper().replace("B", "U")],
    )


def _operands(b: Builder, i: PtxInstruction, count: int, extend: bool) -> list[Source]:
    sources = [b.word(operand) for operand in i.operands[1 : 1 + count]]
    return [extended(b, source, i.type) for source in sources] if extend else sources


@handles("add", "sub", "addc", "subc")
def _add(b: Builder, i: PtxInstruction) -> None:
    x, y = _operands(b, i, 2, False)
    if i.opcode in ("sub", "subc"):
        y = y.negate()
    b.op(
        "IADD",
        b.write(i.operands[0]),
        x,
        y,
        saturate=i.saturate,
        sets_carry=i.carry_out,
        takes_carry=i.opcode in ("addc", "subc"),
    )


@handles("mul", "mad", "madc", "mul24", "mad24")
def _multiply(b: Builder, i: PtxInstruction) -> None:
    narrow = "24" in i.opcode
    x, y = (b.word(operand) for operand in i.operands[1:3])
    if i.type.bits == 16:
        _multiply_short(b, i, x, y)
        return
    if narrow:
        x, y = (b.compute("BFE", source, number(0x1800), signed=i.type.signed) for source in (x, y))
    addends = i.operands[3:]
    if i.half is PtxHalf.WIDE:
        results = b.write(i.operands[0], 64)
        _wide(b, i, results, x, y)
        return
    product = "MAD" if i.half is PtxHalf.LO else "MULHI"
    fields: dict[str, Any] = {} if i.half is PtxHalf.LO else {"signed": i.type.signed}
    if narrow and i.half is PtxHalf.HI:
        low, high = b.compute_pair("MULWIDE", x, y, signed=i.type.signed)
        result = b.compute("SHF.R", low, number(16), high, width=FunnelWidth.U64)
        if not addends:
            b.move(b.write(i.operands[0]), [result])
            return
        _accumulate(b, i, result)
    elif not addends:
        b.op(product, b.write(i.operands[0]), x, y, *([RZ] if product == "MAD" else []), **fields)
    elif product == "MAD" and not i.carry_out and i.opcode != "madc" and not i.saturate:
        b.op("MAD", b.write(i.operands[0]), x, y, b.word(addends[0]))
    else:
        _accumulate(b, i, b.compute(product, x, y, *([RZ] if product == "MAD" else []), **fields))


def _accumulate(b: Builder, i: PtxInstruction, product: Source) -> None:
    """Adds the addend of a mad to its product, with the carries that the instruction uses."""
    b.op(
        "IADD",
        b.write(i.operands[0]),
        product,
        b.word(i.operands[3]),
        saturate=i.saturate,
        sets_carry=i.carry_out,
        takes_carry=i.opcode == "madc",
    )


def _wide(b: Builder, i: PtxInstruction, results: list, x: Source, y: Source) -> None:
    """Adds a 64-bit product and its addend."""
    product = b.compute_pair("MULWIDE", x, y, signed=i.type.signed)
    if len(i.operands) == 3:
        b.move(results, product)
    else:
        b.op("ADD64", results, *product, *b.read(i.operands[3], 64))


def _multiply_short(b: Builder, i: PtxInstruction, x: Source, y: Source) -> None:
    """Adds a 16-bit product: XMAD reads the lower halves directly."""
    signs = _BOTH_SIGNED if i.type.signed else 0
    if isinstance(x.operand, int):
        x, y = y, x
    if y.number is not None:
        y = number(y.number & 0xFFFF)
    results = b.write(i.operands[0])
    if i.half is not PtxHalf.HI:
        addend = b.word(i.operands[3]) if len(i.operands) > 3 else RZ
        b.op("XMAD", results, x, y, addend, signs=signs)
        return
    product = b.compute("XMAD", x, y, RZ, signs=signs)
    upper = b.compute("SHR", product, number(16), signed=False)
    if len(i.operands) > 3:
        b.op("IADD", results, upper, b.word(i.operands[3]))
    else:
        b.move(results, [upper])


@handles("neg", "abs", "not", "cnot")
def _unary(b: Builder, i: PtxInstruction) -> None:
    results = b.write(i.operands[0])
    if i.type is Type.PRED:
        p = b.predicate(i.operands[1]).invert()
        b.op("PSETP", [results[0], None], p, PT, PT)
        return
    x = b.word(i.operands[1])
    if i.opcode == "neg":
        b.op("IADD", results, x.negate(), RZ)
    elif i.opcode == "not":
        b.op("LOP", results, RZ, x.invert(), operation=Logic.PASS_B)
    elif i.opcode == "abs":
        x = extended(b, x, i.type)
        b.op(
            "I2I",
            results,
            replace(x, absolute=True),
            destination=IntegerFormat.S32,
            source=IntegerFormat.S32,
        )
    else:
        b.op("SEL", results, number(1), RZ, b.test_unsigned(Compare.EQ, _masked(b, x, i.type), RZ))


def _masked(b: Builder, x: Source, kind: Type) -> Source:
    return extended(b, x, Type.U16 if kind.bits == 16 else Type.U32)


@handles("and", "or", "xor")
def _logic(b: Builder, i: PtxInstruction) -> None:
    name = i.opcode.upper()
    if i.type is Type.PRED:
        x, y = (b.predicate(operand) for operand in i.operands[1:])
        b.op("PSETP", [b.write(i.operands[0])[0], None], x, y, PT, combine_first=Boolean[name])
        return
    words = zip(b.read(i.operands[1], i.type.bits), b.read(i.operands[2], i.type.bits), strict=True)
    if i.type.bits == 64:
        b.move(
            b.write(i.operands[0], 64),
            [b.compute("LOP", x, y, operation=Logic[name]) for x, y in words],
        )
    else:
        b.op("LOP", b.write(i.operands[0]), *next(words), operation=Logic[name])


@handles("shl", "shr")
def _shift(b: Builder, i: PtxInstruction) -> None:
    x, by = b.word(i.operands[1]), b.word(i.operands[2])
    if i.opcode == "shl":
        b.op("SHL", b.write(i.operands[0]), x, by)
    else:
        b.op("SHR", b.write(i.operands[0]), extended(b, x, i.type), by, signed=i.type.signed)


@handles("min", "max")
def _extreme(b: Builder, i: PtxInstruction) -> None:
    x, y = _operands(b, i, 2, True)
    b.op(
        "IMNMX",
        b.write(i.operands[0]),
        x,
        y,
        PT if i.opcode == "min" else PT.invert(),
        signed=i.type.signed,
    )


@handles("sad")
def _absolute_difference(b: Builder, i: PtxInstruction) -> None:
    x, y = _operands(b, i, 2, True)
    larger = b.compute("IMNMX", x, y, PT.invert(), signed=i.type.signed)
    smaller = b.compute("IMNMX", x, y, PT, signed=i.type.signed)
    b.op("IADD3", b.write(i.operands[0]), larger, smaller.negate(), b.word(i.operands[3]))


@handles("div", "rem")
def _divide(b: Builder, i: PtxInstruction) -> None:
    x, y = _operands(b, i, 2, True)
    b.op(i.opcode.upper(), b.write(i.operands[0]), x, y, signed=i.type.signed)


@handles("bfe")
def _extract(b: Builder, i: PtxInstruction) -> None:
    x, position, length = (b.word(operand) for operand in i.operands[1:])
    b.op("BFE", b.write(i.operands[0]), x, _field(b, position, length), signed=i.type.signed)


def _field(b: Builder, position: Source, length: Source) -> Source:
    """Returns position and length of a bit field as BFE and BFI read them, 8 bits each."""
    if isinstance(position.operand, int) and isinstance(length.operand, int):
        return number(position.operand & 0xFF | (length.operand & 0xFF) << 8)
    if isinstance(length.operand, int):
        low = b.compute("LOP", position, number(0xFF), operation=Logic.AND)
        return b.compute("LOP", low, number((length.operand & 0xFF) << 8), operation=Logic.OR)
    return b.compute(
        "BFI", length, number(0x808), b.compute("LOP", position, number(0xFF), operation=Logic.AND)
    )


@handles("bfi")
def _insert(b: Builder, i: PtxInstruction) -> None:
    x, base, position, length = (b.word(operand) for operand in i.operands[1:])
    b.op("BFI", b.write(i.operands[0]), x, _field(b, position, length), base)


@handles("popc", "clz", "bfind", "brev")
def _bits(b: Builder, i: PtxInstruction) -> None:
    x = b.word(i.operands[1])
    results = b.write(i.operands[0])
    if i.opcode == "popc":
        b.op("POPC", results, x)
    elif i.opcode == "brev":
        b.op("BFE", results, x, number(0x2000), signed=False, reverse=True)
    elif i.opcode == "bfind":
        b.op("FLO", results, x, signed=i.type.signed, shift=i.operation == "shiftamt")
    else:
        b.op("IADD", results, b.compute("FLO", x, signed=False).negate(), number(31))


@handles("fns")
def _find_nth_set(b: Builder, i: PtxInstruction) -> None:
    """Selects fns: the position of the nth set bit from a base position, upwards or downwards; all
    ones if there is none.

    Downwards is upwards in the reversed mask. The search goes from halves of the mask down to
    single bits: if the lower half has fewer set bits than remain to be counted, the bit is in the
    upper half.
    """
    mask, base, offset = (b.word(operand) for operand in i.operands[1:])
    down = b.test(Compare.LT, offset, RZ)
    here = b.test_unsigned(Compare.EQ, offset, RZ)
    reverse = b.compute("BFE", mask, number(0x2000), signed=False, reverse=True)
    mask = b.compute("SEL", reverse, mask, down)
    base = b.compute("SEL", b.compute("IADD", base.negate(), number(31)), base, down)
    left = b.compute("SEL", b.compute("IADD", offset.negate(), RZ), offset, down)
    left = b.compute("SEL", number(1), left, here)
    allowed = b.compute("SEL", number(1), number(-1), here)
    mask = b.compute("LOP", mask, b.compute("SHL", allowed, base), operation=Logic.AND)
    found = b.test_unsigned(Compare.GE, b.compute("POPC", mask), left)
    place = RZ
    for width in (16, 8, 4, 2, 1):
        below = b.compute(
            "POPC", b.compute("LOP", mask, number((1 << width) - 1), operation=Logic.AND)
        )
        above = b.test_unsigned(Compare.GT, left, below)
        left = b.compute("SEL", b.compute("IADD", left, below.negate()), left, above)
        mask = b.compute("SEL", b.compute("SHR", mask, number(width), signed=False), mask, above)
        place = b.compute("IADD", place, b.compute("SEL", number(width), RZ, above))
    place = b.compute("SEL", b.compute("IADD", place.negate(), number(31)), place, down)
    b.op("SEL", b.write(i.operands[0]), place, number(-1), found)


@handles("prmt")
def _permute(b: Builder, i: PtxInstruction) -> None:
    x, y, selector = (b.word(operand) for operand in i.operands[1:])
    b.op(
        "PRMT",
        b.write(i.operands[0]),
        x,
        selector,
        y,
        mode=PermuteMode[i.operation.upper()] if i.operation else PermuteMode.INDEX,
    )


@handles("shf")
def _funnel(b: Builder, i: PtxInstruction) -> None:
    low, high, by = (b.word(operand) for operand in i.operands[1:])
    if isinstance(by.operand, int):
        by = number(min(by.operand, 32) if i.clamp else by.operand & 31)
    name = f"SHF.{i.operation.upper()}"
    b.op(name, b.write(i.operands[0]), low, by, high, wrap=not i.clamp)


@handles("lop3")
def _lookup(b: Builder, i: PtxInstruction) -> None:
    x, y, z = (b.word(operand) for operand in i.operands[1:4])
    table = i.operands[4]
    assert isinstance(table, PtxImmediate)
    b.op("LOP3.LUT", b.write(i.operands[0]), x, y, z, lut=table.value & 0xFF)
