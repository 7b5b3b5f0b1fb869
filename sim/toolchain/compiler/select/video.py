"""Selection of video instructions. The machine has all of them, except for results in bytes 1 and 3
of a register.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rtl.isa.fields import PLUS_ONE
from rtl.isa.kinds import Compare, VideoScale, VideoSecond
from sim.toolchain.compiler.ir import RZ, RegisterPart, Source, Value, number
from sim.toolchain.compiler.opcodes import FieldValue, value_of
from sim.toolchain.ptx.module import PtxInstruction, PtxLanes, PtxSubword, Type

from .builder import Builder, handles

__all__: list[str] = []

_MERGES = {
    PtxSubword.B0: VideoSecond.MRG_8B0,
    PtxSubword.B1: VideoSecond.MRG_8B0,
    PtxSubword.B2: VideoSecond.MRG_8B2,
    PtxSubword.B3: VideoSecond.MRG_8B0,
    PtxSubword.H0: VideoSecond.MRG_16L,
    PtxSubword.H1: VideoSecond.MRG_16H,
}
_PUT = {PtxSubword.B1: 0x3240, PtxSubword.B3: 0x4210}
"""The PRMT selectors for bytes of a register that no video instruction merges into."""
_SECOND = {"add": VideoSecond.ACC, "min": VideoSecond.MIN, "max": VideoSecond.MAX}
_PARTS = {
    PtxSubword.B1: RegisterPart.B1,
    PtxSubword.B2: RegisterPart.B2,
    PtxSubword.B3: RegisterPart.B3,
    PtxSubword.H1: RegisterPart.H1,
}
"""The register parts that are not the lowest of their size."""
_WORD = 32
_PLAIN_BYTES = PtxLanes(4, written=(0, 1, 2, 3), a=(0, 1, 2, 3), b=(4, 5, 6, 7))
"""The lane selection that pairs each byte of a with the same byte of b."""
_UNSPELLED = {"VSHL": ".S32.U32", "VSHR": ".S32.U32"}
"""The pair of source types that is the default, for instructions where that is not two signed
words.
"""
_NAMES = {
    "vadd": "VADD",
    "vsub": "VADD",
    "vavrg": "VADD",
    "vmin": "VMNMX",
    "vmax": "VMNMX",
    "vabsdiff": "VABSDIFF",
    "vset": "VSET",
}
"""The machine instruction of each PTX opcode."""


def _types(name: str, kinds: Sequence[Type], i: PtxInstruction) -> FieldValue:
    """Returns the types of both sources as a field value."""
    sizes = [part.bits if part is not None else _WORD for part in i.subwords[1:3]]
    return _pair(name, [*zip(kinds, sizes, strict=True)])


def _pair(name: str, types: Sequence[tuple[Type, int]]) -> FieldValue:
    """Returns the field value for the types of both sources, each a type and its bits."""
    text = "".join(f".{'S' if kind.signed else 'U'}{bits}" for kind, bits in types)
    return value_of(name, "types", "" if text == _UNSPELLED.get(name, ".S32.S32") else text)


def _sources(b: Builder, i: PtxInstruction) -> list[Source]:
    return [
        replace(b.word(operand), part=_PARTS.get(part) if part is not None else None)
        for operand, part in zip(i.operands[1:3], i.subwords[1:3], strict=True)
    ]


def _finish(
    b: Builder, i: PtxInstruction, name: str, sources: Sequence[Source], fields: dict[str, Any]
) -> None:
    """Adds the instruction with its secondary operation."""
    into = i.subwords[0]
    merges = into is not None or bool(i.operation)
    *_, third = RZ, *(b.word(operand) for operand in i.operands[3:] if merges)
    _merged(
        b,
        b.write(i.operands[0]),
        into,
        name,
        [*sources, third],
        fields,
        _SECOND.get(i.operation),
    )


def _merged(
    b: Builder,
    result: list[Value | None],
    part: PtxSubword | None,
    name: str,
    sources: Sequence[Source],
    fields: dict[str, Any],
    second: VideoSecond | None = None,
) -> None:
    """Adds the instruction; its result is merged into a part of the third source, or is the whole
    register.
    """
    then = second or (_MERGES[part] if part is not None else None)
    more = fields if then is None else {**fields, "then": then}
    if part in _PUT:
        byte = b.compute(name, *sources[:2], RZ, **more)
        b.op("PRMT", result, sources[2], number(_PUT[part]), byte)
    else:
        b.op(name, result, *sources, **more)


@handles("vadd", "vsub", "vmin", "vmax", "vabsdiff")
def _arithmetic(b: Builder, i: PtxInstruction) -> None:
    x, y = _sources(b, i)
    name = _NAMES[i.opcode]
    fields = _fields(i, i.opcode, _types(name, i.types[1:], i))
    _finish(b, i, name, [x, y.negate() if i.opcode == "vsub" else y], fields)


def _fields(i: PtxInstruction, opcode: str, types: FieldValue) -> dict[str, Any]:
    """Returns the fields of the machine instruction, with the types of its sources."""
    if opcode == "vset":
        assert i.compare is not None
        return {"compare": Compare[i.compare.name], "types": types}
    found: dict[str, Any] = {"signed_d": i.type.signed, "types": types, "saturate": i.saturate}
    if opcode in ("vmin", "vmax"):
        found["larger"] = opcode == "vmax"
    return found


_SEVERAL = ("vadd", "vsub", "vmin", "vmax", "vabsdiff", "vset", "vavrg")


@handles(*(f"{opcode}{count}" for opcode in _SEVERAL for count in "24"))
def _several(b: Builder, i: PtxInstruction) -> None:
    """Selects a SIMD video instruction: the result of each lane is merged into the third source, or
    added to it. An absolute difference of all bytes in order is one VABSDIFF4.
    """
    opcode, lanes, kinds = i.opcode[:-1], i.lanes, i.types[-2:]
    assert lanes is not None
    words = [
        b.compute("MOV", word) if isinstance(word.operand, int) else word
        for word in map(b.word, i.operands[1:3])
    ]
    third, pairs = b.word(i.operands[3]), [(kind, _WORD // lanes.count) for kind in kinds]
    if opcode == "vabsdiff" and lanes == _PLAIN_BYTES and not i.saturate and not i.type.signed:
        b.op(
            "VABSDIFF4",
            b.write(i.operands[0]),
            *words,
            third,
            signs=sum(kind.signed << at for at, kind in enumerate(kinds)),
            reduce=bool(i.operation),
        )
        return
    for lane in lanes.written:
        x, y = (
            replace(
                words[number // lanes.count],
                part=_PARTS.get(lanes.subword(number % lanes.count)),
            )
            for number in (lanes.a[lane], lanes.b[lane])
        )
        name, opcode_now = _NAMES[opcode], opcode
        types = _pair(name, pairs)
        if opcode == "vavrg":
            # Adds one if the sum is not negative, then halves it.
            total = b.compute("VADD", x, y, RZ, types=types)
            x = b.compute(
                "SHR",
                b.compute("IADD3", total, number(1), b.compute("SHR", total, number(31))),
                number(1),
            )
            y, opcode_now = RZ, "vadd"
            types = value_of(name, "types", "")
        held: list[Value | None] = (
            b.write(i.operands[0]) if lane == lanes.written[-1] else [b.temporary()]
        )
        _merged(
            b,
            held,
            None if i.operation else lanes.subword(lane),
            name,
            [x, y.negate() if opcode == "vsub" else y, third],
            _fields(i, opcode_now, types),
            _SECOND.get(i.operation),
        )
        if held[0] is not None:
            third = Source(held[0])


@handles("vshl", "vshr")
def _shift(b: Builder, i: PtxInstruction) -> None:
    name = i.opcode.upper()
    _finish(
        b,
        i,
        name,
        _sources(b, i),
        {
            "signed_d": i.type.signed,
            "types": _types(name, i.types[1:], i),
            "wrap": not i.clamp,
            "saturate": i.saturate,
        },
    )


@handles("vset")
def _compare(b: Builder, i: PtxInstruction) -> None:
    _finish(b, i, "VSET", _sources(b, i), _fields(i, "vset", _types("VSET", i.types, i)))


@handles("vmad")
def _multiply(b: Builder, i: PtxInstruction) -> None:
    x, y = _sources(b, i)
    third = b.word(i.operands[3])
    b.op(
        "VMAD",
        b.write(i.operands[0]),
        replace(x, negated=i.negated[1] != i.negated[2]),
        y,
        replace(third, negated=i.negated[3]),
        types=_types("VMAD", i.types[1:], i),
        plus_one=PLUS_ONE if i.plus_one else 0,
        saturate=i.saturate,
        scale=VideoScale[f"SHR_{i.scale}"] if i.scale else VideoScale.NONE,
    )
