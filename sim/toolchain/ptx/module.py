"""A PTX program after the front end: names resolved to objects, modifiers decoded, operands typed
and checked.

Code that executes or translates a program needs only a table of opcodes over
:class:`PtxInstruction`. Operands are in the order of the text, destinations first. Operands that
are optional in the text have a fixed position here:

======================== ===========================================================================
opcode                   operands
======================== ===========================================================================
setp                     p, q or Sink, a, b, and c if there is a ``combine``
set                      d, a, b, and c if there is a ``combine``
shfl                     d, p or Sink, a, b, c, and the member mask if ``sync``
vote                     d, a, and the member mask if ``sync``
ld, ldu                  d (PtxRegister or PtxVector), PtxAddress
st                       PtxAddress, a (PtxRegister, PtxImmediate or PtxVector)
atom                     d or Sink, PtxAddress, b, and c for cas
red                      PtxAddress, b
mov                      d, a; one of them a PtxVector if it packs or unpacks
bra                      a PtxLabel
brx                      the index; ``targets`` are the labels
call                     none; see ``call``
bar sync, arrive         barrier, and the number of threads if given (``operation`` is sync, arrive,
                         red or warp)
bar red                  d, barrier, threads or Sink, predicate
bar warp                 the member mask
cvta, isspacep           d, a
prefetch, prefetchu      PtxAddress
lop3                     d, a, b, c, the table as a PtxImmediate
membar                   none; ``scope`` is the set of threads for which it orders
pmevent                  a PtxImmediate
trap, brkpt, ret, exit   none
======================== ===========================================================================
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from sim.support.alignment import round_up
from sim.toolchain.module import LaunchBounds

__all__ = [
    "AddressOf",
    "Comparison",
    "FunctionRef",
    "Linkage",
    "Negated",
    "Operand",
    "PtxAddress",
    "PtxBoolean",
    "PtxCall",
    "PtxFunction",
    "PtxGuard",
    "PtxHalf",
    "PtxImmediate",
    "PtxInstruction",
    "PtxLabel",
    "PtxLanes",
    "PtxModule",
    "PtxRegister",
    "PtxScope",
    "PtxSpace",
    "PtxSpecialRegister",
    "PtxSubword",
    "PtxVariable",
    "PtxVector",
    "Signature",
    "Sink",
    "Type",
    "VariableRef",
    "parameter_offsets",
]


class Type(Enum):
    """A fundamental type. The value is the name without the dot."""

    B8 = "b8"
    B16 = "b16"
    B32 = "b32"
    B64 = "b64"
    U8 = "u8"
    U16 = "u16"
    U32 = "u32"
    U64 = "u64"
    S8 = "s8"
    S16 = "s16"
    S32 = "s32"
    S64 = "s64"
    F16 = "f16"
    F32 = "f32"
    F64 = "f64"
    PRED = "pred"

    def __init__(self, name: str) -> None:
        self.bits = 1 if name == "pred" else int(name[1:])
        """The width in bits; 1 for a predicate."""
        self.size = self.bits // 8
        """The size in memory in bytes; predicates cannot be in memory."""
        self.signed = name[0] == "s"
        """Whether its numbers are signed."""
        self.floating = name[0] == "f"
        """Whether its numbers are floating-point numbers."""
        self._untyped = name[0] == "b"

    def agrees(self, other: "Type") -> bool:
        """Whether a register of this type can be an operand of another type of the same size: bits
        agree with all types, integers and floating-point numbers only with their own kind.
        """
        return self.floating == other.floating or self._untyped or other._untyped

    def holds(self, other: "Type") -> bool:
        """Whether the integers of another type are all in the range of this one."""
        return self.bits - self.signed >= other.bits - other.signed and self.signed >= other.signed


class PtxSpace(Enum):
    """A state space with addresses. An instruction's space is None for generic addressing."""

    CONST = "const"
    GLOBAL = "global"
    LOCAL = "local"
    PARAM = "param"
    SHARED = "shared"


class Linkage(Enum):
    """The visibility of a function or variable. EXTERN means that it is defined elsewhere; extern
    shared arrays get their size at launch.
    """

    INTERNAL = ""
    VISIBLE = "visible"
    EXTERN = "extern"
    WEAK = "weak"
    COMMON = "common"


