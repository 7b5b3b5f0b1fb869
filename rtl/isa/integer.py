"""Integer arithmetic, logic, shifts, comparisons and moves."""

from dataclasses import replace

from .condition import TEST_TEXTS
from .fields import D_CC, A, B, C, D, P, Q, X, alu, bits, choice, define, flag, plus_one
from .kinds import (
    Boolean,
    Compare,
    FunnelPart,
    FunnelWidth,
    HalfSelect,
    Logic,
    MinMaxPart,
    PermuteMode,
    PredicateTest,
    ProductAddend,
    ShiftPart,
    SumShift,
    texts,
)
from .syntax import (
    Access,
    Adjust,
    Choice,
    Constant,
    Field,
    Form,
    Immediate,
    Literal,
    Modifier,
    Pipe,
    Predicate,
    Register,
)

__all__ = ["INTEGER"]


def _codes(register: int, constant: int, immediate: int) -> dict[str, tuple[int, int]]:
    return {"r": (register, 0xFFF8), "c": (constant, 0xFFF8), "i": (immediate, 0xFEF8)}


def _narrow(register: int, constant: int, immediate: int) -> dict[str, tuple[int, int]]:
    return {"r": (register, 0xFFF0), "c": (constant, 0xFFF0), "i": (immediate, 0xFEF0)}


NEGATE_B, NEGATE_A = Adjust(negate="negate_b"), Adjust(negate="negate_a")
INVERT_B, INVERT_A = Adjust(invert="invert_b"), Adjust(invert="invert_a")
IMM32 = Immediate("imm32")
SIGNED = choice("signed", bits(48, 1), {0: ".U32", 1: ""})
X43 = flag("extended", 43, ".X")
COMPARE = choice("compare", bits(49, 3), texts(Compare))
COMBINE = choice("combine", bits(45, 2), texts(Boolean))
FULL_BYTE = Field(((41, 2),))
BYTES = {0: "", 1: ".B1", 2: ".B2", 3: ".B3"}
BREV = flag("reverse", 40, ".BREV")


def _product_signs(sign_a: int, sign_b: int) -> tuple[dict[str, Field], Modifier]:
    """Signedness of both factors; nothing is spelled when both are signed."""
    spelling = {0: ".U32.U32", 1: ".S32.U32", 2: ".U32.S32", 3: ""}
    return choice("signs", Field(((sign_a, 1), (sign_b, 1))), spelling)


ADDITION: list[Form] = [
    *alu(
        "IADD",
        _codes(0x5C10, 0x4C10, 0x3810),
        {"d": D_CC, "a": replace(A, adjust=NEGATE_A), "b": B},
        (plus_one(48, 49), flag("saturate", 50, ".SAT"), X43),
        b=NEGATE_B,
    ),
    *alu(
        "ISCADD",
        _codes(0x5C18, 0x4C18, 0x3818),
        {"d": D_CC, "a": replace(A, adjust=NEGATE_A), "b": B, "shift": Immediate("shift")},
        (plus_one(48, 49),),
        b=NEGATE_B,
        fields={"shift": bits(39, 5)},
    ),
    define(
        "IADD32I",
        0x1C00 << 48,
        0xFE00 << 48,
        Pipe.ALU,
        {"d": D_CC, "a": replace(A, adjust=NEGATE_A), "b": IMM32},
        (
            choice("plus_one", bits(55, 2), {0: "", 2: "", 3: ".PO"}),
            flag("saturate", 54, ".SAT"),
            flag("extended", 53, ".X"),
        ),
        fields={"cc": bits(52, 1), "negate_a": bits(56, 1)},
    ),
    define(
        "ISCADD32I",
        0x1400 << 48,
        0xFC00 << 48,
        Pipe.ALU,
        {"d": D_CC, "a": A, "b": IMM32, "shift": Immediate("shift")},
        fields={"cc": bits(52, 1), "shift": bits(53, 5)},
    ),
]

_HALVES = texts(HalfSelect, WORD="")


def _half(negate: str, select: str) -> Adjust:
    return Adjust(negate=negate, select=select, parts=_HALVES)


_ADD3_SIGNS = {"negate_c": bits(49, 1), "negate_b": bits(50, 1), "negate_a": bits(51, 1)}
_ADD3_EXTENDED = flag("extended", 48, ".X")
_ADD3_C = replace(C, adjust=Adjust(negate="negate_c"))

