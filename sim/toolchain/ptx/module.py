"""A PTX program after its front end: names resolved to objects, modifiers decoded, operands typed and checked.

Whoever executes or translates a program needs a table of opcodes over :class:`PtxInstruction` and nothing else.
Operands stand in written order, destinations first. What is optional in the text has a fixed place here:

======================== ======================================================================================
opcode                   operands
======================== ======================================================================================
setp                     p, q or Sink, a, b, and c where there is a ``combine``
set                      d, a, b, and c where there is a ``combine``
shfl                     d, p or Sink, a, b, c, and the member mask where ``sync``
vote                     d, a, and the member mask where ``sync``
ld, ldu                  d (PtxRegister or PtxVector), PtxAddress
st                       PtxAddress, a (PtxRegister, PtxImmediate or PtxVector)
atom                     d or Sink, PtxAddress, b, and c for cas
red                      PtxAddress, b
mov                      d, a; one of both a PtxVector where it packs or unpacks
bra                      a PtxLabel
brx                      the index; ``targets`` are the labels
call                     none; ``call`` tells all
bar sync, arrive         barrier, and threads where given (``operation`` is sync, arrive, red or warp)
bar red                  d, barrier, threads or Sink, predicate
bar warp                 the member mask
cvta, isspacep           d, a
prefetch, prefetchu      PtxAddress
lop3                     d, a, b, c, the table as a PtxImmediate
membar                   none; ``scope`` tells whom it orders for
pmevent                  a PtxImmediate
trap, brkpt, ret, exit   none
======================== ======================================================================================
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
    """A fundamental type, by its name without the dot."""

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
        """Width in bits; a predicate has 1."""
        self.size = self.bits // 8
        """Bytes in memory; predicates have no place there."""
        self.signed = name[0] == "s"
        """Whether its numbers have a sign."""
        self.floating = name[0] == "f"
        """Whether its numbers are floating-point ones."""
        self._untyped = name[0] == "b"

    def agrees(self, other: "Type") -> bool:
        """Whether a register of one type, of the same size, can be an operand of the other: bits can be any, others are
        floating-point numbers or not."""
        return self.floating == other.floating or self._untyped or other._untyped

    def holds(self, other: "Type") -> bool:
        """Whether every integer of another type is one of this type."""
        return self.bits - self.signed >= other.bits - other.signed and self.signed >= other.signed


class PtxSpace(Enum):
    """A state space that can be addressed. Generic addressing is None where an instruction has a space."""

    CONST = "const"
    GLOBAL = "global"
    LOCAL = "local"
    PARAM = "param"
    SHARED = "shared"


class Linkage(Enum):
    """Who sees a function or variable. EXTERN is defined elsewhere; extern shared arrays get their size at launch."""

    INTERNAL = ""
    VISIBLE = "visible"
    EXTERN = "extern"
    WEAK = "weak"
    COMMON = "common"


class PtxHalf(Enum):
    """Which part of a product counts."""

    LO = "lo"
    HI = "hi"
    WIDE = "wide"


class Comparison(Enum):
    """A comparison. lo, ls, hi and hs are read as lt, le, gt and ge: they need an unsigned type. Those that end in u
    hold of floating-point numbers without order, too, which a NaN and any other are; num and nan tell whether there is
    an order.
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
    """The threads for which a memory operation is ordered, by their name without the dot."""

    CTA = "cta"
    GL = "gl"
    SYS = "sys"


class PtxSubword(Enum):
    """A byte or half of a register that is an operand of a video instruction, by its name without the dot."""

    B0 = "b0"
    B1 = "b1"
    B2 = "b2"
    B3 = "b3"
    H0 = "h0"
    H1 = "h1"

    def __init__(self, name: str) -> None:
        self.bits = 8 if name[0] == "b" else 16
        """Width in bits."""
        self.first_bit = self.bits * int(name[1])
        """Where it begins in the register."""


_HALVES = (PtxSubword.H0, PtxSubword.H1)
_BYTES = (PtxSubword.B0, PtxSubword.B1, PtxSubword.B2, PtxSubword.B3)


@dataclass(frozen=True)
class PtxLanes:
    """What a SIMD video instruction writes and reads.

    Attributes:
        count: Lanes of the instruction: two halves or four bytes of a register.
        written: The lanes whose results are written, the lowest first.
        a: For each lane, which subword its first number is: those of operand a from 0 on, then those of b.
        b: The same for its second number.
    """

    count: int
    written: tuple[int, ...]
    a: tuple[int, ...]
    b: tuple[int, ...]

    def subword(self, number: int) -> PtxSubword:
        """The half or byte of a register with a number, from the lowest on."""
        return _BYTES[number] if self.count == len(_BYTES) else _HALVES[number]


@dataclass(frozen=True, eq=False)
class PtxRegister:
    """A register: one object for each declaration that survives name resolution.

    ``name`` is unique in its function: a name that is declared again in an inner scope gets a suffix. The elements of a
    vector register are registers of their own, named ``v.x`` and so on.
    """

    name: str
    type: Type


@dataclass(frozen=True)
class AddressOf:
    """An address in an initialiser: of a function or variable, by its unique name, plus ``offset`` bytes.

    ``generic``: the generic address rather than the one inside the variable's space. ``byte``: only the byte of it that
    begins at this bit.
    """

    symbol: str
    offset: int
    generic: bool
    byte: int | None