class PtxHalf(Enum):
    """The part of a product that is the result."""

    LO = "lo"
    HI = "hi"
    WIDE = "wide"


class Comparison(Enum):
    """A comparison.

    lo, ls, hi and hs are read as lt, le, gt and ge; they need an unsigned type. Those that end in u
    are also true for unordered floating-point numbers, that is, if one of them is a NaN. num is
    true for ordered numbers, nan for unordered ones.
    """

    EQ = "eq"
    NE = "ne"
    LT = "lt"
    LE = "le"
    GT = "gt"
    GE = "ge"
    EQU = "equ"
    NEU = "neu"
    LTU = "ltu"
    LEU = "leu"
    GTU = "gtu"
    GEU = "geu"
    NUM = "num"
    NAN = "nan"


class PtxBoolean(Enum):
    """How the result of a comparison is combined with a predicate."""

    AND = "and"
    OR = "or"
    XOR = "xor"


class PtxScope(Enum):
    """The threads for which a memory operation is ordered. The value is the name without the
    dot.
    """

    CTA = "cta"
    GL = "gl"
    SYS = "sys"


class PtxSubword(Enum):
    """The byte or half of a register that is an operand of a video instruction. The value is the
    name without the dot.
    """

    B0 = "b0"
    B1 = "b1"
    B2 = "b2"
    B3 = "b3"
    H0 = "h0"
    H1 = "h1"

    def __init__(self, name: str) -> None:
        self.bits = 8 if name[0] == "b" else 16
        """The width in bits."""
        self.first_bit = self.bits * int(name[1])
        """Its first bit in the register."""


_HALVES = (PtxSubword.H0, PtxSubword.H1)
_BYTES = (PtxSubword.B0, PtxSubword.B1, PtxSubword.B2, PtxSubword.B3)


@dataclass(frozen=True)
class PtxLanes:
    """The lanes that a SIMD video instruction writes and reads.

    Attributes:
        count: The number of lanes: two halves or four bytes of a register.
        written: The lanes whose results are written, the lowest first.
        a: For each lane the subword of its first source: those of operand a are counted from 0,
            those of b follow.
        b: For each lane the subword of its second source, counted likewise.
    """

    count: int
    written: tuple[int, ...]
    a: tuple[int, ...]
    b: tuple[int, ...]

    def subword(self, number: int) -> PtxSubword:
        """Returns the half or byte of a register with a number; the lowest is 0."""
        return _BYTES[number] if self.count == len(_BYTES) else _HALVES[number]


@dataclass(frozen=True, eq=False)
class PtxRegister:
    """A register: one object for each declaration that is used.

    ``name`` is unique in its function: a name that is declared again in an inner scope gets a
    suffix. The elements of a vector register are registers of their own, named ``v.x`` and so on.
    """

    name: str
    type: Type


@dataclass(frozen=True)
class AddressOf:
    """An address in an initialiser: of a function or variable, by its unique name, plus ``offset``
    bytes.

    ``generic`` selects the generic address instead of the address in the variable's space. ``byte``
    selects one byte of the address by its first bit, None the whole address.
    """

    symbol: str
    offset: int
    generic: bool
    byte: int | None


@dataclass(frozen=True, eq=False)
class PtxVariable:
    """A variable in memory: one object for each declaration.

    Attributes:
        name: Unique in the module for const, global and shared variables, in the function for param
            and local ones.
        space: The state space.
        type: The type of an element.
        count: The number of elements, 1 for a scalar, None for an array with a size set at launch.
        alignment: The alignment in bytes, at least the size of an element.
        initial: The values of the first elements: unsigned numbers of the type's width, or
            addresses. The rest is zero.
    """

    name: str
    space: PtxSpace
    type: Type
    count: int | None
    alignment: int
    linkage: Linkage = Linkage.INTERNAL
    initial: tuple[int | AddressOf, ...] = ()

    @property
    def size(self) -> int:
        """The size in bytes; 0 if it is set at launch."""
        return self.type.size * (self.count or 0)


@dataclass(frozen=True, eq=False)
class PtxLabel:
    """A place in a function's body, and the operand that refers to it. ``name`` is unique in its
    function.
    """

    name: str


@dataclass(frozen=True)
class PtxImmediate:
    """A number truncated to the width of its operand: never negative. For a floating-point number,
    its bits.
    """

    value: int


