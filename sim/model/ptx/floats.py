"""Floating-point arithmetic: for each instruction, a function of the operands' bits.

Results are computed exactly, with Python's integers and fractions, and rounded once. Functions, and
approximate quotients, are rounded to nearest: compiled code may differ within the errors that PTX
allows. All arithmetic produces the same NaN. Minimum and maximum order -0 below +0.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from sim.model.thread.floats import (
    DOUBLE,
    HALF,
    SINGLE,
    Format,
    Rounding,
    Special,
    decode,
    encode,
    infinity,
    not_a_number,
    round_to_integer,
)
from sim.toolchain.ptx.module import Comparison, PtxInstruction, Type

from .numbers import Compute, number_of

__all__ = ["REALS", "added", "compares", "converted"]

_FORMATS = {Type.F16: HALF, Type.F32: SINGLE, Type.F64: DOUBLE}
_ROUNDINGS = {
    "": Rounding.NEAREST_EVEN,
    "rn": Rounding.NEAREST_EVEN,
    "rm": Rounding.DOWN,
    "rp": Rounding.UP,
    "rz": Rounding.ZERO,
}
_HOLDS: Mapping[Comparison, str] = {
    Comparison.EQ: "=",
    Comparison.NE: "<>",
    Comparison.LT: "<",
    Comparison.LE: "<=",
    Comparison.GT: ">",
    Comparison.GE: ">=",
    Comparison.EQU: "=?",
    Comparison.NEU: "<>?",
    Comparison.LTU: "<?",
    Comparison.LEU: "<=?",
    Comparison.GTU: ">?",
    Comparison.GEU: ">=?",
    Comparison.NUM: "<=>",
    Comparison.NAN: "?",
}
"""The outcomes of a comparison for which each relation holds."""


@dataclass(frozen=True)
class _Real:
    """A number of sign and magnitude; the magnitude is a Special for an infinity or a NaN."""

    negative: bool
    size: Fraction | Special

    @property
    def value(self) -> Fraction:
        """The signed value; defined for finite numbers only."""
        assert isinstance(self.size, Fraction)
        return -self.size if self.negative else self.size


_NAN = _Real(False, Special.NAN)


_WITHOUT_SIGN, _TWO = 0x7FFF_FFFF, 0x4000_0000
"""Mask of a single-precision number without its sign; and the bits of 2.0, which is the least
normal number multiplied by 2 to the power of the bias.
"""
_LEAST_SINGLE = Fraction(1, 1 << 126)
"""The least normal number of single precision."""


@dataclass(frozen=True)
class _Arithmetic:
    """How an instruction reads floating-point operands and writes results.

    Attributes:
        form: Format of the operands and the result.
        rounding: Direction of rounding.
        flush: Whether subnormal operands and results are flushed to zero.
        saturate: Whether the result is clamped to [0, 1].
    """

    form: Format
    rounding: Rounding
    flush: bool
    saturate: bool

    @classmethod
    def of(cls, instruction: PtxInstruction) -> "_Arithmetic":
        return cls(
            _FORMATS[instruction.types[-1]],
            _ROUNDINGS.get(instruction.rounding, Rounding.NEAREST_EVEN),
            instruction.flush,
            instruction.saturate,
        )

    def flushed(self, bits: int) -> int:
        """Replaces a subnormal number with a zero of its sign, if the instruction flushes."""
        exponent = (1 << self.form.exponent) - 1 << self.form.fraction
        return bits & 1 << self.form.bits - 1 if self.flush and not bits & exponent else bits

    def read(self, bits: int) -> _Real:
        number = decode(self.flushed(bits), self.form)
        if len(number) == 2:
            return _Real(number[0], number[1])
        return _Real(number[0], Fraction(number[1]) * Fraction(2) ** number[2])

    def write(self, number: _Real) -> int:
        """Returns the number rounded, flushed and saturated, as bits."""
        bits = self.flushed(_rounded(number, self.form, self.rounding))
        if self.saturate:
            one = encode(False, 1, 0, self.form, Rounding.NEAREST_EVEN)
            return 0 if number.negative or number.size is Special.NAN else min(bits, one)
        return bits

    def write_quotient(self, number: _Real) -> int:
        """Like :meth:`write`, but decides on flushing after rounding with an unbounded exponent, as
        NVIDIA's code does.
        """
        if self.flush and isinstance(number.size, Fraction):
            far = Fraction(2) ** self.form.bias
            if (
                _rounded(_Real(number.negative, number.size * far), self.form, self.rounding)
                & _WITHOUT_SIGN
                < _TWO
            ):
                return number.negative << self.form.bits - 1
        return self.write(number)


def _rounded(number: _Real, form: Format, rounding: Rounding) -> int:
    negative, size = number.negative, number.size
    if size is Special.NAN:
        return not_a_number(form)
    if not isinstance(size, Fraction):
        return infinity(negative, form)
    if not size:
        return negative << form.bits - 1
    # Enough bits for an exact result, and a sticky bit.
    places = max(form.fraction + 3 + size.denominator.bit_length() - size.numerator.bit_length(), 0)
    whole, rest = divmod(size.numerator << places, size.denominator)
    return encode(negative, whole << 1 | bool(rest), -places - 1, form, rounding)


def _fused(x: _Real, y: _Real, z: _Real, rounding: Rounding) -> _Real:
    """Computes x * y + z, rounded once."""
    negative = x.negative != y.negative
    if _NAN.size in (x.size, y.size, z.size):
        return _NAN
    if Special.INFINITY in (x.size, y.size):
        if 0 in (x.size, y.size) or (z.size is Special.INFINITY and z.negative != negative):
            return _NAN
        return _Real(negative, Special.INFINITY)
    if z.size is Special.INFINITY:
        return z
    total = x.value * y.value + z.value
    if total:
        return _Real(total < 0, abs(total))
    # A sum of zeros of one sign keeps the sign. Any other zero sum is +0, or -0 when rounding down.
    return _Real(negative if negative == z.negative else rounding is Rounding.DOWN, Fraction(0))


_ONE = _Real(False, Fraction(1))


def _sum(sign: int) -> Callable[[PtxInstruction], Compute]:
    def make(instruction: PtxInstruction) -> Compute:
        how = _Arithmetic.of(instruction)

        def compute(a: int, b: int) -> int:
            y = how.read(b)
            return how.write(
                _fused(_ONE, how.read(a), _Real(y.negative != (sign < 0), y.size), how.rounding)
            )

        return compute

    return make


def _product(instruction: PtxInstruction) -> Compute:
    how = _Arithmetic.of(instruction)

    def compute(a: int, b: int) -> int:
        x, y = how.read(a), how.read(b)
        return how.write(_fused(x, y, _Real(x.negative != y.negative, Fraction(0)), how.rounding))

    return compute


def _product_and_sum(instruction: PtxInstruction) -> Compute:
    how = _Arithmetic.of(instruction)
    return lambda a, b, c: how.write(_fused(how.read(a), how.read(b), how.read(c), how.rounding))


def _divided(x: _Real, y: _Real) -> _Real:
    negative = x.negative != y.negative
    if Special.NAN in (x.size, y.size) or (x.size == y.size and x.size in (0, Special.INFINITY)):
        return _NAN
    if x.size is Special.INFINITY or y.size == 0:
        return _Real(negative, Special.INFINITY)
    if y.size is Special.INFINITY:
        return _Real(negative, Fraction(0))
    return _Real(negative, abs(x.value / y.value))


_LARGE = Fraction(2) ** 126
"""div.approx returns 0 for divisors above this magnitude."""


def _quotient(instruction: PtxInstruction) -> Compute:
    how = _Arithmetic.of(instruction)

    def compute(a: int, b: int) -> int:
        x, y = how.read(a), how.read(b)
        if (
            instruction.approximation == "approx"
            and isinstance(y.size, Fraction)
            and y.size > _LARGE
        ):
            y = _Real(y.negative, Special.INFINITY)
        return how.write_quotient(_divided(x, y))

    return compute


_UPPER_WORD = Format(20, 11)
"""The upper word of a double, read as a floating-point format."""


def _gross(of_number: Callable[[_Real], _Real]) -> Compute:
    """An .approx.ftz function in double precision: computes the result's upper word from the
    operand's upper word and clears the lower word.
    """
    how = _Arithmetic(_UPPER_WORD, Rounding.NEAREST_EVEN, flush=True, saturate=False)
    return lambda a: how.write(of_number(how.read(a >> 32))) << 32


def _reciprocal(instruction: PtxInstruction) -> Compute:
    if instruction.type is Type.F64 and instruction.approximation:
        return _gross(lambda x: _divided(_ONE, x))
    how = _Arithmetic.of(instruction)
    return lambda a: how.write_quotient(_divided(_ONE, how.read(a)))


def _root_of(x: _Real) -> _Real:
    """Computes the square root with more bits than any result format; an inexact root has its last
    bit set, as a sticky bit.
    """
    if not isinstance(x.size, Fraction) or not x.size:
        return _NAN if x.negative and x.size != 0 else x
    if x.negative:
        return _NAN
    scale = 2 * (DOUBLE.fraction + 4) + x.size.denominator.bit_length()
    scale += scale & 1
    whole = x.size.numerator * (1 << scale) // x.size.denominator
    root = math.isqrt(whole)
    exact = root * root * x.size.denominator == x.size.numerator << scale
    return _Real(False, Fraction(2 * root + (not exact), 1 << scale // 2 + 1))


def _root(instruction: PtxInstruction) -> Compute:
    how = _Arithmetic.of(instruction)
    return lambda a: how.write(_root_of(how.read(a)))


def _inverse_root_of(x: _Real) -> _Real:
    """Computes the reciprocal of the square root; of a zero, the infinity of its sign."""
    if x.negative and x.size != 0:
        return _NAN
    return _divided(_ONE, x) if x.size == 0 else _root_of(_divided(_ONE, x))


def _inverse_root(instruction: PtxInstruction) -> Compute:
    if instruction.type is not Type.F64:
        return _function(instruction)
    if instruction.flush:
        return _gross(_inverse_root_of)
    how = _Arithmetic.of(instruction)
    return lambda a: how.write(_inverse_root_of(how.read(a)))


def _sign(change: Callable[[bool], bool]) -> Callable[[PtxInstruction], Compute]:
    def make(instruction: PtxInstruction) -> Compute:
        how = _Arithmetic.of(instruction)

        def compute(a: int) -> int:
            x = how.read(a)
            return how.write(_Real(change(x.negative), x.size))

        return compute

    return make


def _extreme(last: bool) -> Callable[[PtxInstruction], Compute]:
    def make(instruction: PtxInstruction) -> Compute:
        how = _Arithmetic.of(instruction)

        def compute(a: int, b: int) -> int:
            numbers = [
                bits
                for bits in (how.flushed(a), how.flushed(b))
                if how.read(bits).size is not Special.NAN
            ]
            top = 1 << how.form.bits - 1
            numbers.sort(key=lambda bits: ~(bits & top - 1) if bits & top else bits)
            return numbers[-1 if last else 0] if numbers else not_a_number(how.form)

        return compute

    return make


def _with_sign(instruction: PtxInstruction) -> Compute:
    top = 1 << instruction.type.bits - 1
    return lambda a, b: a & top | b & top - 1


def _test(instruction: PtxInstruction) -> Compute:
    form = _FORMATS[instruction.type]
    end, least = infinity(False, form), 1 << form.fraction
    holds: Callable[[int], bool] = {
        "finite": lambda size: size < end,
        "infinite": lambda size: size == end,
        "number": lambda size: size <= end,
        "notanumber": lambda size: size > end,
        "normal": lambda size: not size or least <= size < end,
        "subnormal": lambda size: 0 < size < least,
    }[instruction.operation]
    return lambda a: int(holds(a & (1 << form.bits - 1) - 1))


# Functions, evaluated in double precision by Python's math library

_FUNCTIONS: Mapping[str, Callable[[float], float]] = {
    "sin": math.sin,
    "cos": math.cos,
    "ex2": lambda x: 2.0**x,
    "lg2": math.log2,
    "rsqrt": lambda x: 1 / math.sqrt(x),
}
_AT_INFINITY = {
    "ex2": (Fraction(0), Special.INFINITY),
    "lg2": (Special.NAN, Special.INFINITY),
    "rsqrt": (Special.NAN, Fraction(0)),
}
"""The limits of functions at negative and at positive infinity."""


def _function(instruction: PtxInstruction) -> Compute:
    how, function = _Arithmetic.of(instruction), _FUNCTIONS[instruction.opcode]
    ends = _AT_INFINITY.get(instruction.opcode, (Special.NAN, Special.NAN))

    def compute(a: int) -> int:
        x = how.read(a)
        if not isinstance(x.size, Fraction):
            return how.write(_NAN if x.size is Special.NAN else _Real(False, ends[not x.negative]))
        if instruction.opcode in ("lg2", "rsqrt") and (x.negative or not x.size):
            pole = _Real(instruction.opcode == "lg2" or x.negative, Special.INFINITY)
            return how.write(pole if not x.size else _NAN)
        if not x.size and instruction.opcode == "sin":
            return how.write(x)
        try:
            found = function(float(x.value))
        except OverflowError:
            return how.write(_Real(False, Special.INFINITY))
        return how.write(_Real(math.copysign(1, found) < 0, abs(Fraction(found))))

    return compute


REALS: Mapping[str, Callable[[PtxInstruction], Compute]] = {
    "add": _sum(1),
    "sub": _sum(-1),
    "mul": _product,
    "fma": _product_and_sum,
    "mad": _product_and_sum,
    "div": _quotient,
    "rcp": _reciprocal,
    "sqrt": _root,
    "neg": _sign(lambda negative: not negative),
    "abs": _sign(lambda negative: False),
    "min": _extreme(False),
    "max": _extreme(True),
    "copysign": _with_sign,
    "testp": _test,
    **dict.fromkeys(_FUNCTIONS, _function),
    "rsqrt": _inverse_root,
}
"""Makers of computations, by opcode."""


def added(kind: Type, old: int, b: int, *, flush: bool) -> int:
    """The sum of an atomic addition, rounded to nearest."""
    how = _Arithmetic(_FORMATS[kind], Rounding.NEAREST_EVEN, flush, False)
    return how.write(_fused(_ONE, how.read(old), how.read(b), how.rounding))


def compares(instruction: PtxInstruction) -> Callable[[int, int], bool]:
    """Returns a predicate that tests whether the instruction's relation holds of two operands."""
    how = _Arithmetic.of(instruction)
    assert instruction.compare is not None
    return lambda a, b: (
        _order(how.read(a), how.read(b)) in _HOLDS[instruction.compare or Comparison.EQ]
    )


