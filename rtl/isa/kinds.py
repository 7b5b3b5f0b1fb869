"""The small vocabularies of instruction fields: comparisons, memory sizes, modes.

Values are the encoding's. Hardware switches on them, the tables spell them.
"""

from amaranth.lib import enum

__all__ = [
    "AtomicOperation",
    "AtomicType",
    "BarrierMode",
    "BarrierRead",
    "BarrierReduction",
    "Boolean",
    "BreakpointMode",
    "CacheOperation",
    "Compare",
    "CompareAndSwapType",
    "FloatCompare",
    "FloatFlush",
    "FloatFormat",
    "FloatRange",
    "FloatRounding",
    "FunnelPart",
    "FunnelWidth",
    "HalfSelect",
    "Logic",
    "MembarScope",
    "MemorySize",
    "MinMaxPart",
    "MultiFunction",
    "PermuteMode",
    "PredicateTest",
    "ProductAddend",
    "ProductScale",
    "ReturnFromTrapMode",
    "ShiftPart",
    "ShuffleMode",
    "SumShift",
    "SwizzledSum",
    "VideoScale",
    "VideoSecond",
    "VoteMode",
    "size_bytes",
    "size_registers",
    "texts",
]


class Compare(enum.Enum, shape=3):
    """Relation of two integers."""

    F = 0
    LT = 1
    EQ = 2
    LE = 3
    GT = 4
    NE = 5
    GE = 6
    T = 7


class FloatCompare(enum.Enum, shape=4):
    """Relation of two floating-point numbers; those with a U are also true of unordered numbers."""

    F = 0
    LT = 1
    EQ = 2
    LE = 3
    GT = 4
    NE = 5
    GE = 6
    NUM = 7
    NAN = 8
    LTU = 9
    EQU = 10
    LEU = 11
    GTU = 12
    NEU = 13
    GEU = 14
    T = 15


class FloatRounding(enum.Enum, shape=2):
    """Direction in which a floating-point result is rounded: to the nearest, down, up, to zero."""

    RN = 0
    RM = 1
    RP = 2
    RZ = 3


class FloatFlush(enum.Enum, shape=2):
    """How subnormal operands and results are treated. NONE: they are kept. FTZ: they become zero.
    FMZ: they become zero, and zero times anything, even infinity or NaN, is zero."""

    NONE = 0
    FTZ = 1
    FMZ = 2


class ProductScale(enum.Enum, shape=3):
    """The factor of FMUL's product: Dn divides it by n, Mn multiplies it by n."""

    NONE = 0
    D2 = 1
    D4 = 2
    D8 = 3
    M8 = 4
    M4 = 5
    M2 = 6


class Boolean(enum.Enum, shape=2):
    """Combination of two predicates."""

    AND = 0
    OR = 1
    XOR = 2


class Logic(enum.Enum, shape=2):
    """Bitwise operation of two registers."""

    AND = 0
    OR = 1
    XOR = 2
    PASS_B = 3


class PredicateTest(enum.Enum, shape=2):
    """What a logic operation writes to its predicate result."""

    NONE = 0
    T = 1
    Z = 2
    NZ = 3


class MemorySize(enum.Enum, shape=3):
    """Size of a load or store; U128 is a 128-bit load of the uniform kind."""

    U8 = 0
    S8 = 1
    U16 = 2
    S16 = 3
    B32 = 4
    B64 = 5
    B128 = 6
    U128 = 7


def size_bytes(size: int) -> int:
    """Bytes that a MemorySize covers."""
    return (1, 1, 2, 2, 4, 8, 16, 16)[size]


