"""Selection of comparisons, and of instructions that select by them."""

from rtl.isa.kinds import Boolean, Compare
from sim.toolchain.compiler.ir import PT, RZ, Source, number
from sim.toolchain.ptx.module import PtxInstruction, Type

from . import long
from .builder import Builder, handles
from .integer import extended

__all__ = ["combination"]

ONE = 0x3F80_0000
"""1 in single precision."""


def _compared(
    b: Builder, i: PtxInstruction, kind: Type, x: int, y: int
) -> Source | tuple[Source, Source]:
    """Returns the predicate of a 64-bit comparison; for other types the two numbers to compare."""
    if kind.bits == 64:
        assert i.compare is not None
        return long.comparison(
            b,
            Compare[i.compare.name],
            kind.signed,
            b.read(i.operands[x], 64),
            b.read(i.operands[y], 64),
        )
    one, other = (extended(b, b.word(i.operands[at]), kind) for at in (x, y))
    return one, other


def _relation(i: PtxInstruction) -> Compare:
    assert i.compare is not None
    return Compare[i.compare.name]


def combination(i: PtxInstruction) -> Boolean:
    """Returns how an instruction combines its comparison with another predicate."""
    return Boolean[i.combine.name] if i.combine is not None else Boolean.AND


@handles("setp")
def _set_predicate(b: Builder, i: PtxInstruction) -> None:
    first, second = (b.write(operand)[0] for operand in i.operands[:2])
    third = b.predicate(i.operands[4]) if i.combine is not None else PT
    found = _compared(b, i, i.type, 2, 3)
    if isinstance(found, tuple):
        b.op(
            "ISETP",
            [first, second],
            *found,
            third,
            compare=_relation(i),
            signed=i.type.signed,
            combine=combination(i),
        )
    else:
        b.op("PSETP", [first, second], found, PT, third, combine=combination(i))


@handles("set")
def _set(b: Builder, i: PtxInstruction) -> None:
    kind = i.types[1]
    third = b.predicate(i.operands[3]) if i.combine is not None else PT
    found = _compared(b, i, kind, 1, 2)
    if i.type.floating:
        p = b.temporary(True)
        if isinstance(found, tuple):
            b.op(
                "ISETP",
                [p, None],
                *found,
                third,
                compare=_relation(i),
                signed=kind.signed,
                combine=combination(i),
            )
        else:
            b.op("PSETP", [p, None], found, PT, third, combine=combination(i))
        b.op("SEL", b.write(i.operands[0]), number(ONE), RZ, Source(p))
        return
    if isinstance(found, tuple):
        b.op(
            "ISET",
            b.write(i.operands[0]),
            *found,
            third,
            compare=_relation(i),
            signed=kind.signed,
            combine=combination(i),
        )
    else:
        b.op("PSET", b.write(i.operands[0]), found, PT, third, combine=combination(i))


@handles("selp")
def _select(b: Builder, i: PtxInstruction) -> None:
    condition = b.predicate(i.operands[3])
    xs, ys = (b.read(operand, i.type.bits) for operand in i.operands[1:3])
    results = b.write(i.operands[0], i.type.bits)
    b.move(results, [b.compute("SEL", x, y, condition) for x, y in zip(xs, ys, strict=True)])


@handles("slct")
def _select_by_sign(b: Builder, i: PtxInstruction) -> None:
    kind = i.type
    sign = b.word(i.operands[3])
    xs, ys = (b.read(operand, kind.bits) for operand in i.operands[1:3])
    results = b.write(i.operands[0], kind.bits)
    b.move(
        results,
        [b.compute("ICMP", x, y, sign, compare=Compare.GE) for x, y in zip(xs, ys, strict=True)],
    )
