"""The table of PTX instructions.

A row is a synopsis of the PTX manual, with the manual's names of modifiers and operands:
``fma{.rnd}{.ftz}{.sat}.f32 d, a, b, c`` is ``[RND, opt(FTZ), opt(SAT), F32], [d, a, b, c]`` if the
rounding is mandatory. Each function returns the rows of a group of instructions whose operands have
the same names.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from .modifiers import Modifier, ModifierField, flag, ignored, named, spaces, types, words
from .module import Comparison, PtxBoolean, PtxHalf, PtxScope, PtxSpace, Type
from .operand_kinds import (
    AddressOperand,
    AddressRegister,
    BarrierNumber,
    BranchTarget,
    CallOperands,
    IndexedBranchTargets,
    LoadResult,
    MoveResult,
    MoveSource,
    NumberBelow,
    OperandKind,
    PointerSource,
    ResultAndPredicate,
    ResultOperand,
    SourceOperand,
    SourceRegister,
    StoreSource,
    ThreadCount,
    TypeOf,
)

__all__ = ["Synopsis", "Until", "instruction_table"]


@dataclass(frozen=True)
class Until:
    """Selects texts older than a version of PTX, and texts for targets below one: 20 is sm_20."""

    version: tuple[int, int]
    target: int = 0


@dataclass(frozen=True)
class Synopsis:
    """One way to write an instruction.

    Attributes:
        opcodes: The opcodes with this syntax, separated by spaces.
        modifiers: The places for modifiers.
        operands: The kinds of the operands, in the order of the text.
        implied: Modifiers of one word each that the text omits.
        until: The texts for which this syntax is allowed, None for all.
    """

    opcodes: str
    modifiers: Sequence[Modifier]
    operands: Sequence[OperandKind]
    implied: Sequence[Modifier] = ()
    until: Until | None = None


# Modifiers: types

_UNSIGNED = (Type.U16, Type.U32, Type.U64)
_SIGNED = (Type.S16, Type.S32, Type.S64)
_BITS = (Type.B16, Type.B32, Type.B64)
_WITH_BYTES = (Type.U8, *_UNSIGNED, Type.S8, *_SIGNED)

U32 = types(Type.U32)
S32 = types(Type.S32)
B32 = types(Type.B32)
F16 = types(Type.F16)
F32 = types(Type.F32)
F64 = types(Type.F64)
PRED = types(Type.PRED)
UNSIGNED = types(*_UNSIGNED)
SIGNED = types(*_SIGNED)
INTEGER = types(*_UNSIGNED, *_SIGNED)
INTEGER_16_32 = types(Type.U16, Type.U32, Type.S16, Type.S32)
INTEGER_32 = types(Type.U32, Type.S32)
INTEGER_32_64 = types(Type.U32, Type.U64, Type.S32, Type.S64)
INTEGER_OR_BYTE = types(*_WITH_BYTES)
INTEGER_OR_BYTE_OR_F64 = types(*_WITH_BYTES, Type.F64)
BITS = types(*_BITS)
BITS_32_64 = types(Type.B32, Type.B64)
BITS_OR_PRED = types(Type.PRED, *_BITS)
BITS_OR_INTEGER = types(*_BITS, *_UNSIGNED, *_SIGNED)
FLOAT = types(Type.F32, Type.F64)
REGISTER_TYPE = types(*_BITS, *_UNSIGNED, *_SIGNED, Type.F32, Type.F64)
MEMORY_TYPE = types(Type.B8, *_BITS, *_WITH_BYTES, Type.F32, Type.F64)
ADDRESS_TYPE = types(Type.U32, Type.U64)
SET_TYPE = types(Type.U32, Type.S32, Type.F32)
ATOMIC_ADD_TYPE = types(Type.U32, Type.S32, Type.U64)

FIRST = TypeOf.FIRST
SECOND = TypeOf.SECOND
THIRD = TypeOf.THIRD
TWICE_FIRST = TypeOf.TWICE_FIRST

# Modifiers: others

_Place = TypeVar("_Place", bound=Modifier | OperandKind)


def opt(syntax: _Place) -> _Place:
    """Returns an optional modifier or operand, in braces in the manual."""
    return replace(syntax, optional=True)


def after_opcode(modifier: Modifier) -> Modifier:
    """Returns a modifier that precedes all others."""
    return replace(modifier, after_opcode=True)


def op(*choice: str) -> Modifier:
    """Returns a modifier that selects the operation if the opcode does not."""
    return words(ModifierField.OPERATION, *choice)


def compare(*choice: Comparison) -> Modifier:
    """Returns a modifier that selects a comparison."""
    return named(ModifierField.COMPARE, *choice)


RND = words(ModifierField.ROUNDING, "rn", "rz", "rm", "rp")
RN = words(ModifierField.ROUNDING, "rn")
IRND = words(ModifierField.ROUNDING, "rni", "rzi", "rmi", "rpi")
FTZ = flag(ModifierField.FLUSH, "ftz")
SAT = flag(ModifierField.SATURATE, "sat")
APPROX = words(ModifierField.APPROXIMATION, "approx")
APPROX_OR_FULL = words(ModifierField.APPROXIMATION, "approx", "full")
TESTP_OP = op("finite", "infinite", "number", "notanumber", "normal", "subnormal")
CC = flag(ModifierField.CARRY_OUT, "cc")
LO_HI = after_opcode(named(ModifierField.HALF, PtxHalf.LO, PtxHalf.HI))
HI = after_opcode(named(ModifierField.HALF, PtxHalf.HI))
WIDE = after_opcode(named(ModifierField.HALF, PtxHalf.WIDE))
ADD_MIN_MAX = op("add", "min", "max")
PLUS_ONE = flag(ModifierField.PLUS_ONE, "po")
SCALE = Modifier(ModifierField.SCALE, {"shr7": 7, "shr15": 15})
CLAMP_OR_WRAP = Modifier(ModifierField.CLAMP, {"clamp": True, "wrap": False})
PRMT_MODE = op("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")
EQ_NE = compare(Comparison.EQ, Comparison.NE)
CMP = compare(
    Comparison.EQ, Comparison.NE, Comparison.LT, Comparison.LE, Comparison.GT, Comparison.GE
)
CMP_UNSIGNED = Modifier(
    ModifierField.COMPARE,
    {"lo": Comparison.LT, "ls": Comparison.LE, "hi": Comparison.GT, "hs": Comparison.GE},
)
CMP_FLOAT = compare(*Comparison)
BOOL_OP = named(ModifierField.COMBINE, *PtxBoolean)
TO = after_opcode(flag(ModifierField.TO, "to"))
GLOBAL = spaces(PtxSpace.GLOBAL)
GLOBAL_LOCAL = spaces(PtxSpace.GLOBAL, PtxSpace.LOCAL)
GLOBAL_SHARED = spaces(PtxSpace.GLOBAL, PtxSpace.SHARED)
GENERIC_SPACE = spaces(PtxSpace.CONST, PtxSpace.GLOBAL, PtxSpace.LOCAL, PtxSpace.SHARED)
LOAD_SPACE = spaces(*PtxSpace)
STORE_SPACE = spaces(PtxSpace.GLOBAL, PtxSpace.LOCAL, PtxSpace.PARAM, PtxSpace.SHARED)
LOAD_CACHE = words(ModifierField.CACHE, "ca", "cg", "cs", "lu", "cv")
STORE_CACHE = words(ModifierField.CACHE, "wb", "cg", "cs", "wt")
NC = words(ModifierField.CACHE, "nc")
VOLATILE = flag(ModifierField.VOLATILE, "volatile")
VEC = Modifier(ModifierField.VECTOR, {"v2": 2, "v4": 4})
CTA = after_opcode(ignored("cta"))
ALIGNED = ignored("aligned")
RED = after_opcode(op("red"))
POPC = words(ModifierField.REDUCTION, "popc")
AND_OR = words(ModifierField.REDUCTION, "and", "or")
MEMBAR_LEVEL = named(ModifierField.SCOPE, *PtxScope)
SYNC = flag(ModifierField.SYNC, "sync")
VOTE_MODE = op("all", "any", "uni")
SHFL_MODE = op("up", "down", "bfly", "idx")
UNI = flag(ModifierField.UNIFORM, "uni")


# Rows


def _arithmetic() -> list[Synopsis]:
    d = ResultOperand(FIRST)
    d_wide = ResultOperand(TWICE_FIRST)
    p = ResultOperand(Type.PRED)
    a = b = c = SourceOperand(FIRST)
    c_wide = SourceOperand(TWICE_FIRST)
    return [
        Synopsis("add sub", [INTEGER], [d, a, b]),
        Synopsis("add sub mul", [opt(RND), opt(FTZ), opt(SAT), F32], [d, a, b]),
        Synopsis("add sub mul", [opt(RND), F64], [d, a, b]),
        Synopsis("fma mad", [RND, opt(FTZ), opt(SAT), F32], [d, a, b, c]),
        Synopsis("fma mad", [RND, F64], [d, a, b, c]),
        Synopsis("div", [APPROX_OR_FULL, opt(FTZ), F32], [d, a, b]),
        Synopsis("div", [RND, opt(FTZ), F32], [d, a, b]),
        Synopsis("div", [RND, F64], [d, a, b]),
        Synopsis("rcp sqrt", [RND, opt(FTZ), F32], [d, a]),
        Synopsis("rcp sqrt", [RND, F64], [d, a]),
        Synopsis("rcp sqrt rsqrt sin cos lg2 ex2", [APPROX, opt(FTZ), F32], [d, a]),
        Synopsis("rcp rsqrt", [APPROX, FTZ, F64], [d, a]),
        Synopsis("rsqrt", [APPROX, F64], [d, a]),
        Synopsis("min max", [opt(FTZ), F32], [d, a, b]),
        Synopsis("min max", [F64], [d, a, b]),
        Synopsis("abs neg", [opt(FTZ), F32], [d, a]),
        Synopsis("abs neg", [F64], [d, a]),
        Synopsis("copysign", [FLOAT], [d, a, b]),
        Synopsis("testp", [TESTP_OP, FLOAT], [p, a]),
        Synopsis("add sub", [SAT, S32], [d, a, b]),
        Synopsis("add sub", [CC, INTEGER_32_64], [d, a, b]),
        Synopsis("addc subc", [opt(CC), INTEGER_32_64], [d, a, b]),
        Synopsis("mul", [LO_HI, INTEGER], [d, a, b]),
        Synopsis("mul", [WIDE, INTEGER_16_32], [d_wide, a, b]),
        Synopsis("mad", [LO_HI, INTEGER], [d, a, b, c]),
        Synopsis("mad", [WIDE, INTEGER_16_32], [d_wide, a, b, c_wide]),
        Synopsis("mad", [LO_HI, CC, INTEGER_32_64], [d, a, b, c]),
        Synopsis("mad", [HI, SAT, S32], [d, a, b, c]),
        Synopsis("madc", [LO_HI, opt(CC), INTEGER_32_64], [d, a, b, c]),
        Synopsis("mul24", [LO_HI, INTEGER_32], [d, a, b]),
        Synopsis("mad24", [LO_HI, INTEGER_32], [d, a, b, c]),
        Synopsis("mad24", [HI, SAT, S32], [d, a, b, c]),
        Synopsis("sad", [INTEGER], [d, a, b, c]),
        Synopsis("div rem min max", [INTEGER], [d, a, b]),
        Synopsis("abs neg", [SIGNED], [d, a]),
    ]


def _video_arithmetic() -> list[Synopsis]:
    dtype = atype = btype = INTEGER_32
    d = ResultOperand(FIRST)
    d_dsel = ResultOperand(FIRST, subword=True)
    a_asel = SourceOperand(SECOND, subword=True)
    b_bsel = SourceOperand(THIRD, subword=True)
    c = SourceOperand(FIRST)
    opcodes = "vadd vsub vabsdiff vmin vmax"
    return [
        Synopsis(opcodes, [dtype, atype, btype, opt(SAT)], [d_dsel, a_asel, b_bsel, opt(c)]),
        Synopsis(opcodes, [dtype, atype, btype, opt(SAT), ADD_MIN_MAX], [d, a_asel, b_bsel, c]),
    ]


def _simd_video_arithmetic(lanes: int) -> list[Synopsis]:
    dtype = atype = btype = INTEGER_32
    d_mask = ResultOperand(FIRST, lanes=lanes)
    a_asel = SourceOperand(SECOND, lanes=lanes)
    b_bsel = SourceOperand(THIRD, lanes=lanes)
    c = SourceOperand(FIRST)
    names = ("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax")
    opcodes = " ".join(f"{name}{lanes}" for name in names)
    return [
        Synopsis(opcodes, [dtype, atype, btype, opt(SAT)], [d_mask, a_asel, b_bsel, c]),
        Synopsis(opcodes, [dtype, atype, btype, op("add")], [d_mask, a_asel, b_bsel, c]),
    ]


def _simd_video_comparison(lanes: int) -> list[Synopsis]:
    atype = btype = INTEGER_32
    d_mask = ResultOperand(Type.U32, lanes=lanes)
    a_asel = SourceOperand(FIRST, lanes=lanes)
    b_bsel = SourceOperand(SECOND, lanes=lanes)
    c = SourceOperand(Type.U32)
    return [
        Synopsis(f"vset{lanes}", [atype, btype, CMP], [d_mask, a_asel, b_bsel, c]),
        Synopsis(f"vset{lanes}", [atype, btype, CMP, op("add")], [d_mask, a_asel, b_bsel, c]),
    ]


def _video_shift() -> list[Synopsis]:
    dtype = atype = INTEGER_32
    btype = U32
    d = ResultOperand(FIRST)
    d_dsel = ResultOperand(FIRST, subword=True)
    a_asel = SourceOperand(SECOND, subword=True)
    b_bsel = SourceOperand(THIRD, subword=True)
    c = SourceOperand(FIRST)
    shift = [dtype, atype, btype, opt(SAT), CLAMP_OR_WRAP]
    return [
        Synopsis("vshl vshr", shift, [d_dsel, a_asel, b_bsel, opt(c)]),
        Synopsis("vshl vshr", [*shift, ADD_MIN_MAX], [d, a_asel, b_bsel, c]),
    ]


def _video_comparison() -> list[Synopsis]:
    atype = btype = INTEGER_32
    d = ResultOperand(Type.U32)
    d_dsel = ResultOperand(Type.U32, subword=True)
    a_asel = SourceOperand(FIRST, subword=True)
    b_bsel = SourceOperand(SECOND, subword=True)
    c = SourceOperand(Type.U32)
    return [
        Synopsis("vset", [atype, btype, CMP], [d_dsel, a_asel, b_bsel, opt(c)]),
        Synopsis("vset", [atype, btype, CMP, ADD_MIN_MAX], [d, a_asel, b_bsel, c]),
    ]


def _video_multiplication() -> list[Synopsis]:
    dtype = atype = btype = INTEGER_32
    d = ResultOperand(FIRST)
    a = SourceOperand(SECOND, subword=True)
    b = SourceOperand(THIRD, subword=True)
    c = SourceOperand(FIRST)
    minus_a = SourceOperand(SECOND, subword=True, minus=True)
    minus_b = SourceOperand(THIRD, subword=True, minus=True)
    minus_c = SourceOperand(FIRST, minus=True)
    vmad = [dtype, atype, btype, opt(SAT), opt(SCALE)]
    return [
        Synopsis("vmad", vmad, [d, minus_a, minus_b, minus_c]),
        Synopsis("vmad", [dtype, atype, btype, PLUS_ONE, opt(SAT), opt(SCALE)], [d, a, b, c]),
    ]


def _bits() -> list[Synopsis]:
    d = ResultOperand(FIRST)
    d_u32 = ResultOperand(Type.U32)
    a = b = c = SourceOperand(FIRST)
    a_or_not = b_or_not = SourceOperand(FIRST, complement=True)
    u32 = SourceOperand(Type.U32)
    return [
        Synopsis("popc clz", [BITS_32_64], [d_u32, a]),
        Synopsis("bfind", [opt(op("shiftamt")), INTEGER_32_64], [d_u32, a]),
        Synopsis("brev", [BITS_32_64], [d, a]),
        Synopsis("bfe", [INTEGER_32_64], [d, a, u32, u32]),
        Synopsis("bfi", [BITS_32_64], [d, a, b, u32, u32]),
        Synopsis("and or xor", [BITS_OR_PRED], [d, a_or_not, b_or_not]),
        Synopsis("not", [BITS_OR_PRED], [d, a]),
        Synopsis("cnot", [BITS], [d, a]),
        Synopsis("lop3", [B32], [d, a, b, c, NumberBelow(256)]),
        Synopsis("shl", [BITS], [d, a, u32]),
        Synopsis("shr", [BITS_OR_INTEGER], [d, a, u32]),
        Synopsis("shf", [after_opcode(op("l", "r")), CLAMP_OR_WRAP, B32], [d, a, b, u32]),
        Synopsis("prmt", [B32, opt(PRMT_MODE)], [d, a, b, u32]),
    ]


def _comparison() -> list[Synopsis]:
    p_and_q = ResultAndPredicate(Type.PRED)
    a = b = SourceOperand(FIRST)
    c = SourceOperand(Type.PRED, complement=True)
    return [
        Synopsis("setp", [EQ_NE, BITS], [p_and_q, a, b]),
        Synopsis("setp", [CMP, INTEGER], [p_and_q, a, b]),
        Synopsis("setp", [CMP_UNSIGNED, UNSIGNED], [p_and_q, a, b]),
        Synopsis("setp", [EQ_NE, BOOL_OP, BITS], [p_and_q, a, b, c]),
        Synopsis("setp", [CMP, BOOL_OP, INTEGER], [p_and_q, a, b, c]),
        Synopsis("setp", [CMP_UNSIGNED, BOOL_OP, UNSIGNED], [p_and_q, a, b, c]),
        Synopsis("setp", [CMP_FLOAT, opt(FTZ), F32], [p_and_q, a, b]),
        Synopsis("setp", [CMP_FLOAT, F64], [p_and_q, a, b]),
        Synopsis("setp", [CMP_FLOAT, BOOL_OP, opt(FTZ), F32], [p_and_q, a, b, c]),
        Synopsis("setp", [CMP_FLOAT, BOOL_OP, F64], [p_and_q, a, b, c]),
    ]


def _comparison_into_register() -> list[Synopsis]:
    dtype = SET_TYPE
    d = ResultOperand(FIRST)
    a = b = SourceOperand(SECOND)
    c = SourceOperand(Type.PRED, complement=True)
    return [
        Synopsis("set", [EQ_NE, dtype, BITS], [d, a, b]),
        Synopsis("set", [CMP, dtype, INTEGER], [d, a, b]),
        Synopsis("set", [CMP_UNSIGNED, dtype, UNSIGNED], [d, a, b]),
        Synopsis("set", [EQ_NE, BOOL_OP, dtype, BITS], [d, a, b, c]),
        Synopsis("set", [CMP, BOOL_OP, dtype, INTEGER], [d, a, b, c]),
        Synopsis("set", [CMP_UNSIGNED, BOOL_OP, dtype, UNSIGNED], [d, a, b, c]),
        Synopsis("set", [CMP_FLOAT, opt(FTZ), dtype, F32], [d, a, b]),
        Synopsis("set", [CMP_FLOAT, dtype, F64], [d, a, b]),
        Synopsis("set", [CMP_FLOAT, BOOL_OP, opt(FTZ), dtype, F32], [d, a, b, c]),
        Synopsis("set", [CMP_FLOAT, BOOL_OP, dtype, F64], [d, a, b, c]),
    ]


def _selection() -> list[Synopsis]:
    d = ResultOperand(FIRST)
    a = b = SourceOperand(FIRST)
    c = SourceOperand(SECOND)
    c_pred = SourceOperand(Type.PRED, complement=True)
    return [
        Synopsis("selp", [REGISTER_TYPE], [d, a, b, c_pred]),
        Synopsis("slct", [REGISTER_TYPE, S32], [d, a, b, c]),
        Synopsis("slct", [opt(FTZ), REGISTER_TYPE, F32], [d, a, b, c]),
    ]


def _conversion() -> list[Synopsis]:
    d = ResultOperand(FIRST)
    d_or_wider = ResultOperand(FIRST, wider=True)
    a = SourceOperand(SECOND)
    a_or_wider = SourceOperand(SECOND, wider=True)
    a_f16 = SourceRegister(SECOND)
    return [
        Synopsis("cvt", [opt(SAT), INTEGER_OR_BYTE, INTEGER_OR_BYTE], [d_or_wider, a_or_wider]),
        Synopsis("cvt", [RND, opt(FTZ), opt(SAT), F32, INTEGER_OR_BYTE_OR_F64], [d, a_or_wider]),
        Synopsis("cvt", [RND, opt(SAT), F64, INTEGER_OR_BYTE], [d, a_or_wider]),
        Synopsis("cvt", [IRND, opt(FTZ), opt(SAT), INTEGER_OR_BYTE, F32], [d_or_wider, a]),
        Synopsis("cvt", [IRND, opt(SAT), INTEGER_OR_BYTE, F64], [d_or_wider, a]),
        Synopsis("cvt", [opt(IRND), opt(FTZ), opt(SAT), F32, F32], [d, a]),
        Synopsis("cvt", [opt(IRND), opt(SAT), F64, F64], [d, a]),
        Synopsis("cvt", [opt(FTZ), opt(SAT), F64, F32], [d, a]),
        Synopsis("cvt", [RND, opt(FTZ), opt(SAT), F16, F32], [d, a_f16]),
        Synopsis("cvt", [RND, opt(SAT), F16, INTEGER_OR_BYTE], [d, a_or_wider]),
        Synopsis("cvt", [RND, opt(SAT), F16, F64], [d, a_f16]),
        Synopsis("cvt", [opt(FTZ), opt(SAT), F32, F16], [d, a_f16]),
        Synopsis("cvt", [opt(SAT), F64, F16], [d, a_f16]),
        Synopsis("cvt", [IRND, opt(SAT), INTEGER_OR_BYTE, F16], [d_or_wider, a_f16]),
        Synopsis("cvt", [opt(IRND), opt(SAT), F16, F16], [d, a_f16]),
        Synopsis("cvta", [opt(TO), GENERIC_SPACE, ADDRESS_TYPE], [d, PointerSource(FIRST)]),
        Synopsis("isspacep", [GENERIC_SPACE], [ResultOperand(Type.PRED), AddressRegister()]),
    ]


def _moves_and_memory() -> list[Synopsis]:
    a = AddressOperand()
    load = LoadResult()
    store = StoreSource()
    return [
        Synopsis("mov", [PRED], [MoveResult(), MoveSource()]),
        Synopsis("mov", [opt(VEC), REGISTER_TYPE], [MoveResult(), MoveSource()]),
        Synopsis("ld", [opt(LOAD_SPACE), opt(LOAD_CACHE), opt(VEC), MEMORY_TYPE], [load, a]),
        Synopsis("ld", [GLOBAL, NC, opt(VEC), MEMORY_TYPE], [load, a]),
        Synopsis("ld", [GLOBAL, ignored("ca", "cg", "cs"), NC, opt(VEC), MEMORY_TYPE], [load, a]),
        Synopsis("ld", [VOLATILE, opt(LOAD_SPACE), opt(VEC), MEMORY_TYPE], [load, a]),
        Synopsis("ldu", [opt(GLOBAL), opt(VEC), MEMORY_TYPE], [load, a]),
        Synopsis("st", [opt(STORE_SPACE), opt(STORE_CACHE), opt(VEC), MEMORY_TYPE], [a, store]),
        Synopsis("st", [VOLATILE, opt(STORE_SPACE), opt(VEC), MEMORY_TYPE], [a, store]),
        Synopsis("prefetch", [opt(GLOBAL_LOCAL), op("L1", "L2")], [a]),
        Synopsis("prefetchu", [op("L1")], [a]),
    ]


def _atomics() -> list[Synopsis]:
    d = ResultOperand(FIRST, sink=True)
    a = AddressOperand()
    b = c = SourceOperand(FIRST)
    space = opt(GLOBAL_SHARED)
    return [
        Synopsis("atom", [space, op("add"), ATOMIC_ADD_TYPE], [d, a, b]),
        Synopsis("atom", [space, op("add"), F32], [d, a, b]),
        Synopsis("atom", [space, op("min", "max"), INTEGER_32_64], [d, a, b]),
        Synopsis("atom", [space, op("and", "or", "xor", "exch"), BITS_32_64], [d, a, b]),
        Synopsis("atom", [space, op("inc", "dec"), U32], [d, a, b]),
        Synopsis("atom", [space, op("cas"), BITS_32_64], [d, a, b, c]),
        Synopsis("red", [space, op("add"), ATOMIC_ADD_TYPE], [a, b]),
        Synopsis("red", [space, op("add"), F32], [a, b]),
        Synopsis("red", [space, op("min", "max"), INTEGER_32_64], [a, b]),
        Synopsis("red", [space, op("and", "or", "xor"), BITS_32_64], [a, b]),
        Synopsis("red", [space, op("inc", "dec"), U32], [a, b]),
    ]


def _barriers() -> list[Synopsis]:
    d = ResultOperand(FIRST)
    a = BarrierNumber()
    b = ThreadCount()
    c = SourceOperand(Type.PRED, complement=True)
    cta, aligned = opt(CTA), opt(ALIGNED)
    return [
        Synopsis("bar barrier", [cta, op("sync"), aligned], [a, opt(b)]),
        Synopsis("bar barrier", [cta, after_opcode(op("arrive")), aligned], [a, b]),
        Synopsis("bar barrier", [cta, RED, POPC, aligned, U32], [d, a, opt(b), c]),
        Synopsis("bar barrier", [cta, RED, AND_OR, aligned, PRED], [d, a, opt(b), c]),
        Synopsis("bar", [after_opcode(op("warp")), ignored("sync")], [SourceOperand(Type.B32)]),
        Synopsis("membar", [MEMBAR_LEVEL], []),
    ]


def _warp_wide() -> list[Synopsis]:
    d = ResultOperand(FIRST)
    d_and_p = ResultAndPredicate(FIRST)
    a = SourceOperand(FIRST)
    a_pred = SourceOperand(Type.PRED, complement=True)
    b = c = base = SourceOperand(Type.U32)
    offset = SourceOperand(Type.S32)
    member_mask = SourceOperand(Type.B32)
    return [
        Synopsis("vote", [VOTE_MODE, PRED], [d, a_pred]),
        Synopsis("vote", [op("ballot"), B32], [d, a_pred]),
        Synopsis("vote", [SYNC, VOTE_MODE, PRED], [d, a_pred, member_mask]),
        Synopsis("vote", [SYNC, op("ballot"), B32], [d, a_pred, member_mask]),
        Synopsis("shfl", [SHFL_MODE, B32], [d_and_p, a, b, c]),
        Synopsis("shfl", [SYNC, SHFL_MODE, B32], [d_and_p, a, b, c, member_mask]),
        Synopsis("activemask", [B32], [d]),
        Synopsis("fns", [B32], [d, a, base, offset]),
    ]


def _events_and_control_flow() -> list[Synopsis]:
    return [
        Synopsis("pmevent", [], [NumberBelow(16)]),
        Synopsis("pmevent", [op("mask")], [NumberBelow(65536)]),
        Synopsis("bra", [opt(UNI)], [BranchTarget()]),
        Synopsis("brx", [after_opcode(ignored("idx")), opt(UNI)], [IndexedBranchTargets()]),
        Synopsis("call", [opt(UNI)], [CallOperands()]),
        Synopsis("ret", [opt(UNI)], []),
        Synopsis("exit", [], []),
        Synopsis("trap", [], []),
        Synopsis("brkpt", [], []),
    ]


def _older() -> list[Synopsis]:
    """Returns the rows for older texts, with implied modifiers. mad in single precision is fused,
    as on machines from sm_20.
    """
    d = ResultOperand(FIRST)
    a = b = c = SourceOperand(FIRST)
    before_1_4 = Until((1, 4))
    before_3_2 = Until((3, 2), target=20)
    approximate = "rcp sqrt rsqrt sin cos lg2 ex2"
    return [
        Synopsis("div", [F32], [d, a, b], implied=[APPROX, FTZ], until=before_1_4),
        Synopsis(approximate, [F32], [d, a], implied=[APPROX, FTZ], until=before_1_4),
        Synopsis("div", [F64], [d, a, b], implied=[RN], until=before_1_4),
        Synopsis("rcp sqrt", [F64], [d, a], implied=[RN], until=before_1_4),
        Synopsis("rsqrt", [F64], [d, a], implied=[APPROX], until=before_1_4),
        Synopsis("mad", [F64], [d, a, b, c], implied=[RN], until=before_1_4),
        Synopsis("mad", [opt(FTZ), opt(SAT), F32], [d, a, b, c], implied=[RN], until=before_3_2),
    ]


def instruction_table() -> Iterator[Synopsis]:
    """Yields the rows of the table. The rows of an opcode are tried in this order."""
    yield from _arithmetic()
    yield from _video_arithmetic()
    for lanes in (2, 4):
        yield from _simd_video_arithmetic(lanes)
    for lanes in (2, 4):
        yield from _simd_video_comparison(lanes)
    yield from _video_shift()
    yield from _video_comparison()
    yield from _video_multiplication()
    yield from _bits()
    yield from _comparison()
    yield from _comparison_into_register()
    yield from _selection()
    yield from _conversion()
    yield from _moves_and_memory()
    yield from _atomics()
    yield from _barriers()
    yield from _warp_wide()
    yield from _events_and_control_flow()
    yield from _older()