@dataclass(frozen=True)
class PtxAddress:
    """``[base + offset]``. The offset is signed; without a base it is the whole address."""

    base: "PtxRegister | PtxVariable | None"
    offset: int = 0


@dataclass(frozen=True)
class PtxVector:
    """``{a, b}``: 2 or 4 elements (up to 8 in a mov of bytes), the lowest first."""

    elements: "tuple[PtxRegister | PtxImmediate | Sink, ...]"


@dataclass(frozen=True)
class FunctionRef:
    """A function's address, or the function that is called."""

    name: str


@dataclass(frozen=True)
class VariableRef:
    """A variable's address in its space, plus ``offset`` bytes, as a number."""

    variable: PtxVariable
    offset: int


@dataclass(frozen=True)
class PtxSpecialRegister:
    """A special register. ``name`` has no percent sign and no component: tid, laneid, lanemask_lt,
    clock64, envreg3.

    ``component`` is x, y or z, or empty.
    """

    name: str
    component: str = ""


@dataclass(frozen=True)
class Sink:
    """The operand ``_``: a result that is discarded."""


@dataclass(frozen=True)
class Negated:
    """The operand ``!p``: a negated predicate."""

    register: PtxRegister


Operand = (
    PtxRegister
    | PtxImmediate
    | PtxAddress
    | PtxVector
    | PtxLabel
    | FunctionRef
    | VariableRef
    | PtxSpecialRegister
    | Sink
    | Negated
)


@dataclass(frozen=True)
class PtxGuard:
    """The guard ``@p`` or ``@!p``."""

    register: PtxRegister
    negated: bool


@dataclass(frozen=True)
class Signature:
    """The parameters and results of a function: a PtxRegister or a PtxVariable in param space for
    each, in order.

    Only types, counts and alignments are significant; the names in a prototype are not.
    """

    results: tuple[PtxRegister | PtxVariable, ...]
    parameters: tuple[PtxRegister | PtxVariable, ...]


@dataclass(frozen=True)
class PtxCall:
    """The target, arguments and results of a call.

    Attributes:
        target: A function, or a register of 32 or 64 bits with a function's address.
        results: The destinations of the callee's results, by value; they agree with the signature.
        arguments: The arguments, passed by value; they agree with the signature.
        signature: The callee's signature.
        candidates: The functions that the call may reach, by name: one for a direct call; None if
            only the prototype of an indirect call is known.
    """

    target: FunctionRef | PtxRegister
    results: tuple[PtxRegister | PtxVariable | Sink, ...]
    arguments: tuple[PtxRegister | PtxImmediate | PtxVariable, ...]
    signature: Signature
    candidates: tuple[str, ...] | None