def _order(x: _Real, y: _Real) -> str:
    if Special.NAN in (x.size, y.size):
        return "?"
    one, other = (
        (-math.inf if number.negative else math.inf)
        if number.size is Special.INFINITY
        else number.value
        for number in (x, y)
    )
    return "<" if one < other else ">" if one > other else "="


# Conversions


def converted(instruction: PtxInstruction) -> Compute:
    """The conversion of an instruction whose source or destination type is floating-point."""
    to, source = instruction.types
    if not source.floating:
        form, rounding = _FORMATS[to], _ROUNDINGS[instruction.rounding]
        how = _Arithmetic(form, rounding, instruction.flush, instruction.saturate)

        def of_integer(a: int) -> int:
            number = number_of(a, source)
            return how.write(_Real(number < 0, Fraction(abs(number))))

        return of_integer
    reading = _Arithmetic(
        _FORMATS[source], Rounding.NEAREST_EVEN, instruction.flush and source is Type.F32, False
    )
    if not to.floating:
        return lambda a: _integer(reading.read(a), to, source, instruction.rounding)
    if to is source and not (instruction.rounding or instruction.flush or instruction.saturate):
        return lambda a: a
    direction = _ROUNDINGS.get(instruction.rounding, Rounding.NEAREST_EVEN)
    writing = _Arithmetic(
        _FORMATS[to], direction, instruction.flush and to is Type.F32, instruction.saturate
    )

    # NVIDIA's code flushes results too small for single precision before rounding, with .sat after.
    narrows = (
        source is Type.F64 and to is Type.F32 and instruction.flush and not instruction.saturate
    )

    def of_real(a: int) -> int:
        x = reading.read(a)
        if instruction.rounding.endswith("i") and isinstance(x.size, Fraction):
            x = _Real(x.negative, Fraction(abs(_whole(x, instruction.rounding))))
        if narrows and isinstance(x.size, Fraction) and x.size < _LEAST_SINGLE:
            x = _Real(x.negative, Fraction(0))
        return writing.write(x)

    return of_real


def _whole(x: _Real, rounding: str) -> int:
    size = x.size
    assert isinstance(size, Fraction)
    return round_to_integer(
        x.negative, size.numerator, 1 - size.denominator.bit_length(), _ROUNDINGS[rounding[:2]]
    )


def _integer(x: _Real, to: Type, source: Type, rounding: str) -> int:
    """Rounds to an integer and clamps it to the type's range.

    A NaN gives 0. If the source or the destination has 64 bits, it gives the number of 32 or 64
    bits with only the top bit set, clamped to the type's range.
    """
    least = -(1 << to.bits - 1) if to.signed else 0
    largest = least + (1 << to.bits) - 1
    if x.size is Special.NAN:
        top = 1 << max(to.bits, 32) - 1
        return (
            min(max(-top if to.signed else top, least), largest)
            if 64 in (to.bits, source.bits)
            else 0
        )
    if x.size is Special.INFINITY:
        return least if x.negative else largest
    return min(max(_whole(x, rounding), least), largest)
