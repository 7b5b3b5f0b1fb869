"""Arithmetic and comparisons in single precision."""

from dataclasses import replace

from .fields import D_CC, A, B, C, D, P, Q, X, alu, bits, choice, define, flag
from .kinds import (
    Boolean,
    FloatCompare,
    FloatFlush,
    FloatRange,
    FloatRounding,
    ProductScale,
    SwizzledSum,
    texts,
)
from .syntax import Adjust, Choice, Field, Form, Immediate, Modifier, Pipe, Register

__all__ = ["COMBINE", "COMPARE", "FLOATING", "SIGNS", "SIGNS_SET", "SIGNS_SETP", "round_at"]


_Modifier = tuple[dict[str, Field], Modifier]

_SIGNED_A = replace(A, adjust=Adjust(negate="negate_a", absolute="absolute_a"))
_SIGNED_B = Adjust(negate="negate_b", absolute="absolute_b")
_NEGATED_C = replace(C, adjust=Adjust(negate="negate_c"))
_NEGATED_PRODUCT = Adjust(negate="negate_b")
_WHOLE = Immediate("imm32", real=32)
SIGNS = {
    "negate_b": bits(45, 1),
    "absolute_a": bits(46, 1),
    "negate_a": bits(48, 1),
    "absolute_b": bits(49, 1),
}
_FTZ, _SAT = flag("flush", 44, ".FTZ"), flag("saturate", 50, ".SAT")
_FLUSH_TEXTS = texts(FloatFlush, NONE="")
_ROUND_TEXTS = texts(FloatRounding, RN="")


def round_at(lowest: int) -> _Modifier:
    """The direction of rounding, in the two bits from ``lowest`` on."""
    return choice("round", bits(lowest, 2), _ROUND_TEXTS)


def _flush(lowest: int) -> _Modifier:
    return choice("flush", bits(lowest, 2), _FLUSH_TEXTS)


ARITHMETIC: list[Form] = [
    *alu(
        "FADD",
        {"r": (0x5C58, 0xFFF8), "c": (0x4C58, 0xFFF8), "i": (0x3858, 0xFEF8)},
        {"d": D_CC, "a": _SIGNED_A, "b": B},
        (_FTZ, round_at(39), _SAT),
        b=_SIGNED_B,
        real=32,
        fields=SIGNS,
    ),
    define(
        "FADD32I",
        0x0800 << 48,
        0xFC00 << 48,
        Pipe.ALU,
        {"d": D_CC, "a": _SIGNED_A, "b": replace(_WHOLE, adjust=_SIGNED_B)},
        (flag("flush", 55, ".FTZ"),),
        fields={
            "cc": bits(52, 1),
            "negate_b": bits(53, 1),
            "absolute_a": bits(54, 1),
            "negate_a": bits(56, 1),
            "absolute_b": bits(57, 1),
        },
    ),
    *alu(
        "FMUL",
        {"r": (0x5C68, 0xFFF8), "c": (0x4C68, 0xFFF8), "i": (0x3868, 0xFEF8)},
        {"d": D_CC, "a": A, "b": B},
        (
            _flush(44),
            choice("scale", bits(41, 3), texts(ProductScale, NONE="")),
            round_at(39),
            _SAT,
        ),
        b=_NEGATED_PRODUCT,
        real=32,
    ),
    define(
        "FMUL32I",
        0x1E00 << 48,
        0xFF00 << 48,
        Pipe.ALU,
        {"d": D_CC, "a": A, "b": _WHOLE},
        (_flush(53), flag("saturate", 55, ".SAT")),
        fields={"cc": bits(52, 1)},
    ),
    *alu(
        "FFMA",
        {
            "r": (0x5980, 0xFF80),
            "c": (0x4980, 0xFF80),
            "i": (0x3280, 0xFE80),
            "rc": (0x5180, 0xFF80),
        },
        {"d": D_CC, "a": A, "b": B, "c": _NEGATED_C},
        (_flush(53), round_at(51), _SAT),
        b=_NEGATED_PRODUCT,
        real=32,
        fields={"negate_c": bits(49, 1)},
    ),
    define(
        "FFMA32I",
        0x0C00 << 48,
        0xFC00 << 48,
        Pipe.ALU,
        {
            "d": D_CC,
            "a": replace(A, adjust=Adjust(negate="negate_a")),
            "b": _WHOLE,
            "c": Register("Rd", adjust=Adjust(negate="negate_c")),
        },
        (_flush(53), flag("saturate", 55, ".SAT")),
        fields={"cc": bits(52, 1), "negate_a": bits(56, 1), "negate_c": bits(57, 1)},
    ),
    *alu(
        "RRO",
        {"r": (0x5C90, 0xFFF8), "c": (0x4C90, 0xFFF8), "i": (0x3890, 0xFEF8)},
        {"d": D, "b": B},
        (choice("mode", bits(39, 1), texts(FloatRange)),),
        b=_SIGNED_B,
        real=32,
        fields={"negate_b": bits(45, 1), "absolute_b": bits(49, 1)},
    ),
]

