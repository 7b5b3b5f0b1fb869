"""Video instructions: arithmetic on a byte, a half or a word of each operand, and a second
operation.

The PTX manual describes them. The part of a source is extended by its sign, if it is signed; the
first result is exact; it may be kept within the bounds of the result's type; then a third operand
is added, is compared with it, or takes its low bits.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from .fields import D_CC, A, B, C, P, Q, X, bits, choice, define, flag, plus_one
from .kinds import Boolean, Compare, VideoScale, VideoSecond, texts
from .syntax import Adjust, Field, Form, Immediate, Modifier, Operand, Pipe, Values

__all__ = ["IMMEDIATE_PART", "VIDEO", "WORD_PART"]

WORD_PART = 6
"""The code of a whole word among a source's parts: bytes from 0 on, halves from 4 on."""
IMMEDIATE_PART = 4
"""What an immediate is, the low half of a word."""
_SUFFIXES = ({0: "", 1: ".B1", 2: ".B2", 3: ".B3"}, {4: "", 5: ".H1"}, {WORD_PART: ""})
_BITS = {part: size for parts, size in zip(_SUFFIXES, (8, 16, 32), strict=True) for part in parts}

_NO_FIELDS: Mapping[str, Field] = MappingProxyType({})
_Modifiers = tuple[tuple[dict[str, Field], Modifier], ...]


def _part(name: str) -> Callable[[Values], Mapping[int, str]]:
    """Parts of the size that one is: the size is spelled as a type, and which part of it at the
    operand."""
    return lambda values: next((parts for parts in _SUFFIXES if values[name] in parts), {})


_PARTS = {"part_a": bits(36, 3), "part_b": bits(28, 3)}
_A = replace(A, adjust=Adjust(select="part_a", parts=_part("part_a")))
_B = replace(B, adjust=Adjust(select="part_b", parts=_part("part_b")))
_IMMEDIATE = Immediate("imm16", 16, signed_if=lambda values: values["signs"] >> 1 == 1)
_UNSIGNED_IMMEDIATE = Immediate("imm16", 16)


def _types(immediate: bool, signs: int, unspelled: str) -> tuple[dict[str, Field], Modifier]:
    """Both sources' types, a's and if ``signs`` is 2 b's with a sign; one pair of types has no
    text."""
    parts = ((36, 3),) if immediate else ((36, 3), (28, 3))
    spelled = {}
    for sign in range(1 << signs):
        for part_a, bits_a in _BITS.items():
            for part_b, bits_b in {IMMEDIATE_PART: 16}.items() if immediate else _BITS.items():
                type_a = f".{'US'[sign & 1]}{bits_a}"
                type_b = f".{'US'[sign >> 1 & 1]}{bits_b}"
                text = type_a + type_b
                code = sign | part_a << signs | (0 if immediate else part_b << signs + 3)
                spelled[code] = "" if text == unspelled else text
    return choice("types", Field(((48, signs), *parts)), spelled)


def _forms(
    name: str,
    match: int,
    mask: int,
    operands: Mapping[str, Operand],
    before: _Modifiers,
    after: _Modifiers,
    *,
    signs: int = 2,
    immediate: Immediate = _IMMEDIATE,
    b: Adjust = _B.adjust,
    unspelled: tuple[str, str] = (".S32.S32", ".S32.S16"),
    fields: Mapping[str, Field] = _NO_FIELDS,
) -> list[Form]:
    """The two forms of a video instruction: b is a register, or a number of 16 bits.

    The types are spelled between the modifiers ``before`` and ``after``, except the pair that is
    ``unspelled`` in the first and in the second form.
    """
    register_bit = 1 << 50
    common = {"signs": bits(48, signs), "register_b": bits(50, 1), **fields}
    with_register = define(
        name,
        match << 48 | register_bit,
        mask << 48 | register_bit,
        Pipe.ALU,
        {**operands, "b": replace(_B, adjust=b)},
        (*before, _types(False, signs, unspelled[0]), *after),
        variant="r",
        fields={**common, **_PARTS},
    )
    with_number = define(
        name,
        match << 48,
        mask << 48 | register_bit,
        Pipe.ALU,
        {**operands, "b": immediate},
        (*before, _types(True, signs, unspelled[1]), *after),
        variant="i",
        fields={**common, "imm16": bits(20, 16), "part_a": _PARTS["part_a"]},
    )
    return [with_register, with_number]


_SOURCES = {"d": D_CC, "a": _A, "b": _B, "c": C}
_SATURATE = flag("saturate", 55, ".SAT")
_THEN = choice("then", bits(51, 3), texts(VideoSecond, NONE=""))
_RESULT = choice("signed_d", bits(54, 1), {0: ".UD", 1: ""})
_SHIFTED = ((_RESULT,), (flag("wrap", 49, ".W"), _SATURATE, _THEN))
_UNSPELLED_SHIFT = (".S32.U32", ".S32.U16")

_ALL_BYTES = 15
"""The code of four bytes among those that VABSDIFF4 computes; bit n is byte n."""
_OWN_BYTES = 4
"""The code of a source's own bytes, in their order, among what VABSDIFF4 takes of both."""
_BYTES_OF_A = (
    "0000",
    "1111",
    "2222",
    "3333",
    "",
    "4321",
    "5432",
    "6543",
    "3201",
    "3012",
    "0213",
    "3120",
    "1230",
    "2310",
)
_BYTES_OF_B = ("4444", "5555", "6666", "7777", "", "6543", "5432", "4321", "4567", "6745", "5476")
_NUMBER_OF_B = 15
"""The code of a number of 8 bits in b's place."""