def size_registers(size: int) -> int:
    """Registers that a MemorySize fills."""
    return max(1, size_bytes(size) // 4)


class AtomicOperation(enum.Enum, shape=4):
    """What an atomic or reduction does to memory."""

    ADD = 0
    MIN = 1
    MAX = 2
    INC = 3
    DEC = 4
    AND = 5
    OR = 6
    XOR = 7
    EXCH = 8
    SAFEADD = 10


class AtomicType(enum.Enum, shape=3):
    """Operand type of global atomics; shared ones use the first four codes as U32, S32, U64,
    S64."""

    U32 = 0
    S32 = 1
    U64 = 2
    F32 = 3
    U128 = 4
    S64 = 5


class CompareAndSwapType(enum.Enum, shape=3):
    """Kinds of shared-memory compare and swap."""

    CAST = 0
    CAST_64 = 1
    CAST_SPIN = 2
    CAST_SPIN_64 = 3
    CAS = 4
    CAS_64 = 5


class ShuffleMode(enum.Enum, shape=2):
    """How SHFL picks the source lane."""

    IDX = 0
    UP = 1
    DOWN = 2
    BFLY = 3


class VoteMode(enum.Enum, shape=2):
    """The condition that VOTE tests over the active threads."""

    ALL = 0
    ANY = 1
    EQ = 2


class BarrierMode(enum.Enum, shape=3):
    """Kinds of BAR."""

    SYNC = 0
    ARV = 1
    RED = 2
    SCAN = 3
    SYNCALL = 4


class BarrierReduction(enum.Enum, shape=2):
    """How BAR.RED combines the threads' predicates."""

    POPC = 0
    AND = 1
    OR = 2


class BarrierRead(enum.Enum, shape=2):
    """What B2R and R2B move."""

    BARRIER = 0
    RESULT = 1
    WARP = 2


class BreakpointMode(enum.Enum, shape=3):
    """Modes of BPT. PAUSE_QUIET's code is a choice of this project: the free one."""

    DRAIN_ILLEGAL = 0
    CAL = 1
    PAUSE = 2
    TRAP = 3
    INT = 4
    DRAIN = 5
    PAUSE_QUIET = 6


class ReturnFromTrapMode(enum.Enum, shape=2):
    """Modes of RTT."""

    POPCRS = 0
    TERMINATE = 1
    FALLTHROUGH = 2
    PREEMPTED = 3


class MembarScope(enum.Enum, shape=2):
    """The scope of a MEMBAR: the threads for which it orders memory."""

    CTA = 0
    GL = 1
    SYS = 2
    VC = 3


class CacheOperation(enum.Enum, shape=4):
    """Operations of CCTL and CCTLL."""

    QRY1 = 0
    PF1 = 1
    PF1_5 = 2
    PF2 = 3
    WB = 4
    IV = 5
    IVALL = 6
    RS = 7
    WBALL = 8
    RSLB = 9


class PermuteMode(enum.Enum, shape=4):
    """How PRMT reads its selector."""

    INDEX = 0
    F4E = 1
    B4E = 2
    RC8 = 3
    ECL = 4
    ECR = 5
    RC16 = 6


class SumShift(enum.Enum, shape=2):
    """What IADD3 does to the sum of its first two operands."""

    NONE = 0
    RS = 1
    LS = 2


class HalfSelect(enum.Enum, shape=2):
    """The part of a source that IADD3 uses, zero extended."""

    WORD = 0
    H0 = 1
    H1 = 2


class ProductAddend(enum.Enum, shape=3):
    """How XMAD transforms its third operand."""

    C = 0
    CLO = 1
    CHI = 2
    CSFU = 3
    CBCC = 4


class MultiFunction(enum.Enum, shape=4):
    """Functions of MUFU."""

    COS = 0
    SIN = 1
    EX2 = 2
    LG2 = 3
    RCP = 4
    RSQ = 5
    RCP64H = 6
    RSQ64H = 7


class FloatRange(enum.Enum, shape=1):
    """Functions that RRO prepares a number for."""

    SINCOS = 0
    EX2 = 1


class SwizzledSum(enum.Enum, shape=2):
    """What a thread of a quad adds up in FSWZADD: a and b with their signs, positive, negative, or
    without a."""

    PP = 0
    NP = 1
    PN = 2
    ZP = 3


class FloatFormat(enum.Enum, shape=2):
    """Floating-point side of a conversion."""

    F16 = 1
    F32 = 2
    F64 = 3


class MinMaxPart(enum.Enum, shape=2):
    """Part of a multi-word IMNMX."""

    WHOLE = 0
    XLO = 1
    XMED = 2
    XHI = 3


class FunnelPart(enum.Enum, shape=2):
    """Which word of the shifted pair SHF returns."""

    LOW = 0
    HI = 1
    X = 2
    XHI = 3


class FunnelWidth(enum.Enum, shape=2):
    """The type of the pair that SHF shifts; it determines the largest shift count."""

    B32 = 0
    U64 = 2
    S64 = 3


class ShiftPart(enum.Enum, shape=2):
    """Part of a multi-word SHR."""

    WHOLE = 0
    X = 2
    XHI = 3


class VideoScale(enum.Enum, shape=2):
    """By how many bits VMAD shifts its sum to the right."""

    NONE = 0
    SHR_7 = 1
    SHR_15 = 2


class VideoSecond(enum.Enum, shape=3):
    """What a video instruction does with its third operand: the low bits of the first result
    replace some of its bits, it is the other operand of a second operation, or it is not used."""

    MRG_16H = 0
    MRG_16L = 1
    MRG_8B0 = 2
    MRG_8B2 = 3
    ACC = 4
    MIN = 5
    MAX = 6
    NONE = 7


def texts(kind: type[enum.Enum], **spelled: str) -> dict[int, str]:
    """Spelling of an enum's values behind a mnemonic: a dot and the name unless given otherwise."""
    return {member.value: spelled.get(member.name, f".{member.name}") for member in kind}
