"""Selection of conversions from and to half precision, by way of single precision.

Every half is a number of single precision. What is rounded to a half from more bits is rounded twice in the same
direction; to the nearest, the first time to odd, which leaves enough for the second. Integers that single precision
does not have are beyond all halves.
"""

from dataclasses import replace

from sim.toolchain.ptx.module import Instruction, Register, SpecialRegister, Type

from .builder import Builder, Kind, handles
from .ir import RZ, Source, number
from .select_convert import upper
from .select_double import compared, computed
from .select_double import saturated as saturated_double
from .select_single import WHOLE, to_integer
from .special import special_words

__all__: list[str] = []


@handles("cvt", kind=Kind.HALVES)
def _convert(b: Builder, i: Instruction) -> None:
    to, source = i.types
    if to is source and not i.rounding and not i.saturate:
        b.move(b.write(i.operands[0]), [b.word(i.operands[1])])
    elif to is Type.F16:
        _to_half(b, i, _single_of(b, i, source))
    else:
        _from_half(b, i, to)


def _to_half(b: Builder, i: Instruction, x: Source) -> None:
    """A number of single precision as a half."""
    rounding = f".{i.rounding.upper()}" if i.rounding in ("rz", "rm", "rp") else ""
    b.op("F2F", b.write(i.operands[0]), x, mods=f"{'.FTZ' * i.flush}.F16.F32{rounding}{'.SAT' * i.saturate}")


def _single_of(b: Builder, i: Instruction, source: Type) -> Source:
    """What becomes a half, in single precision."""
    value = i.operands[1]
    if source is Type.F16:
        x = _widened(b, b.word(value))
        return b.compute("F2F", x, mods=f".F32.F32{WHOLE[i.rounding]}") if i.rounding else x
    if source is Type.F32:
        return b.word(value)
    words = [*special_words(b, value), RZ] if isinstance(value, SpecialRegister) else b.read(value, source.bits)
    if source is Type.F64:
        return _narrowed(b, words, i.rounding)
    rounding = f".{i.rounding.upper()}" if i.rounding != "rn" else ""
    name = "I2F.64" if source.bits == 64 else "I2F"
    return b.compute(name, *words[:max(source.bits // 32, 1)], mods=f".F32.{source.value.upper()}{rounding}")


def _widened(b: Builder, half: Source, mods: str = "") -> Source:
    return b.compute("F2F.HALF", half, mods=f".F32.F16{mods}")


def _narrowed(b: Builder, x: list[Source], rounding: str) -> Source:
    """Double precision in single precision, rounded to odd where a half will be the nearest one."""
    if rounding != "rn":
        return b.compute("F2F.NARROW", *x, mods=f".F32.F64.{rounding.upper()}")
    cut = b.compute("F2F.NARROW", *x, mods=".F32.F64.RZ")
    inexact = compared(b, ".NE", computed(b, "F2F.WIDE", [cut], mods=".F64.F32"), x)
    odd = b.compute("LOP", cut, number(1), mods=".OR")
    return b.compute("SEL", odd, cut, inexact)


def _from_half(b: Builder, i: Instruction, to: Type) -> None:
    register, value = i.operands
    assert isinstance(register, Register)
    if to is Type.F32:
        b.op("F2F.HALF", b.write(register), b.word(value), mods=f".F32.F16{'.SAT' * i.saturate}")
        return
    x = _widened(b, b.word(value))
    if to is Type.F64:
        words = computed(b, "F2F.WIDE", [x], mods=".F64.F32")
        words = saturated_double(b, words) if i.saturate else words
    else:
        words = to_integer(b, replace(i, types=(to, Type.F32)), x, to)
        if register.type.bits == 64 and len(words) == 1:
            words.append(upper(b, words[0], to))
    b.move(b.write(register, register.type.bits), words)