ADDITION_OF_THREE: list[Form] = [
    define(
        "IADD3",
        0x5CC0 << 48,
        0xFFF0 << 48,
        Pipe.ALU,
        {
            "d": D_CC,
            "a": replace(A, adjust=_half("negate_a", "half_a")),
            "b": replace(B, adjust=_half("negate_b", "half_b")),
            "c": replace(C, adjust=_half("negate_c", "half_c")),
        },
        (choice("shift", bits(37, 2), texts(SumShift, NONE="")), _ADD3_EXTENDED),
        variant="r",
        fields=_ADD3_SIGNS | {"half_c": bits(31, 2), "half_b": bits(33, 2), "half_a": bits(35, 2)},
    ),
    *alu(
        "IADD3",
        {"c": (0x4CC0, 0xFFF0)},
        {"d": D_CC, "a": replace(A, adjust=NEGATE_A), "b": B, "c": _ADD3_C},
        (_ADD3_EXTENDED,),
        b=NEGATE_B,
        fields=_ADD3_SIGNS,
    ),
    *alu(
        "IADD3",
        {"i": (0x38C0, 0xFEF0)},
        {"d": D_CC, "a": replace(A, adjust=NEGATE_A), "b": B, "c": _ADD3_C},
        (_ADD3_EXTENDED,),
        b=NEGATE_B,
        immediate_bits=20,
        fields=_ADD3_SIGNS,
    ),
]

_LEA_OPERANDS = {
    "p": Predicate("Pd", Access.WRITE, optional=True),
    "d": D_CC,
    "a": replace(A, adjust=NEGATE_A),
    "b": B,
}
_LEA_SHIFT = Immediate("shift", default=0)
_LEA_PREDICATE = {"Pd": bits(48, 3)}

SCALED_ADDRESS: list[Form] = [
    *alu(
        "LEA",
        _codes(0x5BD0, 0x4BD0, 0x36D0),
        _LEA_OPERANDS | {"shift": _LEA_SHIFT},
        (flag("extended", 46, ".X"),),
        fields=_LEA_PREDICATE | {"shift": bits(39, 5), "negate_a": bits(45, 1)},
    ),
    define(
        "LEA.HI",
        0x5BD8 << 48,
        0xFFF8 << 48,
        Pipe.ALU,
        _LEA_OPERANDS | {"c": C, "shift": _LEA_SHIFT},
        (flag("extended", 38, ".X"),),
        variant="r",
        fields=_LEA_PREDICATE | {"shift": bits(28, 5), "negate_a": bits(37, 1)},
    ),
    define(
        "LEA.HI",
        0x1800 << 48,
        0xFC00 << 48,
        Pipe.ALU,
        _LEA_OPERANDS | {"b": Constant(), "c": C, "shift": _LEA_SHIFT},
        (flag("extended", 57, ".X"),),
        variant="c",
        fields=_LEA_PREDICATE | {"shift": bits(51, 5), "negate_a": bits(56, 1)},
    ),
]

_FACTOR_HALF = {0: "", 1: ".H1"}
_XMAD_A = replace(A, adjust=Adjust(select="high_a", parts=_FACTOR_HALF))
_XMAD_B = Adjust(select="high_b", parts=_FACTOR_HALF)
_XMAD_IMMEDIATE = Immediate("imm16", 16, signed_if=lambda values: values["signs"] >> 1 == 1)
_XMAD_SIGNS = choice("signs", bits(48, 2), {0: "", 1: ".S16.U16", 2: ".U16.S16", 3: ".S16.S16"})
_XMAD_HIGH_A = {"high_a": bits(53, 1)}
_ADDEND = texts(ProductAddend, C="")
_ADDEND_NO_B = {code: text for code, text in _ADDEND.items() if code < ProductAddend.CBCC.value}

