"""Selection of conversions from and to half precision, through single precision.

Single precision represents every half exactly. A conversion from more bits rounds twice in the same
direction. For rounding to nearest, the first step rounds to odd, which preserves enough information
for the second. Integers that single precision cannot represent exactly are beyond the range of half
precision.
"""

from rtl.isa.kinds import FloatCompare, FloatFormat, FloatRounding, Logic
from sim.toolchain.compiler.ir import Source, number
from sim.toolchain.ptx.module import PtxInstruction, PtxRegister, Type

from .builder import Builder, ComputeKind, handles
from .convert import integer_format, write_integer
from .double import compared, computed
from .double import saturated as saturated_double
from .roundings import ROUNDINGS
from .single import round_to_whole, to_integer
from .special_registers import source_words

__all__: list[str] = []


@handles("cvt", kind=ComputeKind.HALVES)
def _convert(b: Builder, i: PtxInstruction) -> None:
    to, source = i.types
    if to is source and not i.rounding and not i.saturate:
        b.move(b.write(i.operands[0]), [b.word(i.operands[1])])
    elif to is Type.F16:
        _to_half(b, i, _single_of(b, i, source))
    else:
        _from_half(b, i, to)


def _to_half(b: Builder, i: PtxInstruction, x: Source) -> None:
    """Returns a number of single precision rounded to a half."""
    b.op(
        "F2F",
        b.write(i.operands[0]),
        x,
        flush=i.flush,
        destination=FloatFormat.F16,
        source=FloatFormat.F32,
        round=ROUNDINGS.get(i.rounding, FloatRounding.RN),
        saturate=i.saturate,
    )


def _single_of(b: Builder, i: PtxInstruction, source: Type) -> Source:
    """Returns the source of a conversion to a half in single precision."""
    value = i.operands[1]
    if source is Type.F16:
        x = _widened(b, b.word(value))
        return round_to_whole(b, x, i.rounding) if i.rounding else x
    if source is Type.F32:
        return b.word(value)
    words = source_words(b, value, source)
    if source is Type.F64:
        return _narrowed(b, words, i.rounding)
    return b.compute(
        "I2F",
        *words,
        destination=FloatFormat.F32,
        source=integer_format(source),
        round=ROUNDINGS[i.rounding],
    )


def _widened(b: Builder, half: Source) -> Source:
    return b.compute("F2F", half, destination=FloatFormat.F32, source=FloatFormat.F16)


def _narrowed(b: Builder, x: list[Source], rounding: str) -> Source:
    """Returns a double in single precision, rounded to odd if the half will be rounded to
    nearest.
    """
    if rounding != "rn":
        return b.compute(
            "F2F",
            *x,
            destination=FloatFormat.F32,
            source=FloatFormat.F64,
            round=ROUNDINGS[rounding],
        )
    cut = b.compute(
        "F2F", *x, destination=FloatFormat.F32, source=FloatFormat.F64, round=FloatRounding.RZ
    )
    inexact = compared(
        b,
        FloatCompare.NE,
        computed(b, "F2F", [cut], destination=FloatFormat.F64, source=FloatFormat.F32),
        x,
    )
    odd = b.compute("LOP", cut, number(1), operation=Logic.OR)
    return b.compute("SEL", odd, cut, inexact)


def _from_half(b: Builder, i: PtxInstruction, to: Type) -> None:
    register, value = i.operands
    assert isinstance(register, PtxRegister)
    if to is Type.F32:
        b.op(
            "F2F",
            b.write(register),
            b.word(value),
            destination=FloatFormat.F32,
            source=FloatFormat.F16,
            saturate=i.saturate,
        )
        return
    x = _widened(b, b.word(value))
    if to is Type.F64:
        words = computed(b, "F2F", [x], destination=FloatFormat.F64, source=FloatFormat.F32)
        words = saturated_double(b, words) if i.saturate else words
        b.move(b.write(register, 64), words)
    else:
        words = to_integer(b, i.changed(types=(to, Type.F32)), x, to)
        write_integer(b, register, words, to)