@dataclass(frozen=True, kw_only=True)
class PtxInstruction:
    """One instruction. ``line`` and ``column`` count from 1.

    Attributes:
        opcode: The first word: add, addc, mul24, setp, ld. barrier is read as bar.
        types: In the order of the text: the result's first if an instruction has two (cvt, set,
            slct).
        half: The part of the product, for mul, mad, madc, mul24 and mad24.
        saturate: ``.sat``
        rounding: rn, rz, rm, rp; for cvt to an integer, or to an integral value of a floating-point
            type, rni, rzi, rmi, rpi; or empty.
        flush: ``.ftz``
        approximation: approx, full; or empty.
        carry_out: ``.cc``. The carry-in of addc, subc and madc is part of the opcode.
        compare: The comparison, for setp, set and vset.
        combine: The combination with a predicate, for setp and set.
        space: The state space, for ld, st, atom, red, prefetch, cvta and isspacep. None: generic.
            If the text has no space and the address names a variable, it is the variable's.
        vector: The number of elements that ld or st moves: 1, 2 or 4.
        uniform: ``.uni`` of bra, brx, call and ret; vote.uni is an operation.
        to: ``cvta.to``: converts from generic into the space.
        volatile: ``.volatile``
        cache: The cache operator of ld and st without dot: ca, cg, cs, lu, cv, wb, wt, and nc for
            the read-only path; or empty.
        operation: The operation: add, min, cas of atom and red; all, any, uni, ballot of vote; up,
            down, bfly, idx of shfl; l, r of shf; sync, arrive, red, warp of bar; L1, L2 of
            prefetch; f4e, b4e, rc8, ecl, ecr, rc16 of prmt; shiftamt of bfind; mask of pmevent; the
            property that testp tests; the secondary operation of video instructions: add, min, max;
            or empty.
        reduction: popc, and, or of bar red; or empty.
        clamp: ``.clamp`` of shf, vshl and vshr; False is ``.wrap``.
        scale: The number of bits by which vmad shifts its sum to the right.
        plus_one: ``.po`` of vmad: one is added.
        subwords: For each operand of a video instruction the selected part of its register, None
            for all of it.
        lanes: For SIMD video instructions: the lanes that are written, and the sources of each.
        negated: For each operand of vmad whether it is negated.
        sync: ``.sync`` of vote and shfl: the last operand is the member mask.
        scope: The scope of membar.
    """

    opcode: str
    line: int
    column: int
    guard: PtxGuard | None = None
    types: tuple[Type, ...] = ()
    operands: tuple[Operand, ...] = ()
    half: PtxHalf | None = None
    saturate: bool = False
    rounding: str = ""
    flush: bool = False
    approximation: str = ""
    carry_out: bool = False
    compare: Comparison | None = None
    combine: PtxBoolean | None = None
    space: PtxSpace | None = None
    vector: int = 1
    uniform: bool = False
    to: bool = False
    volatile: bool = False
    cache: str = ""
    operation: str = ""
    reduction: str = ""
    clamp: bool = False
    scale: int = 0
    plus_one: bool = False
    subwords: tuple[PtxSubword | None, ...] = ()
    lanes: PtxLanes | None = None
    negated: tuple[bool, ...] = ()
    sync: bool = False
    scope: PtxScope | None = None
    targets: tuple[PtxLabel, ...] = ()
    call: PtxCall | None = None

    @property
    def type(self) -> Type:
        """The first type."""
        return self.types[0]

    def changed(self, **fields: Any) -> "PtxInstruction":
        """Returns the instruction with other values of some fields. ``dataclasses.replace`` would
        take as long as the rest of an instruction's processing.
        """
        made = object.__new__(PtxInstruction)
        vars(made).update(vars(self), **fields)
        return made


@dataclass(frozen=True)
class PtxFunction:
    """A function or an entry.

    Attributes:
        name: Its name.
        entry: Whether it is an entry.
        parameters: The parameters; those of an entry are variables in param space, in the order of
            the launch's arguments.
        results: The results.
        registers: The registers that the body declares, of ranges only those that it names;
            parameters in registers are not among them.
        variables: All variables that the body declares.
        body: The flat list of labels and instructions; scopes are resolved, and the last item is a
            bra, brx, ret or exit without a guard. None without a body.
        bounds: The launch bounds of an entry.
    """

    name: str
    entry: bool
    linkage: Linkage
    results: tuple[PtxRegister | PtxVariable, ...]
    parameters: tuple[PtxRegister | PtxVariable, ...]
    registers: tuple[PtxRegister, ...]
    variables: tuple[PtxVariable, ...]
    body: tuple[PtxLabel | PtxInstruction, ...] | None
    line: int
    column: int
    bounds: LaunchBounds = field(default_factory=LaunchBounds)

    @property
    def signature(self) -> Signature:
        """The types of its parameters and results."""
        return Signature(self.results, self.parameters)


@dataclass(frozen=True)
class PtxModule:
    """A PTX file.

    Attributes:
        variables: The variables of module scope. Those in local space belong to each thread and are
            visible in all functions.
        functions: The functions by name, in the order of the text.
        refused: Entries that use textures, which are not supported, with a message for each. They
            are not among the functions.
    """

    name: str
    version: tuple[int, int]
    target: str
    functions: Mapping[str, PtxFunction]
    variables: tuple[PtxVariable, ...] = field(default=())
    refused: Mapping[str, str] = field(default_factory=dict)


def parameter_offsets(
    parameters: tuple[PtxRegister | PtxVariable, ...],
) -> tuple[tuple[int, ...], int]:
    """Returns the offsets of the parameters in a parameter block, each aligned to its type, and the
    block's size, in bytes.
    """
    offsets, end = [], 0
    for parameter in parameters:
        size = parameter.type.size if isinstance(parameter, PtxRegister) else parameter.size
        alignment = (
            parameter.type.size if isinstance(parameter, PtxRegister) else parameter.alignment
        )
        end = round_up(end, alignment)
        offsets.append(end)
        end += size
    return tuple(offsets), end
