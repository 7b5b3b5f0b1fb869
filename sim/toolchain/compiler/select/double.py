"""Selection of double precision, in pairs of registers, except divisions and roots.

A number is a list of two words; sign modifiers are those of the first, lower word.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rtl.isa.kinds import Boolean, FloatCompare, FloatFormat, Logic
from sim.toolchain.compiler.ir import PT, RZ, SIGN, Source, number
from sim.toolchain.ptx.module import PtxInstruction, PtxRegister, Type

from .builder import Builder, ComputeKind, Handler, handles
from .compare import combination
from .convert import integer_format, write_integer
from .roundings import ROUNDINGS, TO_WHOLE, WHOLE
from .special_registers import source_words

__all__ = ["compared", "computed", "saturated"]

_Pair = list[Source]

_NOTHING = [Source(0, negated=True), RZ]
"""The neutral number of additions: -0."""
_ZERO = [RZ, RZ]
_ONE, _INFINITY, _LEAST, _LEAST_SINGLE = (
    [RZ, number(high)] for high in (0x3FF0_0000, 0x7FF0_0000, 0x0010_0000, 0x3810_0000)
)


def _double(*opcodes: str) -> Callable[[Handler], Handler]:
    """Registers the decorated function for some opcodes in double precision."""
    return handles(*opcodes, kind=ComputeKind.DOUBLES)


def _negated(x: _Pair) -> _Pair:
    """Returns the negated number."""
    low, high = x
    if isinstance(high.operand, int):
        return [low, number(high.operand ^ SIGN)]
    return [low.negate(), high]


def _absolute(x: _Pair) -> _Pair:
    """Returns the absolute value."""
    low, high = x
    if isinstance(high.operand, int):
        return [low, number(high.operand & SIGN - 1)]
    return [replace(low, absolute=True, negated=False), high]


def computed(
    b: Builder, name: str, *numbers: _Pair, more: tuple[Source, ...] = (), **fields: Any
) -> _Pair:
    """Adds an operation on numbers, and returns its result."""
    return b.compute_pair(name, *(word for words in numbers for word in words), *more, **fields)


def compared(
    b: Builder,
    relation: FloatCompare,
    x: _Pair,
    y: _Pair,
    with_: Source = PT,
    combine: Boolean = Boolean.AND,
) -> Source:
    """Returns the predicate of a comparison, combined with another predicate."""
    result = b.temporary(True)
    b.op("DSETP", [result, None], *x, *y, with_, compare=relation, combine=combine)
    return Source(result)


def _operand(b: Builder, i: PtxInstruction, at: int) -> _Pair:
    """Returns an operand as a number."""
    return b.read(i.operands[at], 64)


def _give(b: Builder, i: PtxInstruction, words: _Pair) -> None:
    b.move(b.write(i.operands[0], 64), words)


@_double("add", "sub", "mul", "fma", "mad")
def _arithmetic(b: Builder, i: PtxInstruction) -> None:
    name = {"add": "DADD", "sub": "DADD", "mul": "DMUL"}.get(i.opcode, "DFMA")
    numbers = [_operand(b, i, at) for at in range(1, len(i.operands))]
    if i.opcode == "sub":
        numbers[1] = _negated(numbers[1])
    _give(b, i, computed(b, name, *numbers, round=ROUNDINGS[i.rounding]))


@_double("neg", "abs")
def _sign(b: Builder, i: PtxInstruction) -> None:
    x = _operand(b, i, 1)
    _give(b, i, computed(b, "DADD", _negated(x) if i.opcode == "neg" else _absolute(x), _NOTHING))


@_double("min", "max")
def _extreme(b: Builder, i: PtxInstruction) -> None:
    least = PT if i.opcode == "min" else PT.invert()
    _give(b, i, computed(b, "DMNMX", _operand(b, i, 1), _operand(b, i, 2), more=(least,)))


@_double("copysign")
def _copy_sign(b: Builder, i: PtxInstruction) -> None:
    (_, signed), (low, high) = (_operand(b, i, at) for at in (1, 2))
    sign = b.compute("LOP", signed, number(SIGN), operation=Logic.AND)
    size = b.compute("LOP", high, number(SIGN - 1), operation=Logic.AND)
    _give(b, i, [low, b.compute("LOP", sign, size, operation=Logic.OR)])


def _relation(i: PtxInstruction) -> FloatCompare:
    assert i.compare is not None
    return FloatCompare[i.compare.name]


@_double("setp")
def _set_predicate(b: Builder, i: PtxInstruction) -> None:
    first, second = (b.write(operand)[0] for operand in i.operands[:2])
    third = b.predicate(i.operands[4]) if i.combine is not None else PT
    b.op(
        "DSETP",
        [first, second],
        *_operand(b, i, 2),
        *_operand(b, i, 3),
        third,
        compare=_relation(i),
        combine=combination(i),
    )


@_double("set")
def _set(b: Builder, i: PtxInstruction) -> None:
    third = b.predicate(i.operands[3]) if i.combine is not None else PT
    b.op(
        "DSET",
        b.write(i.operands[0]),
        *_operand(b, i, 1),
        *_operand(b, i, 2),
        third,
        one=i.type.floating,
        compare=_relation(i),
        combine=combination(i),
    )


@_double("testp")
def _test(b: Builder, i: PtxInstruction) -> None:
    size, result = _absolute(_operand(b, i, 1)), b.write(i.operands[0])
    relation, bound, third = {
        "finite": (FloatCompare.LT, _INFINITY, PT),
        "infinite": (FloatCompare.EQ, _INFINITY, PT),
        "number": (FloatCompare.NUM, _ZERO, PT),
        "notanumber": (FloatCompare.NAN, _ZERO, PT),
        "subnormal": (FloatCompare.GT, _ZERO, PT),
        "normal": (FloatCompare.LT, _INFINITY, PT),
    }[i.operation]
    if i.operation == "subnormal":
        third = compared(b, FloatCompare.LT, size, _LEAST)
    elif i.operation == "normal":
        third = compared(
            b, FloatCompare.EQ, size, _ZERO, compared(b, FloatCompare.GE, size, _LEAST), Boolean.OR
        )
    b.op("DSETP", [result[0], None], *size, *bound, third, compare=relation)


# Conversions


@_double("cvt")
def _convert(b: Builder, i: PtxInstruction) -> None:
    to, source = i.types
    register, value = i.operands
    assert isinstance(register, PtxRegister)
    if not source.floating:
        _give_converted(b, i, _of_integer(b, i, source_words(b, value, source), source))
    elif to is Type.F32:
        _write_single(b, i, register, b.read(value, 64))
    elif source is Type.F32:
        _give_converted(b, i, _of_single(b, i, b.word(value)))
    elif to.floating:
        x = _operand(b, i, 1)
        _give_converted(b, i, _rounded_to_whole(b, x, i.rounding) if i.rounding else x)
    else:
        write_integer(b, register, _to_integer(b, i, to), to)


def _give_converted(b: Builder, i: PtxInstruction, found: _Pair) -> None:
    _give(b, i, saturated(b, found) if i.saturate else found)


def _of_integer(b: Builder, i: PtxInstruction, words: list[Source], source: Type) -> _Pair:
    return computed(
        b,
        "I2F",
        words,
        destination=FloatFormat.F64,
        source=integer_format(source),
        round=ROUNDINGS[i.rounding],
    )


def _of_single(b: Builder, i: PtxInstruction, word: Source) -> _Pair:
    return computed(
        b,
        "F2F",
        [word],
        flush=i.flush,
        destination=FloatFormat.F64,
        source=FloatFormat.F32,
    )


def _rounded_to_whole(b: Builder, x: _Pair, rounding: str) -> _Pair:
    return computed(
        b,
        "F2F",
        x,
        destination=FloatFormat.F64,
        source=FloatFormat.F64,
        whole=WHOLE[rounding],
    )


def _write_single(b: Builder, i: PtxInstruction, register: PtxRegister, words: _Pair) -> None:
    """Converts to single precision. With .ftz a number that is subnormal before rounding becomes 0,
    as in NVIDIA's code.
    """
    fields: dict[str, Any] = {
        "destination": FloatFormat.F32,
        "source": FloatFormat.F64,
        "round": ROUNDINGS[i.rounding],
    }
    if not i.flush or i.saturate:
        b.op("F2F", b.write(register), *words, flush=i.flush, **fields, saturate=i.saturate)
        return
    tiny = compared(b, FloatCompare.LT, _absolute(_operand(b, i, 1)), _LEAST_SINGLE)
    found = b.compute("F2F", *words, **fields)
    zero = b.compute("LOP", words[1], number(SIGN), operation=Logic.AND)
    b.op("SEL", b.write(register), zero, found, tiny)


def saturated(b: Builder, x: _Pair) -> _Pair:
    """Returns the number clamped to the range from 0 to 1; NaN becomes 0."""
    return computed(
        b, "DMNMX", computed(b, "DMNMX", x, _ZERO, more=(PT.invert(),)), _ONE, more=(PT,)
    )


def _to_integer(b: Builder, i: PtxInstruction, to: Type) -> list[Source]:
    """Returns the number converted to an integer and clamped to its type. Types below 32 bits are
    converted through 32 bits.
    """
    fields: dict[str, Any] = {
        "destination": integer_format(to, 32),
        "source": FloatFormat.F64,
        "round": TO_WHOLE[i.rounding],
    }
    x = _operand(b, i, 1)
    if to.bits == 64:
        return computed(b, "F2I", x, **fields)
    found = b.compute("F2I", *x, **fields)
    if to.bits == 32:
        return [found]
    largest = (1 << to.bits - to.signed) - 1
    if not to.signed:
        return [b.compute("IMNMX", found, number(largest), PT, signed=False)]
    return [
        b.compute(
            "IMNMX", b.compute("IMNMX", found, number(largest), PT), number(~largest), PT.invert()
        )
    ]
