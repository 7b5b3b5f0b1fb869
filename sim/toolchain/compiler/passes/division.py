"""Division of words.

By a number it is a product with a reciprocal in fixed point (after Granlund and Montgomery, "Division by invariant
integers using multiplication", 1994). Else the reciprocal comes from the float unit, which is a little too small, is
made better by a step of Newton's method, and what then is missing of the quotient, 2 at most, is added. Quotient and
remainder by zero are all ones, as NVIDIA's assembler has it.
"""

from dataclasses import replace

from rtl.isa.kinds import Compare, FloatFlush, FloatFormat, FloatRounding, Logic, MultiFunction
from sim.toolchain.compiler.ir import RZ, WORD, Op, Source, Value, number
from sim.toolchain.compiler.opcodes import IntegerFormat

from .emitter import Emitter

__all__ = ["divide"]

_RECIPROCAL_SCALE = 0x0FFF_FFFE
"""What is added to the bits of 1 / b to have a float a little less than 2**32 / b."""


def divide(e: Emitter, op: Op) -> None:
    """DIV and REM."""
    result = op.results[0]
    if result is None:
        return
    x, y = op.sources
    signed, remainder = bool(op.fields["signed"]), op.name == "REM"
    if not isinstance(x.what, Value):
        x = e.compute("MOV", x)
    divisor = y.number
    if divisor:
        _by_number(e, result, x, divisor, signed, remainder)
        return
    if not isinstance(y.what, Value):
        y = e.compute("MOV", y)
    if signed:
        _signed(e, result, x, y, remainder)
    else:
        quotient, rest = _unsigned(e, x, y, remainder)
        found = rest if remainder else quotient
        e.op("ICMP", [result], _all_ones_if_zero(e, y), found, y, compare=Compare.EQ, signed=False)


def _unsigned(e: Emitter, x: Source, y: Source, remainder: bool) -> tuple[Source, Source]:
    """Quotient and remainder by a divisor that is not zero."""
    rounded = e.compute(
        "I2F", y, destination=FloatFormat.F32, source=IntegerFormat.U32, round=FloatRounding.RP
    )
    inverse = e.compute("MUFU", rounded, function=MultiFunction.RCP)
    scaled = e.compute("IADD", inverse, number(_RECIPROCAL_SCALE))
    estimate = e.compute(
        "F2I",
        scaled,
        flush=FloatFlush.FTZ,
        destination=IntegerFormat.U32,
        source=FloatFormat.F32,
        round=FloatRounding.RZ,
    )
    error, better, quotient, rest = (e.value() for _ in range(4))
    e.low_product(error, e.compute("IADD", y.negate(), RZ), estimate, RZ)
    e.high_product(better, estimate, Source(error), False, estimate)
    e.high_product(quotient, Source(better), x, False)
    e.low_product(rest, e.compute("IADD", Source(quotient).negate(), RZ), y, x)
    current, left = Source(quotient), Source(rest)
    for last in (False, True):
        enough = e.compare_unsigned(Compare.GE, left, y)
        if not (last and not remainder):
            left = e.compute("SEL", e.compute("IADD", left, y.negate()), left, enough)
        if not remainder:
            current = e.compute("SEL", e.compute("IADD", current, number(1)), current, enough)
    return current, left


def _signed(e: Emitter, result: Value, x: Source, y: Source, remainder: bool) -> None:
    """Magnitudes are divided; the quotient is negative if one is, the remainder if the dividend is."""
    one, other = (
        e.compute(
            "I2I",
            replace(source, absolute=True),
            destination=IntegerFormat.S32,
            source=IntegerFormat.S32,
        )
        for source in (x, y)
    )
    quotient, rest = _unsigned(e, one, other, remainder)
    found = rest if remainder else quotient
    sign = x if remainder else e.compute("LOP", x, y, operation=Logic.XOR)
    signed = e.compute(
        "ICMP", found, e.compute("IADD", found.negate(), RZ), sign, compare=Compare.GE
    )
    e.op("ICMP", [result], _all_ones_if_zero(e, y), signed, y, compare=Compare.EQ, signed=False)


def _all_ones_if_zero(e: Emitter, y: Source) -> Source:
    return e.compute("LOP", RZ, y.invert(), operation=Logic.PASS_B)


def _by_number(
    e: Emitter, result: Value, x: Source, divisor: int, signed: bool, remainder: bool
) -> None:
    magnitude = -divisor & WORD if signed and divisor >> 31 else divisor
    quotient = e.value()
    if signed:
        _signed_by_number(e, quotient, x, divisor, magnitude)
    else:
        _unsigned_by_number(e, quotient, x, divisor)
    if remainder:
        e.low_product(result, Source(quotient), number(-divisor), x)
    else:
        e.op("MOV", [result], Source(quotient))


def _unsigned_by_number(e: Emitter, result: Value, x: Source, divisor: int) -> None:
    bits = (divisor - 1).bit_length()
    if divisor & divisor - 1 == 0:
        e.op("SHR", [result], x, number(bits), signed=False)
        return
    factor, shift = _reciprocal(divisor, 32)
    if factor <= WORD:
        product = e.value()
        e.high_product(product, x, number(factor), False)
        e.op("SHR", [result], Source(product), number(shift - 32), signed=False)
        return
    # The factor has 33 bits: x is added once more, halved before so that nothing overflows.
    product = e.value()
    e.high_product(product, x, number(factor & WORD), False)
    half = e.compute("SHR", e.compute("IADD", x, Source(product).negate()), number(1), signed=False)
    e.op(
        "SHR", [result], e.compute("IADD", half, Source(product)), number(shift - 33), signed=False
    )


def _reciprocal(divisor: int, bits: int) -> tuple[int, int]:
    """A factor and a shift s, 32 at least, with x * factor >> s == x // divisor for every x of so many bits."""
    for shift in range(32, 65):
        factor = (1 << shift) // divisor + 1
        if factor * divisor - (1 << shift) <= 1 << shift - bits:
            return factor, shift
    raise AssertionError(divisor)


def _signed_by_number(e: Emitter, result: Value, x: Source, divisor: int, magnitude: int) -> None:
    negative = divisor >> 31
    if magnitude == 1:
        e.op("IADD", [result], x.negate() if negative else x, RZ)
        return
    found = e.value()
    if magnitude & magnitude - 1 == 0:
        bits = magnitude.bit_length() - 1
        bias = e.compute("SHR", e.compute("SHR", x, number(31)), number(32 - bits), signed=False)
        e.op("SHR", [found], e.compute("IADD", x, bias), number(bits))
    else:
        factor, shift = _reciprocal(magnitude, 31)
        product = e.value()
        e.high_product(product, x, number(factor), True)
        total = Source(product)
        if factor >> 31:
            total = e.compute("IADD", total, x)
        shifted = e.compute("SHR", total, number(shift - 32))
        e.op("IADD", [found], shifted, e.compute("SHR", x, number(31), signed=False))
    e.op("IADD", [result], Source(found).negate() if negative else Source(found), RZ)
