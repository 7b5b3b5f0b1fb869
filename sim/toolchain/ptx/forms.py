"""The instructions: which modifiers each has, in which order, and what its operands are.

The table's rows are opcodes, modifiers, operands. A modifier ``field:a/b`` is one of these words and goes into that
field of :class:`~sim.toolchain.ptx.module.PtxInstruction` (``types`` gathers them, ``-`` means nothing); with ``?``
behind the field it may be missing. Modifiers may stand in any order, as NVIDIA's assembler takes them, but types keep
theirs, and those with ``^`` before the field follow the opcode. Operands, in written order:

============ ==================================================================================================
``>T``       a register for a result of type T; ``>T~``: or a wider one; ``>T_``: or ``_``
``<T``       a register or number of type T; ``<T~``: or a wider register; ``<T!``: negated perhaps
``<=T``      a register of type T; ``<=a``: one that has an address, of 32 or 64 bits
``>|T``      a register of type T, and perhaps a predicate behind ``|``: two operands
``>*`` ``<*``  what ld and st move: a register, or a vector of as many as the modifier says
``[]``       an address
``M>`` ``M<``  what mov writes and reads
``&T``       a register, or the address of a variable, of type T
``#N``       a number below N
``>T.`` ``<T.``  a register, and perhaps which part of it: ``.b0`` to ``.b3``, ``.h0``, ``.h1``; ``<T-`` ``<T-.``:
             negated perhaps; ``<T?``: may be missing
``>T%`` ``<T%``  a register, and perhaps which of its parts, or of those of two: ``.b31``, ``.h10``, ``.b7654``
``barrier``  the number of a barrier; ``threads?``: how many it counts, which may be missing: then a Sink takes its
             place, unless it is the last
============ ==================================================================================================

T is a type, ``0``, ``1`` or ``2`` for the instruction's first, second or third, ``w`` for the one twice as wide as the
first. Instructions whose operands are of another kind have a word there that :mod:`~sim.toolchain.ptx.control` knows.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

__all__ = [
    "BANKS_UNTIL",
    "FIRST_BANK",
    "Dialect",
    "InstructionForm",
    "ModifierItem",
    "flushing_opcodes",
    "forms",
    "opcodes",
    "reason_refused",
]

_CLASSES = {
    "INTEGER": "u16/u32/u64/s16/s32/s64",
    "NARROW": "u16/u32/s16/s32",
    "WORDS": "u32/u64/s32/s64",
    "WORD": "u32/s32",
    "SIGNED": "s16/s32/s64",
    "BITS": "b16/b32/b64",
    "WIDE": "b32/b64",
    "VALUES": "b16/b32/b64/u16/u32/u64/s16/s32/s64",
    "BYTES": "u8/u16/u32/u64/s8/s16/s32/s64",
    "ANY": "b8/b16/b32/b64/u8/u16/u32/u64/s8/s16/s32/s64/f32/f64",
    "DIRECTIONS": "rn/rz/rm/rp",
    "WHOLE": "rni/rzi/rmi/rpi",
    "REALS": "f32/f64",
    "RELATIONS": "eq/ne/lt/le/gt/ge/equ/neu/ltu/leu/gtu/geu/num/nan",
}
"""Names for sets of types."""

_TABLE = """
add sub         | types:INTEGER                                           | >0 <0 <0
add sub mul     | rounding?:DIRECTIONS flush?:ftz saturate?:sat types:f32 | >0 <0 <0
add sub mul     | rounding?:DIRECTIONS types:f64                          | >0 <0 <0
fma mad         | rounding:DIRECTIONS flush?:ftz saturate?:sat types:f32  | >0 <0 <0 <0
fma mad         | rounding:DIRECTIONS types:f64                           | >0 <0 <0 <0
div             | approximation:approx/full flush?:ftz types:f32          | >0 <0 <0
div             | rounding:DIRECTIONS flush?:ftz types:f32                | >0 <0 <0
div             | rounding:DIRECTIONS types:f64                           | >0 <0 <0
rcp sqrt        | rounding:DIRECTIONS flush?:ftz types:f32                | >0 <0
rcp sqrt        | rounding:DIRECTIONS types:f64                           | >0 <0
rcp sqrt rsqrt sin cos lg2 ex2 | approximation:approx flush?:ftz types:f32 | >0 <0
rcp rsqrt       | approximation:approx flush:ftz types:f64                | >0 <0
rsqrt           | approximation:approx types:f64                          | >0 <0
min max         | flush?:ftz types:f32                                    | >0 <0 <0
min max         | types:f64                                               | >0 <0 <0
abs neg         | flush?:ftz types:f32                                    | >0 <0
abs neg         | types:f64                                               | >0 <0
copysign        | types:REALS                                             | >0 <0 <0
testp           | operation:finite/infinite/number/notanumber/normal/subnormal types:REALS | >pred <0
add sub         | saturate:sat types:s32                                  | >0 <0 <0
add sub         | carry_out:cc types:WORDS                                | >0 <0 <0
addc subc       | carry_out?:cc types:WORDS                               | >0 <0 <0
mul             | ^half:lo/hi types:INTEGER                                | >0 <0 <0
mul             | ^half:wide types:NARROW                                  | >w <0 <0
mad             | ^half:lo/hi types:INTEGER                                | >0 <0 <0 <0
mad             | ^half:wide types:NARROW                                  | >w <0 <0 <w
mad             | ^half:lo/hi carry_out:cc types:WORDS                     | >0 <0 <0 <0
mad             | ^half:hi saturate:sat types:s32                          | >0 <0 <0 <0
madc            | ^half:lo/hi carry_out?:cc types:WORDS                    | >0 <0 <0 <0
mul24           | ^half:lo/hi types:u32/s32                                | >0 <0 <0
mad24           | ^half:lo/hi types:u32/s32                                | >0 <0 <0 <0
mad24           | ^half:hi saturate:sat types:s32                          | >0 <0 <0 <0
sad             | types:INTEGER                                           | >0 <0 <0 <0
div rem min max | types:INTEGER                                           | >0 <0 <0
abs neg         | types:SIGNED                                            | >0 <0
vadd vsub vabsdiff vmin vmax | types:WORD types:WORD types:WORD saturate?:sat | >0. <1. <2. <0?
vadd vsub vabsdiff vmin vmax | types:WORD types:WORD types:WORD saturate?:sat operation:add/min/max | >0 <1. <2. <0
SEVERAL         | types:WORD types:WORD types:WORD saturate?:sat | >0% <1% <2% <0
SEVERAL         | types:WORD types:WORD types:WORD operation:add | >0% <1% <2% <0
vset2 vset4     | types:WORD types:WORD compare:eq/ne/lt/le/gt/ge | >u32% <0% <1% <u32
vset2 vset4     | types:WORD types:WORD compare:eq/ne/lt/le/gt/ge operation:add | >u32% <0% <1% <u32
vshl vshr       | types:WORD types:WORD types:u32 saturate?:sat clamp:clamp/wrap | >0. <1. <2. <0?
vshl vshr       | types:WORD types:WORD types:u32 saturate?:sat clamp:clamp/wrap operation:add/min/max | >0 <1. <2. <0
vset            | types:WORD types:WORD compare:eq/ne/lt/le/gt/ge         | >u32. <0. <1. <u32?
vset            | types:WORD types:WORD compare:eq/ne/lt/le/gt/ge operation:add/min/max | >u32 <0. <1. <u32
vmad            | types:WORD types:WORD types:WORD saturate?:sat scale?:shr7/shr15 | >0 <1-. <2-. <0-
vmad            | types:WORD types:WORD types:WORD plus_one:po saturate?:sat scale?:shr7/shr15 | >0 <1. <2. <0
popc clz        | types:WIDE                                              | >u32 <0
bfind           | operation?:shiftamt types:WORDS                         | >u32 <0
brev            | types:WIDE                                              | >0 <0
bfe             | types:WORDS                                             | >0 <0 <u32 <u32
bfi             | types:WIDE                                              | >0 <0 <0 <u32 <u32
and or xor      | types:pred/BITS                                         | >0 <0! <0!
not             | types:pred/BITS                                         | >0 <0
cnot            | types:BITS                                              | >0 <0
lop3            | types:b32                                               | >0 <0 <0 <0 #256
shl             | types:BITS                                              | >0 <0 <u32
shr             | types:VALUES                                            | >0 <0 <u32
shf             | ^operation:l/r clamp:clamp/wrap types:b32                | >0 <0 <0 <u32
prmt            | types:b32 operation?:f4e/b4e/rc8/ecl/ecr/rc16           | >0 <0 <0 <u32
setp            | compare:eq/ne types:BITS                                | >|pred <0 <0
setp            | compare:eq/ne/lt/le/gt/ge types:INTEGER                 | >|pred <0 <0
setp            | compare:lo/ls/hi/hs types:u16/u32/u64                   | >|pred <0 <0
setp            | compare:eq/ne combine:and/or/xor types:BITS             | >|pred <0 <0 <pred!
setp            | compare:eq/ne/lt/le/gt/ge combine:and/or/xor types:INTEGER | >|pred <0 <0 <pred!
setp            | compare:lo/ls/hi/hs combine:and/or/xor types:u16/u32/u64   | >|pred <0 <0 <pred!
set             | compare:eq/ne types:u32/s32/f32 types:BITS                  | >0 <1 <1
set             | compare:eq/ne/lt/le/gt/ge types:u32/s32/f32 types:INTEGER   | >0 <1 <1
set             | compare:lo/ls/hi/hs types:u32/s32/f32 types:u16/u32/u64     | >0 <1 <1
set             | compare:eq/ne combine:and/or/xor types:u32/s32/f32 types:BITS | >0 <1 <1 <pred!
set             | compare:eq/ne/lt/le/gt/ge combine:and/or/xor types:u32/s32/f32 types:INTEGER | >0 <1 <1 <pred!
set             | compare:lo/ls/hi/hs combine:and/or/xor types:u32/s32/f32 types:u16/u32/u64   | >0 <1 <1 <pred!
setp            | compare:RELATIONS flush?:ftz types:f32                  | >|pred <0 <0
setp            | compare:RELATIONS types:f64                             | >|pred <0 <0
setp            | compare:RELATIONS combine:and/or/xor flush?:ftz types:f32 | >|pred <0 <0 <pred!
setp            | compare:RELATIONS combine:and/or/xor types:f64          | >|pred <0 <0 <pred!
set             | compare:RELATIONS flush?:ftz types:u32/s32/f32 types:f32 | >0 <1 <1
set             | compare:RELATIONS types:u32/s32/f32 types:f64           | >0 <1 <1
set             | compare:RELATIONS combine:and/or/xor flush?:ftz types:u32/s32/f32 types:f32 | >0 <1 <1 <pred!
set             | compare:RELATIONS combine:and/or/xor types:u32/s32/f32 types:f64 | >0 <1 <1 <pred!
selp            | types:VALUES/REALS                                      | >0 <0 <0 <pred!
slct            | types:VALUES/REALS types:s32                            | >0 <0 <0 <1
slct            | flush?:ftz types:VALUES/REALS types:f32                 | >0 <0 <0 <1
cvt             | saturate?:sat types:BYTES types:BYTES                   | >0~ <1~
cvt             | rounding:DIRECTIONS flush?:ftz saturate?:sat types:f32 types:BYTES/f64 | >0 <1~
cvt             | rounding:DIRECTIONS saturate?:sat types:f64 types:BYTES | >0 <1~
cvt             | rounding:WHOLE flush?:ftz saturate?:sat types:BYTES types:f32 | >0~ <1
cvt             | rounding:WHOLE saturate?:sat types:BYTES types:f64      | >0~ <1
cvt             | rounding?:WHOLE flush?:ftz saturate?:sat types:f32 types:f32 | >0 <1
cvt             | rounding?:WHOLE saturate?:sat types:f64 types:f64       | >0 <1
cvt             | flush?:ftz saturate?:sat types:f64 types:f32            | >0 <1
cvt             | rounding:DIRECTIONS flush?:ftz saturate?:sat types:f16 types:f32 | >0 <=1
cvt             | rounding:DIRECTIONS saturate?:sat types:f16 types:BYTES | >0 <1~
cvt             | rounding:DIRECTIONS saturate?:sat types:f16 types:f64   | >0 <=1
cvt             | flush?:ftz saturate?:sat types:f32 types:f16            | >0 <=1
cvt             | saturate?:sat types:f64 types:f16                       | >0 <=1
cvt             | rounding:WHOLE saturate?:sat types:BYTES types:f16      | >0~ <=1
cvt             | rounding?:WHOLE saturate?:sat types:f16 types:f16       | >0 <=1
cvta            | ^to?:to space:const/global/local/shared types:u32/u64          | >0 &0
isspacep        | space:const/global/local/shared                         | >pred <=a
mov             | types:pred                                              | M> M<
mov             | vector?:v2/v4 types:VALUES/REALS                        | M> M<
ld              | space?:const/global/local/param/shared cache?:ca/cg/cs/lu/cv vector?:v2/v4 types:ANY | >* []
ld              | space:global cache:nc vector?:v2/v4 types:ANY           | >* []
ld              | space:global -:ca/cg/cs cache:nc vector?:v2/v4 types:ANY | >* []
ld              | volatile:volatile space?:const/global/local/param/shared vector?:v2/v4 types:ANY | >* []
ldu             | space?:global vector?:v2/v4 types:ANY                   | >* []
st              | space?:global/local/param/shared cache?:wb/cg/cs/wt vector?:v2/v4 types:ANY | [] <*
st              | volatile:volatile space?:global/local/param/shared vector?:v2/v4 types:ANY | [] <*
prefetch        | space?:global/local operation:L1/L2                     | []
prefetchu       | operation:L1                                            | []
atom            | space?:global/shared operation:add types:u32/s32/u64    | >0_ [] <0
atom            | space?:global/shared operation:add types:f32            | >0_ [] <0
atom            | space?:global/shared operation:min/max types:WORDS      | >0_ [] <0
atom            | space?:global/shared operation:and/or/xor/exch types:WIDE | >0_ [] <0
atom            | space?:global/shared operation:inc/dec types:u32        | >0_ [] <0
atom            | space?:global/shared operation:cas types:WIDE           | >0_ [] <0 <0
red             | space?:global/shared operation:add types:u32/s32/u64    | [] <0
red             | space?:global/shared operation:add types:f32            | [] <0
red             | space?:global/shared operation:min/max types:WORDS      | [] <0
red             | space?:global/shared operation:and/or/xor types:WIDE    | [] <0
red             | space?:global/shared operation:inc/dec types:u32        | [] <0
bar barrier     | ^-?:cta operation:sync -?:aligned                        | barrier threads?
bar barrier     | ^-?:cta ^operation:arrive -?:aligned                      | barrier threads
bar barrier     | ^-?:cta ^operation:red reduction:popc -?:aligned types:u32 | >0 barrier threads? <pred!
bar barrier     | ^-?:cta ^operation:red reduction:and/or -?:aligned types:pred | >0 barrier threads? <pred!
bar             | ^operation:warp -:sync                                   | <b32
membar          | scope:cta/gl/sys                                        |
vote            | operation:all/any/uni types:pred                        | >0 <0!
vote            | operation:ballot types:b32                              | >0 <pred!
vote            | sync:sync operation:all/any/uni types:pred              | >0 <0! <b32
vote            | sync:sync operation:ballot types:b32                    | >0 <pred! <b32
shfl            | operation:up/down/bfly/idx types:b32                    | >|0 <0 <u32 <u32
shfl            | sync:sync operation:up/down/bfly/idx types:b32          | >|0 <0 <u32 <u32 <b32
activemask      | types:b32                                               | >0
fns             | types:b32                                               | >0 <0 <u32 <s32
pmevent         |                                                         | #16
pmevent         | operation:mask                                          | #65536
bra             | uniform?:uni                                            | bra
brx             | ^-:idx uniform?:uni                                      | brx
call            | uniform?:uni                                            | call
ret             | uniform?:uni                                            |
exit            |                                                         |
trap            |                                                         |
brkpt           |                                                         |
"""

_SEVERAL = " ".join(
    f"v{name}{count}" for count in "24" for name in ("add", "sub", "avrg", "absdiff", "min", "max")
)
"""Arithmetic on two halves, or four bytes, at once."""
_READ_AS = {"barrier": "bar"}
"""Opcodes that are only another spelling."""

_OLD = """
1.4 |    | div                            | types:f32 | approximation:approx flush:ftz | >0 <0 <0
1.4 |    | rcp sqrt rsqrt sin cos lg2 ex2 | types:f32 | approximation:approx flush:ftz | >0 <0
1.4 |    | div                            | types:f64 | rounding:rn                    | >0 <0 <0
1.4 |    | rcp sqrt                       | types:f64 | rounding:rn                    | >0 <0
1.4 |    | rsqrt                          | types:f64 | approximation:approx           | >0 <0
1.4 |    | mad                            | types:f64 | rounding:rn                    | >0 <0 <0 <0
3.2 | 20 | mad | flush?:ftz saturate?:sat types:f32   | rounding:rn                    | >0 <0 <0 <0
"""
"""Forms of older texts: the first version of PTX that has them no more, the first target that never had them, their
modifiers, what is meant where these are all. mad in single precision is what a machine from sm_20 on makes of it: one
fused operation."""

FIRST_BANK, BANKS_UNTIL = "const[0]", (2, 2)
"""What const space was called, too, before a version of PTX; other banks were filled by drivers."""

_SHORT = ("bf16", "bf16x2", "e4m3x2", "e5m2x2", "rna", "tf32")
"""Modifiers of formats of less than 32 bits, and their roundings."""


@dataclass(frozen=True)
class ModifierItem:
    """A place for a modifier: ``words`` may stand there, ``field`` takes it (empty: none does). With ``first``
    it goes before all that are without.
    """

    field: str
    words: tuple[str, ...]
    optional: bool
    first: bool = False


@dataclass(frozen=True)
class InstructionForm:
    """One way to write an instruction. ``implied`` are modifiers, by field, that the text leaves out."""

    opcode: str
    modifiers: tuple[ModifierItem, ...]
    operands: tuple[str, ...]
    implied: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Dialect:
    """Which PTX a text is: its version, and the number of its target, 13 for sm_13."""

    version: tuple[int, int]
    target: int


def _item(text: str) -> ModifierItem:
    field, _, words = text.partition(":")
    spelled = [word for name in words.split("/") for word in _CLASSES.get(name, name).split("/")]
    plain = field.rstrip("?").removeprefix("^").removeprefix("-")
    return ModifierItem(plain, tuple(spelled), field.endswith("?"), field.startswith("^"))


@cache
def _all() -> Mapping[str, tuple[InstructionForm, ...]]:
    found: dict[str, tuple[InstructionForm, ...]] = {}
    for line in _TABLE.strip().splitlines():
        names, modifiers, operands = line.split("|", 2)
        items = tuple(_item(text) for text in modifiers.split())
        for name in names.replace("SEVERAL", _SEVERAL).split():
            form = InstructionForm(_READ_AS.get(name, name), items, tuple(operands.split()))
            found[name] = (*found.get(name, ()), form)
    return found


def opcodes() -> Iterable[str]:
    """All opcodes, as they are written."""
    return _all().keys()


@cache
def flushing_opcodes() -> frozenset[str]:
    """The opcodes that can flush subnormal numbers."""
    return frozenset(
        form.opcode
        for written in _all().values()
        for form in written
        if any(item.field == "flush" for item in form.modifiers)
    )


@cache
def forms(opcode: str, dialect: Dialect) -> tuple[InstructionForm, ...]:
    """The ways to write an instruction; none where there is no such instruction."""
    found = list(_all().get(opcode, ()))
    for line in _OLD.strip().splitlines():
        until, target, names, modifiers, implied, operands = (
            column.strip() for column in line.split("|")
        )
        if opcode not in names.split():
            continue
        last = tuple(map(int, until.split(".")))
        if dialect.version < last or (target and dialect.target < int(target)):
            meant = tuple((item.field, item.words[0]) for item in map(_item, implied.split()))
            found.append(
                InstructionForm(
                    opcode, tuple(map(_item, modifiers.split())), tuple(operands.split()), meant
                )
            )
    return tuple(found)


def reason_refused(word: str) -> str | None:
    """Why a type that PTX has is not known here; None where no reason is known."""
    if word in _SHORT:
        return "floating point of less than 32 bits is not supported"
    if word == "f16x2":
        return "needs sm_53, and this machine is sm_50"
    return None
