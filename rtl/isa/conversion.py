"""Conversions, bit counts and functions: the instructions of variable latency beside memory."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from .fields import D_CC, A, B, D, alu, bits, choice, define, flag
from .kinds import FloatFormat, MultiFunction, texts
from .syntax import Adjust, Field, Form, Modifier, Pipe, Values

__all__ = ["CONVERSION", "DOUBLE_WORD"]

_FORMS = {"r": (0xFFF8, 0x5C00), "c": (0xFFF8, 0x4C00), "i": (0xFEF8, 0x3800)}


def _codes(low: int, variants: str = "rci") -> dict[str, tuple[int, int]]:
    return {variant: (_FORMS[variant][1] | low, _FORMS[variant][0]) for variant in variants}


def _integer_type(size: int, sign: int, bytes_of: Mapping[int, int]) -> Mapping[int, str]:
    """Spelling of a size field with a sign bit above it."""
    return {code | signed << size: f".{'S' if signed else 'U'}{8 * bytes_of[code]}"
            for code in bytes_of for signed in range(1 << sign)}


_I2I_BYTES = {0: 1, 1: 2, 2: 4}
DOUBLE_WORD = 3
"""The code of 64 bits in a size field; for integers the sign bit is above it."""
_I2F_BYTES = _I2I_BYTES | {DOUBLE_WORD: 8}
_F2I_BYTES = {1: 2, 2: 4, DOUBLE_WORD: 8}


def _byte_parts(values: Values) -> Mapping[int, str]:
    """A 16-bit source has halves, others have bytes."""
    return {0: "", 2: ".H1"} if values["source"] & 3 == 1 else {0: "", 1: ".B1", 2: ".B2", 3: ".B3"}


def _registers(name: str, double: int) -> Callable[[Values], int]:
    """Registers of an operand whose size is in field ``name``: two for 64 bits, of which ``double``
    is the code."""
    return lambda values: 2 if values[name] & 3 == double else 1


_SOURCE = Field(((10, 2), (13, 1)))
_SIGN_FIELDS = {"negate_b": bits(45, 1), "absolute_b": bits(49, 1)}
_BYTE_OF_B = Adjust(negate="negate_b", absolute="absolute_b", select="part", parts=_byte_parts)
_HALVES = {0: "", 1: ".H1"}
_SIGNED_B = Adjust(negate="negate_b", absolute="absolute_b")
_INVERT_B = Adjust(invert="invert_b")
_INVERT = {"invert_b": bits(40, 1)}
_SIGNED = choice("signed", bits(48, 1), {0: ".U32", 1: ""})
_FLUSH = flag("flush", 44, ".FTZ")
_TO_FLOAT = choice("destination", bits(8, 2), texts(FloatFormat))
_FROM_FLOAT = choice("source", bits(10, 2), texts(FloatFormat))
_ROUND = choice("round", bits(39, 2), {0: "", 1: ".RM", 2: ".RP", 3: ".RZ"})
_TO_WHOLE = choice("whole", Field(((39, 2), (42, 1))), {
    0: "", 1: ".PASS", 2: ".PASS", 3: ".PASS", 4: ".ROUND", 5: ".FLOOR", 6: ".CEIL", 7: ".TRUNC"})


def _f2i(source: FloatFormat) -> list[Form]:
    """F2I from a format. All are spelled with halves, but only the one of 16 bits has them."""
    half = "part" if source is FloatFormat.F16 else "no_part"
    b = replace(_SIGNED_B, select=half, parts=_HALVES)
    return alu(
        "F2I",
        _codes(0x00B0),
        {"d": replace(D_CC, span=_registers("destination", DOUBLE_WORD)), "b": B},
        (
            _FLUSH,
            choice("destination", Field(((8, 2), (12, 1))), _integer_type(2, 1, _F2I_BYTES)),
            _FROM_FLOAT,
            choice("round", bits(39, 2), {0: "", 1: ".FLOOR", 2: ".CEIL", 3: ".TRUNC"}),
        ),
        pipe=Pipe.CONVERSION,
        b=b,
        b_span=_registers("source", FloatFormat.F64.value),
        spaced=True,
        real=_bits_of(source),
        fixed={"source": source.value},
        fields=_SIGN_FIELDS | {half: bits(41, 1)},
    )


def _f2f(source: FloatFormat, fixed: Values,
         rounding: tuple[dict[str, Field], Modifier]) -> list[Form]:
    """F2F from a format. Only the one of 16 bits has halves; its constants are spelled like
    integers'."""
    half = source is FloatFormat.F16
    b = replace(_SIGNED_B, select="part", parts=_HALVES) if half else _SIGNED_B
    return alu(
        "F2F",
        _codes(0x00A8),
        {"d": replace(D_CC, span=_registers("destination", FloatFormat.F64.value)), "b": B},
        (_FLUSH, _TO_FLOAT, _FROM_FLOAT, rounding, flag("saturate", 50, ".SAT")),
        pipe=Pipe.CONVERSION,
        b=b,
        b_span=_registers("source", FloatFormat.F64.value),
        spaced=half,
        real=_bits_of(source),
        fixed={"source": source.value, **fixed},
        fields=_SIGN_FIELDS | ({"part": bits(41, 1)} if half else {}),
    )