@dataclass(frozen=True, eq=False)
class PtxVariable:
    """A variable in memory: one object for each declaration.

    ``name`` is unique in the module for const, global and shared variables, in the function for param and local ones.
    ``count`` is the number of elements (1 for a scalar), None for an array whose size the launch decides.
    ``initial`` has the values of its first elements, unsigned numbers of the type's width or addresses; the rest
    are zeros. ``alignment`` is in bytes and never less than an element's size.
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
        """Bytes; 0 where the launch decides."""
        return self.type.size * (self.count or 0)


@dataclass(frozen=True, eq=False)
class PtxLabel:
    """A place in a function's body, and the operand that names it. ``name`` is unique in its function."""

    name: str


@dataclass(frozen=True)
class PtxImmediate:
    """A number, cut to the width of the operand that it stands for: never negative. Bits of a floating-point one."""

    value: int


@dataclass(frozen=True)
class PtxAddress:
    """``[base + offset]``. The offset is signed; without a base it is the whole address."""

    base: "PtxRegister | PtxVariable | None"
    offset: int = 0


@dataclass(frozen=True)
class PtxVector:
    """``{a, b}``: 2 or 4 elements (up to 8 in a mov of bytes), the first one lowest."""

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
    """A special register. ``name`` has no percent sign and no component: tid, laneid, lanemask_lt, clock64, envreg3.

    ``component`` is x, y or z, empty where there is none.
    """

    name: str
    component: str = ""


@dataclass(frozen=True)
class Sink:
    """``_``: a result that nobody wants."""


@dataclass(frozen=True)
class Negated:
    """``!p``."""

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
    """``@p`` or ``@!p``."""

    register: PtxRegister
    negated: bool


@dataclass(frozen=True)
class Signature:
    """What a function takes and gives: a PtxRegister or a PtxVariable in param space for each, in order.

    Only their types, counts and alignments mean something; in a prototype the names do not.
    """

    results: tuple[PtxRegister | PtxVariable, ...]
    parameters: tuple[PtxRegister | PtxVariable, ...]


@dataclass(frozen=True)
class PtxCall:
    """What a call calls.

    ``target`` is a function, or a register of 32 or 64 bits with a function's address. ``results`` receive, by value,
    what the callee leaves in its results; ``arguments`` are passed by value. Both agree with ``signature``, checked.
    ``candidates`` are the functions that an indirect call may reach, by name; None where only the prototype is
    known. A direct call has the one.
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
        types: As written: the result's first where an instruction has two (cvt, set, slct).
        half: Of mul, mad, madc, mul24 and mad24.
        saturate: ``.sat``
        rounding: rn, rz, rm, rp; of cvt to an integer, or to one beside a floating-point number, rni, rzi, rmi, rpi;
            or empty.
        flush: ``.ftz``
        approximation: approx, full; or empty.
        carry_out: ``.cc``. That addc, subc and madc take the carry in is in the opcode.
        compare, combine: Of setp and set; compare of vset, too.
        space: Of ld, st, atom, red, prefetch, cvta, isspacep. None: generic. Where the text does not say and the
            address has the name of a variable, it is that variable's.
        vector: Elements that ld or st moves: 1, 2 or 4.
        uniform: ``.uni`` of bra, brx, call and ret; vote.uni is an operation.
        to: ``cvta.to``: from generic into the space.
        volatile: ``.volatile``
        cache: Cache operator of ld and st without dot: ca, cg, cs, lu, cv, wb, wt, and nc for the read-only path; or
            empty.
        operation: What is done: add, min, cas of atom and red; all, any, uni, ballot of vote; up, down, bfly, idx of
            shfl; l, r of shf; sync, arrive, red, warp of bar; L1, L2 of prefetch; f4e, b4e, rc8, ecl, ecr, rc16 of
            prmt; shiftamt of bfind; mask of pmevent; what testp tests; the second operation of video instructions:
            add, min, max; or empty.
        reduction: popc, and, or of bar red; or empty.
        clamp: ``.clamp`` of shf, vshl and vshr; False is ``.wrap``.
        scale: By how many bits vmad shifts its sum to the right.
        plus_one: ``.po`` of vmad: one is added.
        subwords: Of video instructions, for each operand: which part of the register it is; None: all of it.
        lanes: Of SIMD video instructions: which lanes are written, and what each of them reads.
        negated: Of vmad, for each operand: whether it is negated.
        sync: ``.sync`` of vote and shfl: the last operand is the member mask.
        scope: Of membar.
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
        """The same with other values of some fields: ``dataclasses.replace`` for so many fields takes as long as all
        else that is done to an instruction.
        """
        made = object.__new__(PtxInstruction)
        vars(made).update(vars(self), **fields)
        return made


@dataclass(frozen=True)
class PtxFunction:
    """A function or an entry.

    ``parameters`` of an entry are variables in param space, in the order of the launch's arguments. ``registers`` are
    those that the body declares and, of ranges, names (parameters in registers are not among them), ``variables`` all
    variables that it declares. ``body`` is flat: scopes are resolved, and its last item is a bra, brx, ret or exit
    without guard. It is None for a function that is declared only. ``bounds`` are an entry's.
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
        """What it takes and gives."""
        return Signature(self.results, self.parameters)


@dataclass(frozen=True)
class PtxModule:
    """A PTX file. ``variables`` are those of module scope; ``functions`` by name, in the order of the text.

    Those in local space belong to each thread, and all functions see them. ``refused`` are the entries that use
    textures, which there are none of, and what says so: they are not among the functions.
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
    """Where the parameters lie in a parameter block, each aligned as it wants, and the block's size in bytes."""
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
