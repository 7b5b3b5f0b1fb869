"""Arithmetic and comparisons in double precision. Numbers are pairs of registers, or two words of a
constant bank."""

from dataclasses import replace

from .fields import D_CC, A, B, C, P, Q, X, alu, bits, flag
from .floating import COMBINE, COMPARE, SIGNS, SIGNS_SET, SIGNS_SETP, round_at
from .syntax import Adjust, Form, Pipe

__all__ = ["DOUBLE"]

_PAIR = 2
_A, _B = replace(A, span=_PAIR), replace(B, span=_PAIR)
_C = replace(C, span=_PAIR, adjust=Adjust(negate="negate_c"))
_RESULT = replace(D_CC, span=_PAIR)
_SIGNED_A = replace(_A, adjust=Adjust(negate="negate_a", absolute="absolute_a"))
_SIGNED_B = Adjust(negate="negate_b", absolute="absolute_b")
_NEGATED_PRODUCT = Adjust(negate="negate_b")

DOUBLE: list[Form] = [
    *alu(
        "DADD",
        {"r": (0x5C70, 0xFFF8), "c": (0x4C70, 0xFFF8), "i": (0x3870, 0xFEF8)},
        {"d": _RESULT, "a": _SIGNED_A, "b": _B},
        (round_at(39),),
        pipe=Pipe.DOUBLE,
        b=_SIGNED_B,
        b_span=_PAIR,
        real=64,
        fields=SIGNS,
    ),
    *alu(
        "DMUL",
        {"r": (0x5C80, 0xFFF8), "c": (0x4C80, 0xFFF8), "i": (0x3880, 0xFEF8)},
        {"d": _RESULT, "a": _A, "b": _B},
        (round_at(39),),
        pipe=Pipe.DOUBLE,
        b=_NEGATED_PRODUCT,
        b_span=_PAIR,
        real=64,
    ),
    *alu(
        "DFMA",
        {
            "r": (0x5B70, 0xFFF0),
            "c": (0x4B70, 0xFFF0),
            "i": (0x3670, 0xFEF0),
            "rc": (0x5370, 0xFFF0),
        },
        {"d": _RESULT, "a": _A, "b": _B, "c": _C},
        (round_at(50),),
        pipe=Pipe.DOUBLE,
        b=_NEGATED_PRODUCT,
        b_span=_PAIR,
        real=64,
        fields={"negate_c": bits(49, 1)},
    ),
    *alu(
        "DMNMX",
        {"r": (0x5C50, 0xFFF8), "c": (0x4C50, 0xFFF8), "i": (0x3850, 0xFEF8)},
        {"d": _RESULT, "a": _SIGNED_A, "b": _B, "x": X},
        pipe=Pipe.DOUBLE,
        b=_SIGNED_B,
        b_span=_PAIR,
        real=64,
        fields=SIGNS,
    ),
    *alu(
        "DSETP",
        {"r": (0x5B80, 0xFFF0), "c": (0x4B80, 0xFFF0), "i": (0x3680, 0xFEF0)},
        {"p": P, "q": Q, "a": _SIGNED_A, "b": _B, "x": X},
        (COMPARE, COMBINE),
        pipe=Pipe.DOUBLE,
        b=_SIGNED_B,
        b_span=_PAIR,
        real=64,
        fields=SIGNS_SETP,
    ),
    *alu(
        "DSET",
        {"r": (0x5900, 0xFF80), "c": (0x4900, 0xFF80), "i": (0x3200, 0xFE80)},
        {"d": D_CC, "a": _SIGNED_A, "b": _B, "x": X},
        (flag("one", 52, ".BF"), COMPARE, COMBINE),
        pipe=Pipe.DOUBLE,
        b=_SIGNED_B,
        b_span=_PAIR,
        real=64,
        fields=SIGNS_SET,
    ),
]
"""All forms of this module."""