COMPARE = choice("compare", bits(48, 4), texts(FloatCompare))
COMBINE = choice("combine", bits(45, 2), texts(Boolean))
SIGNS_SET = {
    "negate_a": bits(43, 1),
    "absolute_b": bits(44, 1),
    "negate_b": bits(53, 1),
    "absolute_a": bits(54, 1),
}
SIGNS_SETP = {
    "negate_a": bits(43, 1),
    "absolute_b": bits(44, 1),
    "negate_b": bits(6, 1),
    "absolute_a": bits(7, 1),
}
_SWIZZLES = tuple("".join(SwizzledSum(code >> 2 * pair & 3).name for pair in reversed(range(4)))
                  for code in range(256))
"""Of the first thread of a quad first, which is the upper left one."""

COMPARISON: list[Form] = [
    *alu(
        "FMNMX",
        {"r": (0x5C60, 0xFFF8), "c": (0x4C60, 0xFFF8), "i": (0x3860, 0xFEF8)},
        {"d": D_CC, "a": _SIGNED_A, "b": B, "x": X},
        (_FTZ,),
        b=_SIGNED_B,
        real=32,
        fields=SIGNS,
    ),
    *alu(
        "FSETP",
        {"r": (0x5BB0, 0xFFF0), "c": (0x4BB0, 0xFFF0), "i": (0x36B0, 0xFEF0)},
        {"p": P, "q": Q, "a": _SIGNED_A, "b": B, "x": X},
        (COMPARE, flag("flush", 47, ".FTZ"), COMBINE),
        b=_SIGNED_B,
        real=32,
        fields=SIGNS_SETP,
    ),
    *alu(
        "FSET",
        {"r": (0x5800, 0xFF00), "c": (0x4800, 0xFF00), "i": (0x3000, 0xFE00)},
        {"d": D_CC, "a": _SIGNED_A, "b": B, "x": X},
        (flag("one", 52, ".BF"), COMPARE, flag("flush", 55, ".FTZ"), COMBINE),
        b=_SIGNED_B,
        real=32,
        fields=SIGNS_SET,
    ),
    *alu(
        "FCMP",
        {
            "r": (0x5BA0, 0xFFF0),
            "c": (0x4BA0, 0xFFF0),
            "i": (0x36A0, 0xFEF0),
            "rc": (0x53A0, 0xFFF0),
        },
        {"d": D, "a": A, "b": B, "c": C},
        (choice("compare", bits(48, 4), texts(FloatCompare, GT="")), flag("flush", 47, ".FTZ")),
        real=32,
    ),
    *alu(
        "FCHK",
        {"r": (0x5C88, 0xFFF8), "c": (0x4C88, 0xFFF8), "i": (0x3888, 0xFEF8)},
        {"p": P, "a": _SIGNED_A, "b": B},
        (choice("mode", bits(39, 6), {0: ".DIVIDE"}),),
        b=_SIGNED_B,
        real=32,
        fields=SIGNS,
    ),
    define(
        "FSWZADD",
        0x50F8 << 48,
        0xFFF8 << 48,
        Pipe.ALU,
        {"d": D_CC, "a": A, "b": B, "swizzle": Choice("swizzle", dict(enumerate(_SWIZZLES)))},
        (flag("flush", 44, ".FTZ"), round_at(39), flag("derivative", 38, ".NDV")),
        fields={"swizzle": bits(28, 8)},
    ),
]

FLOATING: list[Form] = [*ARITHMETIC, *COMPARISON]
"""All forms of this module."""