PRODUCTS: list[Form] = [
    define(
        "XMAD",
        0x5B00 << 48,
        0xFFC0 << 48,
        Pipe.ALU,
        {"d": D_CC, "a": _XMAD_A, "b": replace(B, adjust=_XMAD_B), "c": C},
        (
            _XMAD_SIGNS,
            flag("product_high", 36, ".PSL"),
            choice("addend", bits(50, 3), _ADDEND),
            flag("merge", 37, ".MRG"),
            flag("extended", 38, ".X"),
        ),
        variant="r",
        fields=_XMAD_HIGH_A | {"high_b": bits(35, 1)},
    ),
    define(
        "XMAD",
        0x3600 << 48,
        0xFEC0 << 48,
        Pipe.ALU,
        {"d": D_CC, "a": _XMAD_A, "b": _XMAD_IMMEDIATE, "c": C},
        (
            _XMAD_SIGNS,
            flag("product_high", 36, ".PSL"),
            choice("addend", bits(50, 3), _ADDEND),
            flag("merge", 37, ".MRG"),
            flag("extended", 38, ".X"),
        ),
        variant="i",
        fields=_XMAD_HIGH_A | {"imm16": bits(20, 16)},
    ),
    define(
        "XMAD",
        0x4E00 << 48,
        0xFE00 << 48,
        Pipe.ALU,
        {"d": D_CC, "a": _XMAD_A, "b": Constant(adjust=_XMAD_B, spaced=True), "c": C},
        (
            _XMAD_SIGNS,
            flag("product_high", 55, ".PSL"),
            choice("addend", bits(50, 2), _ADDEND_NO_B),
            flag("merge", 56, ".MRG"),
            flag("extended", 54, ".X"),
        ),
        variant="c",
        fields=_XMAD_HIGH_A | {"high_b": bits(52, 1)},
    ),
    define(
        "XMAD",
        0x5100 << 48,
        0xFF80 << 48,
        Pipe.ALU,
        {"d": D_CC, "a": _XMAD_A, "b": Register("Rc", adjust=_XMAD_B, reuse=1), "c": Constant()},
        (_XMAD_SIGNS, choice("addend", bits(50, 2), _ADDEND_NO_B), flag("extended", 54, ".X")),
        variant="rc",
        fields=_XMAD_HIGH_A | {"high_b": bits(52, 1)},
    ),
    *alu(
        "IMUL",
        _codes(0x5C38, 0x4C38, 0x3838),
        {"d": D_CC, "a": A, "b": B},
        (_product_signs(40, 41), flag("high", 39, ".HI")),
        pipe=Pipe.MULTIPLY,
    ),
    *alu(
        "IMAD",
        {
            "r": (0x5A00, 0xFF80),
            "c": (0x4A00, 0xFF80),
            "i": (0x3400, 0xFE80),
            "rc": (0x5200, 0xFF80),
        },
        {
            "d": D_CC,
            "a": replace(A, adjust=Adjust(negate="negate_ab")),
            "b": B,
            "c": replace(C, adjust=Adjust(negate="negate_c")),
        },
        (
            _product_signs(48, 53),
            flag("high", 54, ".HI"),
            plus_one(51, 52),
            flag("saturate", 50, ".SAT"),
            flag("extended", 49, ".X"),
        ),
        pipe=Pipe.MULTIPLY,
        fields={"negate_c": bits(51, 1), "negate_ab": bits(52, 1)},
    ),
    define(
        "IMUL32I",
        0x1F00 << 48,
        0xFF00 << 48,
        Pipe.MULTIPLY,
        {"d": D_CC, "a": A, "b": IMM32},
        (_product_signs(54, 55), flag("high", 53, ".HI")),
        fields={"cc": bits(52, 1)},
    ),
    define(
        "IMAD32I",
        0x1000 << 48,
        0xFC00 << 48,
        Pipe.MULTIPLY,
        {
            "d": D_CC,
            "a": replace(A, adjust=Adjust(negate="negate_ab")),
            "b": IMM32,
            "c": Register("Rd", adjust=Adjust(negate="negate_c")),
        },
        (_product_signs(54, 57), flag("high", 53, ".HI"), plus_one(55, 56)),
        fields={"cc": bits(52, 1), "negate_c": bits(55, 1), "negate_ab": bits(56, 1)},
    ),
]

_FUNNEL_COUNT = Immediate("imm6", 6)
_FUNNEL = (flag("wrap", 50, ".W"), choice("width", bits(37, 2), texts(FunnelWidth, B32="")),
           choice("part", bits(48, 2), texts(FunnelPart, LOW="")))

