"""Selection of video instructions, which the machine has as they are but for results in a register's bytes 1 and 3."""

from collections.abc import Sequence
from dataclasses import replace

from sim.toolchain.ptx.module import Instruction, Type

from .builder import Builder, handles
from .ir import RZ, Source, number

__all__: list[str] = []

_MERGES = {"": "", "b0": ".MRG_8B0", "b1": ".MRG_8B0", "b2": ".MRG_8B2", "b3": ".MRG_8B0", "h0": ".MRG_16L",
           "h1": ".MRG_16H"}
_PUT = {"b1": 0x3240, "b3": 0x4210}
"""Bytes of a register that no instruction merges into: the selector that puts a byte there."""
_SECOND = {"": "", "add": ".ACC", "min": ".MIN", "max": ".MAX"}
_SUFFIXES = {"": "", "b0": "", "h0": ""}
_WORD = 32


def _size(part: str) -> int:
    return {"": _WORD, "b": 8, "h": 16}[part[:1]]


def _types(kinds: Sequence[Type], i: Instruction, unspelled: str = ".S32.S32") -> str:
    """Both sources' types as modifiers."""
    text = "".join(f".{'S' if kind.signed else 'U'}{_size(part)}"
                   for kind, part in zip(kinds, i.parts[1:], strict=False))
    return "" if text == unspelled else text


def _sources(b: Builder, i: Instruction) -> list[Source]:
    return [replace(b.word(operand), part=_SUFFIXES.get(part, f".{part.upper()}"))
            for operand, part in zip(i.operands[1:3], i.parts[1:3], strict=True)]


def _finish(b: Builder, i: Instruction, name: str, sources: Sequence[Source], mods: str) -> None:
    """The instruction with its second operation."""
    part, (*_, third) = i.parts[0], (RZ, *map(b.word, i.operands[3:]))
    mods += _MERGES[part] + _SECOND[i.operation]
    if part in _PUT:
        byte = b.compute(name, *sources, RZ, mods=mods)
        b.op("PRMT", b.write(i.operands[0]), third, number(_PUT[part]), byte)
    else:
        b.op(name, b.write(i.operands[0]), *sources, third, mods=mods)


@handles("vadd", "vsub", "vmin", "vmax", "vabsdiff")
def _arithmetic(b: Builder, i: Instruction) -> None:
    x, y = _sources(b, i)
    signed, types = i.type.signed, _types(i.types[1:], i)
    if i.opcode == "vabsdiff":
        name, mods = "VABSDIFF", (".SD" if signed else "") + types
    else:
        name = "VMNMX" if i.opcode in ("vmin", "vmax") else "VADD"
        mods = ("" if signed else ".UD") + types + (".MX" if i.opcode == "vmax" else "")
    _finish(b, i, name, [x, y.negate() if i.opcode == "vsub" else y], mods + (".SAT" if i.saturate else ""))


@handles("vshl", "vshr")
def _shift(b: Builder, i: Instruction) -> None:
    mods = ("" if i.type.signed else ".UD") + _types(i.types[1:], i, ".S32.U32")
    _finish(b, i, i.opcode.upper(), _sources(b, i),
            mods + ("" if i.clamp else ".W") + (".SAT" if i.saturate else ""))


@handles("vset")
def _compare(b: Builder, i: Instruction) -> None:
    assert i.compare is not None
    _finish(b, i, "VSET", _sources(b, i), f".{i.compare.value.upper()}" + _types(i.types, i))


@handles("vmad")
def _multiply(b: Builder, i: Instruction) -> None:
    x, y = _sources(b, i)
    third = b.word(i.operands[3])
    mods = _types(i.types[1:], i) + (".PO" if i.plus_one else "") + (f".SHR_{i.scale}" if i.scale else "")
    b.op("VMAD", b.write(i.operands[0]), replace(x, negated=i.negated[1] != i.negated[2]), y,
         replace(third, negated=i.negated[3]), mods=mods + (".SAT" if i.saturate else ""))
