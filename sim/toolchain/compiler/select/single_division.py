"""Quotients, reciprocals and roots in single precision, rounded once in every direction.

A reciprocal of the float unit is made better by a step of Newton's method. A quotient is a product with it, and twice
what is missing of it, which a fused multiply-add gives exactly, is added; the last sum rounds. Where an operand or the
result is not in the middle of the range, as FCHK tells, a function does it: with operands between 1 and 2, so that
nothing is lost on the way, and with the last rounding in integers if the result is subnormal. With .ftz that is 0,
before it is rounded any further. A root needs no branch:
small numbers are multiplied by a power of 4.
"""

from collections.abc import Callable, Mapping

from rtl.isa.kinds import Boolean, Compare, FloatCompare, FloatFlush, Logic, MultiFunction
from sim.toolchain.compiler.abi import STACK_POINTER, STANDARD_CLOBBERS
from sim.toolchain.compiler.ir import PT, RZ, SIGN, Function, Source, Value, number
from sim.toolchain.compiler.layout import Layout
from sim.toolchain.compiler.passes.combine import NOTHING
from sim.toolchain.ptx.module import Instruction

from .builder import Builder
from .roundings import ROUNDINGS
from .single import (
    INFINITY,
    LEAST,
    ONE,
    TWO_24,
    approximated,
    below,
    compared,
    operand,
    quotient,
    scaled,
    sign_changed,
    single,
    where,
)

__all__ = ["DIVISIONS"]

_DIRECTIONS = ("rn", "rz", "rm", "rp")
_REGISTERS = (4, 5)
"""Where the function has dividend and divisor; the quotient is in the first."""
_HALF = 0x3F00_0000
_TWO_64, _TWO_MINUS_32, _TWO_MINUS_64 = 0x5F80_0000, 0x2F80_0000, 0x1F80_0000
_LARGE, _FOUR = 0x7F00_0000, 0x4080_0000
"""Numbers whose product is beyond all."""
_EXPONENT = number(23 | 8 << 8)
"""Place and length of the exponent, for BFE."""
_TOP_EXPONENT = 255
_SHIFT_LIMIT = 26
"""A significand that is shifted by as much is less than half of what is left."""


def _name(direction: str, flush: bool) -> str:
    return f"__divide_f32_{direction}{'_ftz' * flush}"


def _fused(b: Builder, x: Source, y: Source, z: Source, direction: str = "rn") -> Source:
    return b.compute("FFMA", x, y, z, round=ROUNDINGS[direction])


def _better(b: Builder, x: Source) -> tuple[Source, Source]:
    """The reciprocal of a number in the middle of the range, as it is and rounded to the nearest."""
    first = b.compute("MUFU", x, function=MultiFunction.RCP)
    return first, _fused(b, first, _fused(b, sign_changed(x), first, number(ONE)), first)


def _divided(b: Builder, x: Source, y: Source, inverse: Source, direction: str) -> Source:
    """The quotient, rounded, with a good reciprocal."""
    found = b.compute("FMUL", x, inverse)
    for rounding in ("rn", "rn", *([] if direction == "rn" else [direction])):
        found = _fused(b, _fused(b, sign_changed(y), found, x), inverse, found, rounding)
    return found


# The function


class _Part:
    """An operand between 1 and 2, with its sign, and its exponent; zeros, infinities and NaNs are as they are."""

    def __init__(self, b: Builder, x: Source) -> None:
        tiny = below(b, x, LEAST)
        normal = scaled(b, x, TWO_24, tiny)
        exponent = b.compute("BFE", normal, _EXPONENT, signed=False)
        self.exponent = where(b, tiny, "IADD", exponent, number(-24))
        fraction = b.compute("LOP", normal, number(~INFINITY), operation=Logic.AND)
        self.ordinary = compared(
            b,
            FloatCompare.LT,
            Source(x.what, absolute=True),
            number(INFINITY),
            compared(b, FloatCompare.GT, Source(x.what, absolute=True), RZ),
        )
        self.value = b.compute(
            "SEL", b.compute("LOP", fraction, number(ONE), operation=Logic.OR), x, self.ordinary
        )


def _function(direction: str, flush: bool) -> Function:
    function = Function(_name(direction, flush), False, [])
    b = Builder(function, Layout(), {}, Value("stack", fixed=STACK_POINTER))
    function.stack = b.stack
    b.begin(b.block)
    function.parameters = [b.temporary(fixed=register) for register in _REGISTERS]
    x, y = (_Part(b, b.compute("MOV", Source(value))) for value in function.parameters)
    first, inverse = _better(b, y.value)
    nearest = _divided(b, x.value, y.value, inverse, "rn")
    missing = _fused(b, sign_changed(y.value), nearest, x.value)
    rounded = nearest if direction == "rn" else _fused(b, missing, inverse, nearest, direction)
    power = b.compute("IADD", x.exponent, y.exponent.negate())
    exponent = b.compute("IADD", b.compute("BFE", rounded, _EXPONENT, signed=False), power)
    sign = b.compute("LOP", rounded, number(SIGN), operation=Logic.AND)
    beyond = b.compute(
        "FMUL",
        b.compute("LOP", sign, number(_LARGE), operation=Logic.OR),
        number(_FOUR),
        round=ROUNDINGS[direction],
    )
    small = sign
    if not flush:
        cut = _fused(b, missing, inverse, nearest, "rz")
        more = compared(b, FloatCompare.NE, _fused(b, sign_changed(y.value), cut, x.value), RZ)
        small = b.compute(
            "LOP", _subnormal(b, cut, power, more, sign, direction), sign, operation=Logic.OR
        )
    result = b.compute("IADD", b.compute("SHL", power, number(23)), rounded)
    result = b.compute("SEL", small, result, b.test(Compare.LT, exponent, number(1)))
    result = b.compute("SEL", beyond, result, b.test(Compare.GE, exponent, number(_TOP_EXPONENT)))
    both = b.temporary(True)
    b.op("PSETP", [both, None], x.ordinary, y.ordinary, PT)
    result = b.compute("SEL", result, b.compute("FMUL", x.value, first), Source(both))
    function.results = [b.temporary(fixed=_REGISTERS[0])]
    b.op("MOV", [function.results[0]], result)
    b.end("ret")
    return function


