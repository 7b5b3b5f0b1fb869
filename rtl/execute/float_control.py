"""The control signals of a lane's floating-point unit, from the fields of an instruction word."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from amaranth.hdl import Array, Const, Value, signed, unsigned
from amaranth.lib import data, enum

from rtl.isa.kinds import FloatFlush, FloatRounding, ProductScale

__all__ = ["FLOAT_OPERATIONS", "FloatControl", "FloatTerms"]

_SCALES = {
    ProductScale.NONE.value: 0,
    ProductScale.D2.value: -1,
    ProductScale.D4.value: -2,
    ProductScale.D8.value: -3,
    ProductScale.M8.value: 3,
    ProductScale.M4.value: 2,
    ProductScale.M2.value: 1,
}
"""What each code of ProductScale adds to the exponent."""
_SCALE_BITS = 3


class FloatTerms(enum.Enum, shape=2):
    """The terms of the sum."""

    FMA = 0
    """a * b + c."""
    ADD = 1
    """a + b."""
    MULTIPLY = 2
    """a * b."""


class FloatControl(data.Struct):
    """The control signals of the floating-point unit, for all of its stages."""

    real: unsigned(1)
    """The result is that of the floating-point unit."""
    terms: FloatTerms
    negate_a: unsigned(1)
    negate_b: unsigned(1)
    negate_c: unsigned(1)
    absolute_a: unsigned(1)
    absolute_b: unsigned(1)
    swizzle: unsigned(8)
    """A SwizzledSum of a and b for each thread of a quad, the first one's on top."""
    scale: signed(3)
    """Added to the product's exponent."""
    flush: unsigned(1)
    """Subnormal operands and results become zero."""
    zero_wins: unsigned(1)
    """Zero times anything is +0."""
    round: FloatRounding
    saturate: unsigned(1)
    """The result is clamped to the range from 0 to 1; a NaN becomes 0."""
    decides: unsigned(1)
    """The thread's decision is that of the floating-point unit."""
    compare: unsigned(4)
    """Whether the relation holds if a is less (bit 0), equal, greater, or unordered (bit 3)."""
    of_c: unsigned(1)
    """c is compared with zero, not a with b."""
    checks: unsigned(1)
    """FCHK, in place of a relation: whether a / b needs the long sequence of a division."""
    chooses: unsigned(1)
    """The result is the lesser of a and b if predicate x holds, else the greater one."""


Fields = Callable[[str], Value]
Signals = Mapping[str, Value | enum.Enum | int]


def _signs(field: Fields) -> Signals:
    return {what: field(what) for what in ("negate_a", "negate_b", "absolute_a", "absolute_b")}


def _sum(field: Fields) -> Signals:
    flush = field("flush")
    return {
        "real": 1,
        "flush": flush.any(),
        "zero_wins": flush == FloatFlush.FMZ.value,
        "round": field("round"),
        "saturate": field("saturate"),
        **_signs(field),
    }


def _fadd(field: Fields) -> Signals:
    return {
        **_sum(field),
        "terms": FloatTerms.ADD,
    }


def _fswzadd(field: Fields) -> Signals:
    return {
        **_fadd(field),
        "swizzle": field("swizzle"),
    }


def _fmul(field: Fields) -> Signals:
    scales = Array(Const(_SCALES.get(code, 0), signed(3)) for code in range(1 << _SCALE_BITS))
    return {
        **_sum(field),
        "terms": FloatTerms.MULTIPLY,
        "scale": scales[field("scale")[:_SCALE_BITS]],
    }


def _rro(field: Fields) -> Signals:
    return {
        "real": 1,
        "terms": FloatTerms.MULTIPLY,
        **_signs(field),
    }


def _ffma(field: Fields) -> Signals:
    return {
        **_sum(field),
        "negate_c": field("negate_c"),
    }


def _fmnmx(field: Fields) -> Signals:
    return {
        **_signs(field),
        "real": 1,
        "decides": 1,
        "terms": FloatTerms.ADD,
        "chooses": 1,
        "flush": field("flush"),
    }


def _relation(field: Fields) -> Signals:
    return {
        **_signs(field),
        "decides": 1,
        "compare": field("compare"),
        "flush": field("flush"),
    }


def _fcmp(field: Fields) -> Signals:
    return {
        **_relation(field),
        "of_c": 1,
    }


def _fchk(field: Fields) -> Signals:
    return {
        **_signs(field),
        "decides": 1,
        "terms": FloatTerms.ADD,
        "checks": 1,
    }


FLOAT_OPERATIONS: Mapping[str, Callable[[Fields], Signals]] = MappingProxyType(
    {
        "FADD": _fadd,
        "FADD32I": _fadd,
        "FSWZADD": _fswzadd,
        "FMUL": _fmul,
        "FMUL32I": _fmul,
        "RRO": _rro,
        "FFMA": _ffma,
        "FFMA32I": _ffma,
        "FMNMX": _fmnmx,
        "FSETP": _relation,
        "FSET": _relation,
        "FCMP": _fcmp,
        "FCHK": _fchk,
    }
)
"""By instruction name."""