def _bytes_of(texts: tuple[str, ...]) -> Mapping[int, str]:
    """Which bytes of a and b, counted on, a source consists of, its highest one first."""
    return {code: f".{text}" if text else "" for code, text in enumerate(texts)}


def _differences() -> list[Form]:
    """VABSDIFF4: absolute differences of the sources' bytes, signed or not, in place of c or added
    to it.

    Compiled code has the form ``r`` only. The form ``parts`` chooses and orders bytes and
    saturates; the form ``i`` has a number for b.
    """
    signs = choice("signs", bits(48, 2), {0: ".U8.U8", 1: ".S8.U8", 2: ".U8.S8", 3: ""})
    reduces = choice("reduce", bits(53, 2), {0: "", 1: ".ACC"})
    taken = Field(((51, 2), (36, 2)))
    of_a = bits(32, 4)
    of_b = bits(28, 4)
    bounds = Field(((50, 1), (38, 1)))
    usual = taken.put(of_a.put(0, _OWN_BYTES), _ALL_BYTES)
    some = choice("bytes", taken, {0: ".???0", _ALL_BYTES: ""} | {
        code: "." + "".join(name for place, name in enumerate("XYZW") if code >> place & 1)
        for code in range(1, _ALL_BYTES)})
    modifiers = (flag("signed_d", 38, ".SD"), signs, flag("saturate", 50, ".SAT"), reduces, some)
    a = replace(A, adjust=Adjust(select="bytes_a", parts=_bytes_of(_BYTES_OF_A)))
    b = replace(B, adjust=Adjust(select="bytes_b", parts=_bytes_of(_BYTES_OF_B)))
    number = Immediate("imm8", 8, signed_if=lambda values: values["signs"] >> 1 == 1)
    match = 0x5000 << 48
    mask = 0xFF80 << 48
    all_signed = bits(48, 2).put(0, 3)
    return [
        define(
            "VABSDIFF4",
            match | of_b.put(usual, _OWN_BYTES),
            mask | taken.mask | of_a.mask | of_b.mask | bounds.mask,
            Pipe.ALU,
            {"d": D_CC, "a": A, "b": B, "c": C},
            (signs, reduces),
            variant="r",
            default=all_signed,
        ),
        define(
            "VABSDIFF4",
            match,
            mask,
            Pipe.ALU,
            {"d": D_CC, "a": a, "b": b, "c": C},
            modifiers,
            variant="parts",
            fields={"bytes_a": of_a, "bytes_b": of_b},
            default=of_b.put(usual, _OWN_BYTES) | all_signed,
        ),
        define(
            "VABSDIFF4",
            of_b.put(match, _NUMBER_OF_B),
            mask | of_b.mask,
            Pipe.ALU,
            {"d": D_CC, "a": a, "b": number, "c": C},
            modifiers,
            variant="i",
            fields={"bytes_a": of_a, "imm8": bits(20, 8)},
            default=usual | all_signed,
        ),
    ]


VIDEO: list[Form] = [
    *_forms(
        "VADD",
        0x2000,
        0xFC00,
        {**_SOURCES, "a": replace(_A, adjust=replace(_A.adjust, negate="negate_a"))},
        (_RESULT,),
        (plus_one(56, 57), _SATURATE, _THEN),
        b=replace(_B.adjust, negate="negate_b"),
        immediate=replace(_UNSIGNED_IMMEDIATE, adjust=Adjust(negate="negate_b"), minus=True),
        fields={"negate_b": bits(56, 1), "negate_a": bits(57, 1)},
    ),
    *_forms(
        "VMAD",
        0x5F00,
        0xFF00,
        {
            **_SOURCES,
            "a": replace(_A, adjust=replace(_A.adjust, negate="negate_ab")),
            "c": replace(C, adjust=Adjust(negate="negate_c")),
        },
        (),
        (plus_one(53, 54), choice("scale", bits(51, 2), texts(VideoScale, NONE="")), _SATURATE),
        immediate=_UNSIGNED_IMMEDIATE,
        fields={"negate_c": bits(53, 1), "negate_ab": bits(54, 1)},
    ),
    *_forms(
        "VMNMX", 0x3A00, 0xFE00, _SOURCES, (_RESULT,), (flag("larger", 56, ".MX"), _SATURATE, _THEN)
    ),
    *_forms(
        "VABSDIFF",
        0x5400,
        0xFF00,
        _SOURCES,
        (choice("signed_d", bits(54, 1), {0: "", 1: ".SD"}),),
        (_SATURATE, _THEN),
    ),
    *_forms(
        "VSHL",
        0x5700,
        0xFF00,
        _SOURCES,
        *_SHIFTED,
        signs=1,
        immediate=_UNSIGNED_IMMEDIATE,
        unspelled=_UNSPELLED_SHIFT,
    ),
    *_forms(
        "VSHR",
        0x5600,
        0xFF00,
        _SOURCES,
        *_SHIFTED,
        signs=1,
        immediate=_UNSIGNED_IMMEDIATE,
        unspelled=_UNSPELLED_SHIFT,
    ),
    *_forms(
        "VSET",
        0x4000,
        0xFE00,
        _SOURCES,
        (choice("compare", bits(54, 3), texts(Compare)),),
        (_THEN,),
    ),
    *_forms(
        "VSETP",
        0x50F0,
        0xFFF8,
        {"p": P, "q": Q, "a": _A, "b": _B, "x": X},
        (choice("compare", Field(((43, 2), (47, 1))), texts(Compare)),),
        (choice("combine", bits(45, 2), texts(Boolean)),),
        unspelled=(".S32.S32", ""),
    ),
    *_differences(),
]
"""All forms of this module. The fields of an operand's part and sign overlap with ``types``, by
which they are spelled."""