def _bits_of(form: FloatFormat) -> int:
    """The size of a format."""
    return 8 << form.value


CONVERSION: list[Form] = [
    *alu(
        "POPC", _codes(0x0008), {"d": D, "b": B}, pipe=Pipe.CONVERSION, b=_INVERT_B, fields=_INVERT
    ),
    *alu(
        "FLO",
        _codes(0x0030),
        {"d": D_CC, "b": B},
        (_SIGNED, flag("shift", 41, ".SH")),
        pipe=Pipe.CONVERSION,
        b=_INVERT_B,
        fields=_INVERT,
    ),
    *alu(
        "I2I",
        _codes(0x00E0),
        {"d": D_CC, "b": B},
        (
            choice("destination", Field(((8, 2), (12, 1))), _integer_type(2, 1, _I2I_BYTES)),
            choice("source", _SOURCE, _integer_type(2, 1, _I2I_BYTES)),
            flag("saturate", 50, ".SAT"),
        ),
        pipe=Pipe.CONVERSION,
        b=_BYTE_OF_B,
        spaced=True,
        fields=_SIGN_FIELDS | {"part": bits(41, 2)},
    ),
    *alu(
        "I2F",
        _codes(0x00B8),
        {"d": replace(D_CC, span=_registers("destination", FloatFormat.F64.value)), "b": B},
        (_TO_FLOAT, choice("source", _SOURCE, _integer_type(2, 1, _I2F_BYTES)), _ROUND),
        pipe=Pipe.CONVERSION,
        b=_BYTE_OF_B,
        b_span=_registers("source", DOUBLE_WORD),
        spaced=True,
        fields=_SIGN_FIELDS | {"part": bits(41, 2)},
    ),
    *(form for source in FloatFormat for form in _f2i(source)),
    # Within a format, then between formats: of two forms that match a word, the one with more
    # fixed bits is first.
    *(
        form
        for source in FloatFormat
        for form in _f2f(source, {"destination": source.value}, _TO_WHOLE)
    ),
    *(form for source in FloatFormat for form in _f2f(source, {}, _ROUND)),
    define(
        "MUFU",
        0x5080 << 48,
        0xFFF8 << 48,
        Pipe.CONVERSION,
        {
            "d": D,
            "a": replace(A, reuse=None, adjust=Adjust(negate="negate_a", absolute="absolute_a")),
        },
        (choice("function", bits(20, 4), texts(MultiFunction)), flag("saturate", 50, ".SAT")),
        fields={"negate_a": bits(48, 1), "absolute_a": bits(46, 1)},
    ),
]
"""All forms of this module."""
