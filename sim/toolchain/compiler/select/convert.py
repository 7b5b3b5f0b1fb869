"""Selection of conversions between integers.

A register wider than the result's type is extended: with the sign of a signed type, else with
zeros.
"""

from rtl.isa.kinds import Compare, Logic
from sim.toolchain.compiler.ir import PT, RZ, Source, number
from sim.toolchain.compiler.opcodes import IntegerFormat
from sim.toolchain.ptx.module import PtxInstruction, PtxRegister, Type

from .builder import Builder, handles
from .integer import extended
from .long import comparison
from .special_registers import source_words

__all__ = ["integer_format", "write_integer"]


@handles("cvt")
def _convert(b: Builder, i: PtxInstruction) -> None:
    to, source = i.types
    register, operand = i.operands
    assert isinstance(register, PtxRegister)
    x = source_words(b, operand, source)
    if i.saturate:
        words = _saturated(b, x, to, source)
    else:
        words = _cut(b, x, to, source, register.type.bits)
    write_integer(b, register, words, to)


def write_integer(b: Builder, register: PtxRegister, words: list[Source], kind: Type) -> None:
    """Writes an integer of type ``kind`` in one or two words, extended to a 64-bit register if
    needed.
    """
    if register.type.bits == 64 and len(words) == 1:
        words = [words[0], _upper(b, words[0], kind)]
    b.move(b.write(register, register.type.bits), words)


def integer_format(kind: Type, least: int = 8) -> IntegerFormat:
    """Returns the conversion format of an integer type, with at least ``least`` bits."""
    return IntegerFormat[f"{'S' if kind.signed else 'U'}{max(kind.bits, least)}"]


def _upper(b: Builder, low: Source, kind: Type) -> Source:
    """Returns the upper word of a number that is extended to 64 bits."""
    return _sign(b, low) if kind.signed else RZ


def _sign(b: Builder, word: Source) -> Source:
    """Returns a word of copies of the sign bit."""
    return b.compute("SHR", word, number(31))


def _cut(b: Builder, x: list[Source], to: Type, source: Type, width: int) -> list[Source]:
    """Returns the low bits of a number: in one word, extended if the register is wider, or in two
    words.
    """
    if to.bits == 64:
        if source.bits == 64:
            return x
        low = extended(b, x[0], source)
        return [low, _upper(b, low, source)]
    low = extended(b, x[0], source) if source.bits < to.bits else x[0]
    return [extended(b, low, to) if to.bits < width else low]


def _saturated(b: Builder, x: list[Source], to: Type, source: Type) -> list[Source]:
    """Returns the number clamped to the range of ``to``."""
    if to.bits == 64:
        return _saturated_long(b, x, to, source)
    if source.bits == 64:
        low = _unsigned_word(b, x, source) if not to.signed else _signed_word(b, x, source)
        source = Type.S32 if to.signed else Type.U32
    else:
        low = extended(b, x[0], source)
    bits = to.bits - to.signed
    largest = number((1 << bits) - 1)
    if not source.signed:
        return [b.compute("IMNMX", low, largest, PT, signed=False) if bits < 32 else low]
    if bits < 31:
        low = b.compute("IMNMX", low, largest, PT)
    if to is Type.S32:
        return [low]
    return [b.compute("IMNMX", low, number(-(1 << bits)) if to.signed else RZ, PT.invert())]


def _without_negative(b: Builder, x: list[Source]) -> list[Source]:
    """Returns the number, or 0 if it is negative."""
    sign = _sign(b, x[-1])
    return [b.compute("LOP", word, sign.invert(), operation=Logic.AND) for word in x]


def _saturated_long(b: Builder, x: list[Source], to: Type, source: Type) -> list[Source]:
    """Returns a number clamped to a 64-bit type: signed to unsigned, or unsigned 64 bits to
    signed.
    """
    if not to.signed:
        words = _without_negative(b, x if source.bits == 64 else [extended(b, x[0], source)])
        return [*words, RZ][:2]
    fits = comparison(b, Compare.GE, True, x, [RZ, RZ])
    return [
        b.compute("SEL", word, number(most), fits)
        for word, most in zip(x, (-1, 0x7FFF_FFFF), strict=True)
    ]


def _unsigned_word(b: Builder, x: list[Source], source: Type) -> Source:
    """Returns a 64-bit number clamped to unsigned 32 bits."""
    low, high = _without_negative(b, x) if source.signed else x
    return b.compute("SEL", low, number(-1), b.test_unsigned(Compare.EQ, high, RZ))


def _signed_word(b: Builder, x: list[Source], source: Type) -> Source:
    """Returns a 64-bit number clamped to signed 32 bits."""
    low, high = x
    if not source.signed:
        fits = b.test_unsigned(
            Compare.EQ, b.compute("LOP", high, _sign_bit(b, low), operation=Logic.OR), RZ
        )
        return b.compute("SEL", low, number(0x7FFF_FFFF), fits)
    fits = b.test_unsigned(Compare.EQ, high, _sign(b, low))
    most = b.compute("LOP", _sign(b, high), number(0x7FFF_FFFF), operation=Logic.XOR)
    return b.compute("SEL", low, most, fits)


def _sign_bit(b: Builder, word: Source) -> Source:
    return b.compute("SHR", word, number(31), signed=False)
