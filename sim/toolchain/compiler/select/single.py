"""Selection of single precision, except divisions and roots.

Sums and products are fused only if the program says so: the number of roundings is that of the
source. The machine's functions flush subnormal numbers; without .ftz such arguments are scaled
first.
"""

from collections.abc import Callable
from typing import Any

from rtl.isa.kinds import (
    Boolean,
    FloatCompare,
    FloatFlush,
    FloatFormat,
    FloatRange,
    Logic,
    MultiFunction,
)
from sim.toolchain.compiler.ir import PT, RZ, SIGN, Source, number, real
from sim.toolchain.compiler.passes.combine import NOTHING
from sim.toolchain.ptx.module import PtxInstruction, PtxRegister, Type

from .builder import Builder, ComputeKind, Handler, handles
from .compare import combination
from .convert import integer_format, write_integer
from .roundings import ROUNDINGS, TO_WHOLE, WHOLE
from .special_registers import source_words

__all__ = ["round_to_whole", "single", "to_integer"]

_HALF = 0x3F00_0000
_TWO_24 = 0x4B80_0000
_INFINITY = 0x7F80_0000
_LEAST = 0x0080_0000
"""The least normal number."""
_MINUS_24 = 0xC1C0_0000
_LEAST_EXPONENT = 0xC2FC_0000
"""The number -126."""


def single(*opcodes: str) -> Callable[[Handler], Handler]:
    """Registers the decorated function for some opcodes in single precision."""
    return handles(*opcodes, kind=ComputeKind.SINGLES)


def _mode(i: PtxInstruction) -> dict[str, Any]:
    """Returns an instruction's flush, rounding and saturation modifiers as fields; defaults are
    omitted.
    """
    found: dict[str, Any] = {}
    if i.flush:
        found["flush"] = FloatFlush.FTZ
    if i.rounding not in ("", "rn"):
        found["round"] = ROUNDINGS[i.rounding]
    if i.saturate:
        found["saturate"] = True
    return found


def _operand(b: Builder, i: PtxInstruction, at: int) -> Source:
    """Returns an operand as a number."""
    return b.word(i.operands[at])


def _sign_changed(source: Source) -> Source:
    """Returns the negated number."""
    return real(source.negate())


def _absolute(source: Source) -> Source:
    return real(Source(source.operand, absolute=True))


def _below(b: Builder, x: Source, bound: int) -> Source:
    """Returns the predicate that a number's absolute value is less than ``bound``."""
    return _compared(b, FloatCompare.LT, _absolute(x), number(bound))


def _compared(
    b: Builder,
    relation: FloatCompare,
    x: Source,
    y: Source,
    with_: Source = PT,
    combine: Boolean = Boolean.AND,
) -> Source:
    """Returns the predicate of a comparison, combined with another predicate."""
    result = b.temporary(True)
    b.op("FSETP", [result, None], x, y, with_, compare=relation, combine=combine)
    return Source(result)


def _where(b: Builder, condition: Source, name: str, x: Source, y: Source, **fields: Any) -> Source:
    """Returns the result of an operation on x and y where a condition is true, else x."""
    result = b.temporary()
    b.op("MOV", [result], x)
    b.op(name, [result], x, y, **fields).guard = condition
    return Source(result)


def _scaled(b: Builder, x: Source, factor: int, condition: Source, **fields: Any) -> Source:
    """Returns a number multiplied by ``factor`` where a condition is true, else the number."""
    return _where(b, condition, "FMUL", x, number(factor), **fields)


@single("add", "sub", "mul", "fma", "mad")
def _arithmetic(b: Builder, i: PtxInstruction) -> None:
    name = {"add": "FADD", "sub": "FADD", "mul": "FMUL"}.get(i.opcode, "FFMA")
    sources = [_operand(b, i, at) for at in range(1, len(i.operands))]
    if i.opcode == "sub":
        sources[1] = _sign_changed(sources[1])
    b.op(name, b.write(i.operands[0]), *sources, **_mode(i))


@single("neg", "abs")
def _sign(b: Builder, i: PtxInstruction) -> None:
    x = _operand(b, i, 1)
    b.op(
        "FADD",
        b.write(i.operands[0]),
        _sign_changed(x) if i.opcode == "neg" else _absolute(x),
        NOTHING,
        **_mode(i),
    )


@single("min", "max")
def _extreme(b: Builder, i: PtxInstruction) -> None:
    b.op(
        "FMNMX",
        b.write(i.operands[0]),
        _operand(b, i, 1),
        _operand(b, i, 2),
        PT if i.opcode == "min" else PT.invert(),
        **_mode(i),
    )


@single("copysign")
def _copy_sign(b: Builder, i: PtxInstruction) -> None:
    sign = b.compute("LOP", _operand(b, i, 1), number(SIGN), operation=Logic.AND)
    b.op(
        "LOP",
        b.write(i.operands[0]),
        sign,
        b.compute("LOP", _operand(b, i, 2), number(SIGN - 1), operation=Logic.AND),
        operation=Logic.OR,
    )


# Comparisons


def _relation(i: PtxInstruction) -> dict[str, Any]:
    assert i.compare is not None
    return {"compare": FloatCompare[i.compare.name], "flush": i.flush, "combine": combination(i)}


@single("setp")
def _set_predicate(b: Builder, i: PtxInstruction) -> None:
    first, second = (b.write(operand)[0] for operand in i.operands[:2])
    third = b.predicate(i.operands[4]) if i.combine is not None else PT
    b.op("FSETP", [first, second], _operand(b, i, 2), _operand(b, i, 3), third, **_relation(i))


