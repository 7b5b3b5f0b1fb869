"""Selection of video instructions, which the machine has as they are but for results in a register's bytes 1 and 3."""

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
"""Bytes of a register that no instruction merges into: the selector that puts a byte there."""
_SECOND = {"add": VideoSecond.ACC, "min": VideoSecond.MIN, "max": VideoSecond.MAX}
_PARTS = {
    PtxSubword.B1: RegisterPart.B1,
    PtxSubword.B2: RegisterPart.B2,
    PtxSubword.B3: RegisterPart.B3,
    PtxSubword.H1: RegisterPart.H1,
}
"""The parts of a register that are not the lowest ones of their size."""
_WORD = 32
_PLAIN_BYTES = PtxLanes(4, written=(0, 1, 2, 3), a=(0, 1, 2, 3), b=(4, 5, 6, 7))
"""Each byte of a with that of b at the same place."""
_UNSPELLED = {"VSHL": ".S32.U32", "VSHR": ".S32.U32"}
"""The pair of types that has no spelling, where it is not that of signed words."""
_NAMES = {
    "vadd": "VADD",
    "vsub": "VADD",
    "vavrg": "VADD",
    "vmin": "VMNMX",
    "vmax": "VMNMX",
    "vabsdiff": "VABSDIFF",
    "vset": "VSET",
}
"""The machine's instructions."""


def _types(name: str, kinds: Sequence[Type], i: PtxInstruction) -> FieldValue:
    """Both sources' types as an instruction has them."""
    sizes = [part.bits if part is not None else _WORD for part in i.subwords[1:3]]
    return _pair(name, [*zip(kinds, sizes, strict=True)])


def _pair(name: str, types: Sequence[tuple[Type, int]]) -> FieldValue:
    """The types of both sources, each a sign and bits."""
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
    """The instruction with its second operation."""
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
    """The instruction, whose result goes to a part of the third source, or to all of a register."""
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
    """The fields of the machine's instruction, with the types of its sources."""
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
    """A result after the other goes into its part of the third number, or is added to it; all distances of bytes are
    one instruction, where they are plain."""
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
            # One more where the sum is not negative, then half of it.
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
