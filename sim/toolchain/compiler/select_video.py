"""Selection of video instructions, which the machine has as they are but for results in a register's bytes 1 and 3."""

from collections.abc import Sequence
from dataclasses import replace

from sim.toolchain.ptx.module import Instruction, Type

from .builder import Builder, handles
from .ir import RZ, Source, Value, number

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
    merges = bool(i.parts[0] or i.operation)
    *_, third = RZ, *(b.word(operand) for operand in i.operands[3:] if merges)
    _merged(b, b.write(i.operands[0]), i.parts[0], name, [*sources, third], mods, _SECOND[i.operation])


def _merged(b: Builder, result: list[Value | None], part: str, name: str, sources: Sequence[Source], mods: str,
            second: str = "") -> None:
    """The instruction, whose result goes to a part of the third source, or to all of a register."""
    mods += _MERGES[part] + second
    if part in _PUT:
        byte = b.compute(name, *sources[:2], RZ, mods=mods)
        b.op("PRMT", result, sources[2], number(_PUT[part]), byte)
    else:
        b.op(name, result, *sources, mods=mods)


@handles("vadd", "vsub", "vmin", "vmax", "vabsdiff")
def _arithmetic(b: Builder, i: Instruction) -> None:
    x, y = _sources(b, i)
    name, mods = _operation(i, i.opcode, _types(i.types[1:], i))
    _finish(b, i, name, [x, y.negate() if i.opcode == "vsub" else y], mods)


def _operation(i: Instruction, opcode: str, types: str) -> tuple[str, str]:
    """The instruction of the machine, with the types of its sources."""
    signed, saturates = i.type.signed, ".SAT" if i.saturate else ""
    if opcode == "vset":
        assert i.compare is not None
        return "VSET", f".{i.compare.value.upper()}{types}"
    if opcode == "vabsdiff":
        return "VABSDIFF", (".SD" if signed else "") + types + saturates
    name = "VMNMX" if opcode in ("vmin", "vmax") else "VADD"
    return name, ("" if signed else ".UD") + types + (".MX" if opcode == "vmax" else "") + saturates


_SEVERAL = ("vadd", "vsub", "vmin", "vmax", "vabsdiff", "vset", "vavrg")


@handles(*(f"{opcode}{count}" for opcode in _SEVERAL for count in "24"))
def _several(b: Builder, i: Instruction) -> None:
    """A result after the other goes into its part of the third number, or is added to it; all distances of bytes are
    one instruction, where they are plain."""
    opcode, count, (into, *selected, _), kinds = i.opcode[:-1], int(i.opcode[-1]), i.parts, i.types[-2:]
    words = [b.compute("MOV", word) if isinstance(word.what, int) else word for word in map(b.word, i.operands[1:3])]
    third, signs = b.word(i.operands[3]), "".join(f".{'S' if kind.signed else 'U'}{_WORD // count}" for kind in kinds)
    if (opcode == "vabsdiff" and i.parts[:3] == ("b3210", "b3210", "b7654")
            and not i.saturate and not i.type.signed):
        b.op("VABSDIFF4", b.write(i.operands[0]), *words, third,
             mods=("" if signs == ".S8.S8" else signs) + (".ACC" if i.operation else ""))
        return
    places = sorted(int(digit) for digit in into[1:])
    for place in places:
        part = f"{into[0]}{place}"
        parts = [f"{into[0]}{int(at) % count}" for at in (digits[count - place] for digits in selected)]
        x, y = (replace(words[int(digits[count - place]) >= count], part=_SUFFIXES.get(of, f".{of.upper()}"))
                for digits, of in zip(selected, parts, strict=True))
        types, name = signs, opcode
        if opcode == "vavrg":
            # One more where the sum is not negative, then half of it.
            total = b.compute("VADD", x, y, RZ, mods=signs)
            x = b.compute("SHR", b.compute("IADD3", total, number(1), b.compute("SHR", total, number(31))), number(1))
            y, types, name = RZ, "", "vadd"
        name, mods = _operation(i, name, types)
        held: list[Value | None] = b.write(i.operands[0]) if place == places[-1] else [b.temporary()]
        _merged(b, held, "" if i.operation else part, name, [x, y.negate() if opcode == "vsub" else y, third], mods,
                _SECOND[i.operation])
        if held[0] is not None:
            third = Source(held[0])


@handles("vshl", "vshr")
def _shift(b: Builder, i: Instruction) -> None:
    mods = ("" if i.type.signed else ".UD") + _types(i.types[1:], i, ".S32.U32")
    _finish(b, i, i.opcode.upper(), _sources(b, i),
            mods + ("" if i.clamp else ".W") + (".SAT" if i.saturate else ""))


@handles("vset")
def _compare(b: Builder, i: Instruction) -> None:
    name, mods = _operation(i, "vset", _types(i.types, i))
    _finish(b, i, name, _sources(b, i), mods)


@handles("vmad")
def _multiply(b: Builder, i: Instruction) -> None:
    x, y = _sources(b, i)
    third = b.word(i.operands[3])
    mods = _types(i.types[1:], i) + (".PO" if i.plus_one else "") + (f".SHR_{i.scale}" if i.scale else "")
    b.op("VMAD", b.write(i.operands[0]), replace(x, negated=i.negated[1] != i.negated[2]), y,
         replace(third, negated=i.negated[3]), mods=mods + (".SAT" if i.saturate else ""))