def _subnormal(
    b: Builder, cut: Source, power: Source, more: Source, sign: Source, direction: str
) -> Source:
    """The bits of a subnormal result without its sign, of a significand that is cut off and whether it was more."""
    exponent = b.compute("IADD", b.compute("BFE", cut, _EXPONENT, signed=False), power)
    shift = b.compute(
        "IMNMX", b.compute("IADD", number(1), exponent.negate()), number(_SHIFT_LIMIT), PT
    )
    one_more = b.compute("IADD", shift, number(1))
    fraction = b.compute(
        "LOP",
        b.compute("LOP", cut, number(LEAST - 1), operation=Logic.AND),
        number(LEAST),
        operation=Logic.OR,
    )
    significand = b.compute(
        "IADD", b.compute("SHL", fraction, number(1)), b.compute("SEL", number(1), RZ, more)
    )
    if direction == "rn":
        odd = b.compute(
            "LOP",
            b.compute("SHR", significand, one_more, signed=False),
            number(1),
            operation=Logic.AND,
        )
        added = b.compute(
            "IADD", b.compute("IADD", b.compute("SHL", number(1), shift), number(-1)), odd
        )
    elif direction == "rz":
        added = RZ
    else:
        outwards = b.test(Compare.LT if direction == "rm" else Compare.GE, sign, RZ)
        added = b.compute("IADD", b.compute("SHL", number(1), one_more), number(-1))
        added = b.compute("SEL", added, RZ, outwards)
    return b.compute("SHR", b.compute("IADD", significand, added), one_more, signed=False)


DIVISIONS: Mapping[str, Callable[[], Function]] = {
    _name(direction, flush): lambda direction=direction, flush=flush: _function(direction, flush)
    for direction in _DIRECTIONS
    for flush in (False, True)
}
"""The functions by name."""


# Their calls


def _flushed(b: Builder, x: Source, flush: bool) -> Source:
    return b.compute("FADD", x, NOTHING, flush=FloatFlush.FTZ) if flush else x


def _quotient(b: Builder, x: Source, y: Source, direction: str, flush: bool) -> Source:
    """The short way, or the function where FCHK says so."""
    x, y = (b.compute("MOV", _flushed(b, word, flush)) for word in (x, y))
    slow, fast, done = b.new_block("slow"), b.new_block("fast"), b.new_block("done")
    check, result = b.temporary(True), b.temporary()
    b.op("FCHK", [check], x, y)
    b.end("branch", slow, fast, condition=Source(check))
    b.begin(slow)
    fixed = [b.temporary(fixed=register) for register in _REGISTERS]
    for value, word in zip(fixed, (x, y), strict=True):
        b.op("MOV", [value], word)
    given = b.temporary(fixed=_REGISTERS[0])
    name = _name(direction, flush)
    b.op(
        "CAL", [given], *(Source(value) for value in fixed), symbol=name, clobbers=STANDARD_CLOBBERS
    )
    b.function.calls.append(name)
    b.op("MOV", [result], Source(given))
    b.end("goto", done)
    b.begin(fast)
    _, inverse = _better(b, y)
    b.op("MOV", [result], _divided(b, x, y, inverse, direction))
    b.end("goto", done)
    b.begin(done)
    return Source(result)


def _rooted(b: Builder, x: Source, direction: str) -> Source:
    """The root; 0 and infinity are their own, as a fused multiply-add would not have it."""
    small = compared(b, FloatCompare.LT, x, number(_TWO_MINUS_64))
    normal = scaled(b, x, _TWO_64, small)
    inverse = b.compute("MUFU", normal, function=MultiFunction.RSQ)
    root, half = b.compute("FMUL", normal, inverse), b.compute("FMUL", inverse, number(_HALF))
    error = _fused(b, sign_changed(root), half, number(_HALF))
    root, half = _fused(b, root, error, root), _fused(b, half, error, half)
    for rounding in ("rn", *([] if direction == "rn" else [direction])):
        root = _fused(b, _fused(b, sign_changed(root), root, normal), half, root, rounding)
    root = scaled(b, root, _TWO_MINUS_32, small)
    itself = compared(
        b, FloatCompare.EQ, x, number(INFINITY), compared(b, FloatCompare.EQ, x, RZ), Boolean.OR
    )
    return b.compute("SEL", x, root, itself)


@single("div", "rcp", "sqrt")
def _divide(b: Builder, i: Instruction) -> None:
    x = operand(b, i, 1)
    if i.approximation:
        found = (
            quotient(b, x, operand(b, i, 2), i.flush, i.approximation == "full")
            if i.opcode == "div"
            else approximated(b, i.opcode, x, i.flush)
        )
        b.move(b.write(i.operands[0]), [found])
        return
    if i.opcode == "sqrt":
        b.move(b.write(i.operands[0]), [_rooted(b, _flushed(b, x, i.flush), i.rounding)])
        return
    behind = b.guarded_block()
    one, other = (number(ONE), x) if i.opcode == "rcp" else (x, operand(b, i, 2))
    b.move(b.write(i.operands[0]), [_quotient(b, one, other, i.rounding, i.flush)])
    b.leave_guarded_block(behind)