SHIFTS: list[Form] = [
    *alu(
        "SHL",
        _codes(0x5C48, 0x4C48, 0x3848),
        {"d": D_CC, "a": A, "b": B},
        (flag("wrap", 39, ".W"), X43),
    ),
    *alu(
        "SHR",
        _codes(0x5C28, 0x4C28, 0x3828),
        {"d": D_CC, "a": A, "b": B},
        (
            SIGNED,
            flag("wrap", 39, ".W"),
            choice("part", bits(43, 2), texts(ShiftPart, WHOLE="")),
            BREV,
        ),
    ),
    *(
        form
        for name, register, immediate in (("SHF.L", 0x5BF8, 0x36F8), ("SHF.R", 0x5CF8, 0x38F8))
        for form in (
            define(
                name,
                register << 48,
                0xFFF8 << 48,
                Pipe.ALU,
                {"d": D_CC, "a": A, "b": B, "c": C},
                _FUNNEL,
                variant="r",
            ),
            define(
                name,
                immediate << 48,
                0xFEF8 << 48,
                Pipe.ALU,
                {"d": D_CC, "a": A, "b": _FUNNEL_COUNT, "c": C},
                _FUNNEL,
                variant="i",
                fields={"imm6": bits(20, 6)},
            ),
        )
    ),
    *alu("BFE", _codes(0x5C00, 0x4C00, 0x3800), {"d": D_CC, "a": A, "b": B}, (SIGNED, BREV)),
    *alu(
        "BFI",
        {**_codes(0x5BF0, 0x4BF0, 0x36F0), "rc": (0x53F0, 0xFFF8)},
        {"d": D_CC, "a": A, "b": B, "c": C},
    ),
]

_LOGIC_INVERT = {"invert_a": bits(39, 1), "invert_b": bits(40, 1)}
_LOGIC_PREDICATE = Predicate("Pd", Access.WRITE, optional=True)
_LUT = Immediate("lut", 8)

LOGIC: list[Form] = [
    *alu(
        "LOP",
        _codes(0x5C40, 0x4C40, 0x3840),
        {"p": _LOGIC_PREDICATE, "d": D_CC, "a": replace(A, adjust=INVERT_A), "b": B},
        (
            choice("operation", bits(41, 2), texts(Logic)),
            X43,
            choice("predicate_test", bits(44, 2), texts(PredicateTest, NONE="")),
        ),
        b=INVERT_B,
        fields=_LOGIC_INVERT | {"Pd": bits(48, 3)},
    ),
    define(
        "LOP32I",
        0x0400 << 48,
        0xFC00 << 48,
        Pipe.ALU,
        {"d": D_CC, "a": replace(A, adjust=INVERT_A), "b": Immediate("imm32", 32, INVERT_B)},
        (choice("operation", bits(53, 2), texts(Logic)), flag("extended", 57, ".X")),
        fields={"cc": bits(52, 1), "invert_a": bits(55, 1), "invert_b": bits(56, 1)},
    ),
    define(
        "LOP3.LUT",
        0x5BE0 << 48,
        0xFFF8 << 48,
        Pipe.ALU,
        {"p": _LOGIC_PREDICATE, "d": D_CC, "a": A, "b": B, "c": C, "lut": _LUT},
        (
            flag("extended", 38, ".X"),
            choice("predicate_test", bits(36, 2), texts(PredicateTest, NONE="")),
        ),
        variant="r",
        fields={"Pd": bits(48, 3), "lut": bits(28, 8)},
    ),
    define(
        "LOP3.LUT",
        0x0200 << 48,
        0xFE00 << 48,
        Pipe.ALU,
        {"d": D_CC, "a": A, "b": Constant(), "c": C, "lut": _LUT},
        (flag("extended", 56, ".X"),),
        variant="c",
        fields={"lut": bits(48, 8)},
    ),
    define(
        "LOP3.LUT",
        0x3C00 << 48,
        0xFC00 << 48,
        Pipe.ALU,
        {"d": D_CC, "a": A, "b": Immediate("imm"), "c": C, "lut": _LUT},
        (flag("extended", 57, ".X"),),
        variant="i",
        fields={"lut": bits(48, 8)},
    ),
]

_IMNMX_PART = choice("part", bits(43, 2), texts(MinMaxPart, WHOLE=""))
_SELECTION = {"d": D, "a": A, "b": B, "x": X}