@single("set")
def _set(b: Builder, i: PtxInstruction) -> None:
    third = b.predicate(i.operands[3]) if i.combine is not None else PT
    b.op(
        "FSET",
        b.write(i.operands[0]),
        _operand(b, i, 1),
        _operand(b, i, 2),
        third,
        one=i.type.floating,
        **_relation(i),
    )


@single("slct")
def _select_by_sign(b: Builder, i: PtxInstruction) -> None:
    """Selects slct: the first number if the third is not negative, else the second."""
    bits = i.type.bits
    xs, ys, by = b.read(i.operands[1], bits), b.read(i.operands[2], bits), _operand(b, i, 3)
    chosen = [
        b.compute("FCMP", x, y, by, compare=FloatCompare.GE, flush=i.flush)
        for x, y in zip(xs, ys, strict=True)
    ]
    b.move(b.write(i.operands[0], bits), chosen)


@single("testp")
def _test(b: Builder, i: PtxInstruction) -> None:
    x = _operand(b, i, 1)
    size, result = _absolute(x), b.write(i.operands[0])
    relation, bound, third = {
        "finite": (FloatCompare.LT, _INFINITY, PT),
        "infinite": (FloatCompare.EQ, _INFINITY, PT),
        "number": (FloatCompare.NUM, 0, PT),
        "notanumber": (FloatCompare.NAN, 0, PT),
        "subnormal": (FloatCompare.GT, 0, PT),
        "normal": (FloatCompare.LT, _INFINITY, PT),
    }[i.operation]
    if i.operation == "subnormal":
        third = _below(b, x, _LEAST)
    elif i.operation == "normal":
        third = _compared(
            b,
            FloatCompare.EQ,
            size,
            RZ,
            _compared(b, FloatCompare.GE, size, number(_LEAST)),
            Boolean.OR,
        )
    b.op("FSETP", [result[0], None], size, number(bound), third, compare=relation)


# Functions


def _function(b: Builder, x: Source, name: str) -> Source:
    return b.compute("MUFU", x, function=MultiFunction[name])


@single("sin", "cos", "lg2", "ex2")
def _approximate(b: Builder, i: PtxInstruction) -> None:
    b.move(b.write(i.operands[0]), [_approximated(b, i.opcode, _operand(b, i, 1), i.flush)])


def _approximated(b: Builder, name: str, x: Source, flush: bool) -> Source:
    """Returns the machine's approximation of a function; without ``flush`` subnormal numbers are
    not flushed.
    """
    match name:
        case "sin" | "cos":
            return _function(b, b.compute("RRO", x, mode=FloatRange.SINCOS), name.upper())
        case "ex2":
            return _power(b, x, flush)
    if flush:
        return _function(b, x, "LG2")
    small = _below(b, x, _LEAST)
    x = _scaled(b, x, _TWO_24, small)
    return _where(b, small, "FADD", _function(b, x, "LG2"), number(_MINUS_24))


def _power(b: Builder, x: Source, flush: bool) -> Source:
    """Returns 2 to the power of a number. If the result is below the normal numbers, it is the
    square of 2 to half the power.
    """
    if flush:
        return _function(b, b.compute("RRO", x, mode=FloatRange.EX2), "EX2")
    small = _compared(b, FloatCompare.LT, x, number(_LEAST_EXPONENT))
    power = _function(b, b.compute("RRO", _scaled(b, x, _HALF, small), mode=FloatRange.EX2), "EX2")
    return _where(b, small, "FMUL", power, power)


# Conversions


@single("cvt")
def _convert(b: Builder, i: PtxInstruction) -> None:
    to, source = i.types
    register, value = i.operands
    assert isinstance(register, PtxRegister)
    if not source.floating:
        words = source_words(b, value, source)
        b.move(b.write(register), [_of_integer(b, i, words, source)])
    elif to.floating:
        x = _operand(b, i, 1)
        if i.rounding:
            b.op(
                "F2F",
                b.write(register),
                x,
                **_whole(i.rounding),
                flush=i.flush,
                saturate=i.saturate,
            )
        elif i.flush or i.saturate:
            b.op("FADD", b.write(register), x, NOTHING, **_mode(i))
        else:
            b.move(b.write(register), [x])
    else:
        words = to_integer(b, i, _operand(b, i, 1), to)
        write_integer(b, register, words, to)


def _whole(rounding: str) -> dict[str, Any]:
    return {"destination": FloatFormat.F32, "source": FloatFormat.F32, "whole": WHOLE[rounding]}


def round_to_whole(b: Builder, x: Source, rounding: str) -> Source:
    """Returns a number rounded to an integral value."""
    return b.compute("F2F", x, **_whole(rounding))


def _of_integer(b: Builder, i: PtxInstruction, words: list[Source], source: Type) -> Source:
    found = b.compute(
        "I2F",
        *words,
        destination=FloatFormat.F32,
        source=integer_format(source),
        round=ROUNDINGS[i.rounding],
    )
    return b.compute("FADD", found, NOTHING, saturate=True) if i.saturate else found


def to_integer(b: Builder, i: PtxInstruction, x: Source, to: Type) -> list[Source]:
    """Returns a number converted to an integer and clamped to its type. 8-bit types are converted
    through 16 bits.
    """
    fields: dict[str, Any] = {
        "flush": i.flush,
        "destination": integer_format(to, 16),
        "source": FloatFormat.F32,
        "round": TO_WHOLE[i.rounding],
    }
    if to.bits == 64:
        low, high = b.pair()
        b.op("F2I", [low, high], x, **fields)
        return [Source(low), Source(high)]
    found = b.compute("F2I", x, **fields)
    if to is Type.U8:
        found = b.compute("IMNMX", found, number(255), PT, signed=False)
    elif to is Type.S8:
        found = b.compute(
            "IMNMX", b.compute("IMNMX", found, number(127), PT), number(-128), PT.invert()
        )
    return [found]