COMPARISON: list[Form] = [
    *alu(
        "ISETP",
        _narrow(0x5B60, 0x4B60, 0x3660),
        {"p": P, "q": Q, "a": A, "b": B, "x": X},
        (COMPARE, SIGNED, X43, COMBINE),
    ),
    *alu(
        "ISET",
        _narrow(0x5B50, 0x4B50, 0x3650),
        {"d": D_CC, "a": A, "b": B, "x": X},
        (flag("one", 44, ".BF"), COMPARE, SIGNED, X43, COMBINE),
    ),
    *alu(
        "ICMP",
        {**_narrow(0x5B40, 0x4B40, 0x3640), "rc": (0x5340, 0xFFF0)},
        {"d": D, "a": A, "b": B, "c": C},
        (COMPARE, SIGNED),
    ),
    *alu(
        "IMNMX",
        _codes(0x5C20, 0x4C20, 0x3820),
        {"d": D_CC, "a": A, "b": B, "x": X},
        (SIGNED, _IMNMX_PART),
    ),
    *alu("SEL", _codes(0x5CA0, 0x4CA0, 0x38A0), _SELECTION),
]

MOVES: list[Form] = [
    *alu(
        "MOV",
        _codes(0x5C98, 0x4C98, 0x3898),
        {"d": D, "b": B, "lanes": Immediate("lanes", 4, default=15)},
        fields={"lanes": bits(39, 4)},
    ),
    define(
        "MOV32I",
        0x0100 << 48,
        0xFFF0 << 48,
        Pipe.ALU,
        {"d": D, "b": Immediate("imm32", 32), "lanes": Immediate("lanes", 4, default=15)},
        fields={"lanes": bits(12, 4)},
    ),
    *alu(
        "PRMT",
        {**_narrow(0x5BC0, 0x4BC0, 0x36C0), "rc": (0x53C0, 0xFFF0)},
        {"d": D, "a": A, "b": B, "c": C},
        (choice("mode", bits(48, 4), texts(PermuteMode, INDEX="")),),
    ),
]

_PREDICATE_X = Predicate("Pa", negate="Pa_not")
_PREDICATE_Y = Predicate("Pb", negate="Pb_not")
_FIRST = choice("combine_first", bits(24, 2), texts(Boolean))
_WHICH = Choice("which", {0: "PR", 1: "CC"})
_P2R_FIELDS = {"which": bits(40, 1), "byte": FULL_BYTE}

PREDICATES: list[Form] = [
    define(
        "PSETP",
        0x5090 << 48,
        0xFFF8 << 48,
        Pipe.ALU,
        {"p": P, "q": Q, "x": _PREDICATE_X, "y": _PREDICATE_Y, "z": X},
        (_FIRST, COMBINE),
    ),
    define(
        "PSET",
        0x5088 << 48,
        0xFFF8 << 48,
        Pipe.ALU,
        {"d": D_CC, "x": _PREDICATE_X, "y": _PREDICATE_Y, "z": X},
        (flag("one", 44, ".BF"), _FIRST, COMBINE),
    ),
    define(
        "CSETP",
        0x50A0 << 48,
        0xFFF8 << 48,
        Pipe.ALU,
        {"p": P, "q": Q, "cc": Literal("CC"), "x": X},
        (
            choice("test", bits(8, 5), {code: f".{name}" for code, name in TEST_TEXTS.items()}),
            COMBINE,
        ),
    ),
    define(
        "CSET",
        0x5098 << 48,
        0xFFF8 << 48,
        Pipe.ALU,
        {"d": D_CC, "cc": Literal("CC"), "x": X},
        (
            flag("one", 44, ".BF"),
            choice("test", bits(8, 5), {code: f".{name}" for code, name in TEST_TEXTS.items()}),
            COMBINE,
        ),
    ),
    *alu(
        "P2R",
        _codes(0x5CE8, 0x4CE8, 0x38E8),
        {"d": D, "which": _WHICH, "a": A, "b": B},
        (choice("byte", FULL_BYTE, BYTES),),
        pipe=Pipe.PREDICATE,
        fields=_P2R_FIELDS,
    ),
    *alu(
        "R2P",
        _codes(0x5CF0, 0x4CF0, 0x38F0),
        {"which": _WHICH, "a": replace(A, adjust=Adjust(select="byte", parts=BYTES)), "b": B},
        pipe=Pipe.PREDICATE,
        immediate_bits=20,
        fields=_P2R_FIELDS,
    ),
]

INTEGER: list[Form] = [
    *ADDITION,
    *ADDITION_OF_THREE,
    *SCALED_ADDRESS,
    *PRODUCTS,
    *SHIFTS,
    *LOGIC,
    *COMPARISON,
    *MOVES,
    *PREDICATES,
]
"""All forms of this module."""
