"""Kernel arguments in the syntax of the command line.

==========================  =============================================================
text                        argument
==========================  =============================================================
``u32:7`` ``s32:-1``        a number passed by value: decimal, or hexadecimal with 0x
``f32:-2.5e3``              a floating-point number, rounded to the nearest one; also inf and nan
``b32:0x3f800000``          bits, for a parameter of any type of that size
``buf:OUT=u32[256]``        a buffer of that many zeros; its address is passed
``buf:IN=@data.bin``        a buffer with the bytes of a file
``struct:ITEM,ITEM,...``    a structure passed by value, as C lays it out
``bytes:@FILE``             the bytes of a file passed by value
==========================  =============================================================

Types are u8 u16 u32 u64 s8 s16 s32 s64 f32 f64 b8 b16 b32 b64. The name of a buffer is what results call it.

An item of a structure is ``TYPE=NUMBER``, a buffer (``buf:NAME=...``), whose address is 8 bytes of it, or a structure
in it, ``struct(ITEM,...)``. Each is aligned to its size, a structure at that of its largest item's;
a structure's own size is a multiple of that, too.
"""

import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sim.launch import Argument, Buffer, Scalar, Structure
from sim.launch.parameters import ADDRESS_BYTES
from sim.support.command import CommandError
from sim.support.reading import why_unreadable

__all__ = ["ARGUMENT_FORMS", "TYPE_BYTES", "ArgumentError", "parse_argument", "parse_arguments"]

ARGUMENT_FORMS = (
    "u32:V s32:V u64:V f32:V b32:V buf:NAME=u32[COUNT] buf:NAME=@FILE "
    "struct:u64=V,f32=V,buf:NAME=...,... bytes:@FILE"
)
"""Examples of all forms, for a command's help."""
_FLOATS = {"f32": ("<f", np.float32), "f64": ("<d", np.float64)}
TYPE_BYTES = {
    **{f"{sign}{8 * size}": size for sign in "us" for size in (1, 2, 4, 8)},
    "f32": 4,
    "f64": 8,
    **{f"b{8 * size}": size for size in (1, 2, 4, 8)},
}
"""Types of numbers, and their bytes."""
_FLOAT = re.compile(r"[-+]?([0-9]+\.?[0-9]*([eE][-+]?[0-9]+)?|\.[0-9]+|inf|nan)")
_WHOLE = re.compile(r"-?(0[xX][0-9a-fA-F]+|[0-9]+)")
_SCALAR = re.compile(r"(?P<type>\w+)(?P<sign>[:=])(?P<value>.+)")
_BUFFER = re.compile(r"buf:(?P<name>[A-Za-z_]\w*)=(?P<what>.*)")
_ZEROS = re.compile(r"(?P<type>\w+)\[(?P<count>[0-9]+)\]")
_NESTED = re.compile(r"struct\((?P<items>.*)\)")
_STRUCTURE, _BYTES = "struct:", "bytes:@"
_MOST_BYTES = 1 << 30
"""The largest buffer that is made."""


class ArgumentError(CommandError):
    """An argument that can't be read: one line that says why."""


def _size(text: str, kind: str) -> int:
    if kind not in TYPE_BYTES:
        raise ArgumentError(
            f"argument {text!r}: unknown type {kind}; there are {' '.join(TYPE_BYTES)}"
        )
    return TYPE_BYTES[kind]


def _number(text: str, part: str, sign: str) -> Scalar | None:
    """The number that a part of an argument spells, with ``sign`` behind its type; None when it spells none."""
    match = _SCALAR.fullmatch(part)
    if match is None or match["sign"] != sign:
        return None
    kind, number = match["type"], match["value"]
    if kind.startswith("f") and _FLOAT.fullmatch(number):
        return _float(text, kind, number)
    return _whole(text, kind, number) if _WHOLE.fullmatch(number) else None


def _whole(text: str, kind: str, number: str) -> Scalar:
    size, value = (
        _size(text, kind),
        int(number, 0 if number.lstrip("-")[:2] in ("0x", "0X") else 10),
    )
    lowest, steps = (-1 << 8 * size - 1 if kind[0] == "s" else 0), 1 << 8 * size
    if not lowest <= value < lowest + steps:
        raise ArgumentError(f"argument {text!r}: {kind} holds {lowest} to {lowest + steps - 1}")
    return Scalar(value, size, kind)


def _float(text: str, kind: str, number: str) -> Scalar:
    size = _size(text, kind)
    pattern, rounded = _FLOATS[kind]
    with np.errstate(over="ignore"):
        value = rounded(float(number))
    return Scalar(int.from_bytes(struct.pack(pattern, value), "little"), size, kind)


def _zeros(text: str, name: str, kind: str, count: str) -> Buffer:
    length = _size(text, kind) * int(count)
    if not 0 < length <= _MOST_BYTES:
        raise ArgumentError(
            f"argument {text!r}: a buffer has 1 to {_MOST_BYTES} bytes, not {length}"
        )
    return Buffer(name, bytes(length), kind)


def _content(text: str, path: str) -> bytes:
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise ArgumentError(f"argument {text!r}: {why_unreadable(path, error)}") from error
    if not content:
        raise ArgumentError(f"argument {text!r}: {path} is empty")
    return content


def _buffer(text: str, part: str) -> Buffer | None:
    """The buffer that a part of an argument spells; None when it spells none."""
    match = _BUFFER.fullmatch(part)
    if match is None:
        return None
    if match["what"].startswith("@"):
        return Buffer(match["name"], _content(text, match["what"][1:]))
    zeros = _ZEROS.fullmatch(match["what"])
    return None if zeros is None else _zeros(text, match["name"], zeros["type"], zeros["count"])


@dataclass(frozen=True)
class _Item:
    """A piece of a structure."""

    content: bytes
    alignment: int
    buffers: tuple[tuple[int, Buffer], ...] = ()


def _pieces(text: str, items: str) -> Iterator[str]:
    """The parts between the commas outside of parentheses."""
    depth, begin = 0, 0
    for at, character in enumerate(items):
        depth += (character == "(") - (character == ")")
        if depth < 0:
            break
        if character == "," and not depth:
            yield items[begin:at]
            begin = at + 1
    if depth:
        raise ArgumentError(f"argument {text!r}: parentheses do not match")
    yield items[begin:]


def _item(text: str, part: str) -> _Item:
    """A piece of a structure."""
    if (nested := _NESTED.fullmatch(part)) is not None:
        return _laid_out(text, nested["items"])
    if (buffer := _buffer(text, part)) is not None:
        return _Item(bytes(ADDRESS_BYTES), ADDRESS_BYTES, ((0, buffer),))
    if (number := _number(text, part, "=")) is not None:
        content = (number.value & (1 << 8 * number.size) - 1).to_bytes(number.size, "little")
        return _Item(content, number.size)
    raise ArgumentError(
        f"argument {text!r}: {part!r} is neither TYPE=NUMBER nor buf:NAME=TYPE[COUNT] nor "
        "buf:NAME=@FILE nor struct(ITEM,...)"
    )


def _laid_out(text: str, items: str) -> _Item:
    """A structure as C lays it out."""
    content, alignment = b"", 1
    buffers: list[tuple[int, Buffer]] = []
    for part in _pieces(text, items):
        item = _item(text, part)
        content += bytes(-len(content) % item.alignment)
        buffers += [(len(content) + place, buffer) for place, buffer in item.buffers]
        content += item.content
        alignment = max(alignment, item.alignment)
    return _Item(content + bytes(-len(content) % alignment), alignment, tuple(buffers))


def parse_argument(text: str) -> Argument:
    """The argument that ``text`` spells; ArgumentError when it spells none."""
    if text.startswith(_BYTES):
        return Structure(_content(text, text.removeprefix(_BYTES)))
    if text.startswith(_STRUCTURE):
        whole = _laid_out(text, text.removeprefix(_STRUCTURE))
        return Structure(whole.content, whole.buffers)
    argument = _number(text, text, ":") or _buffer(text, text)
    if argument is None and _WHOLE.fullmatch(text):
        kind = "s32" if text.startswith("-") else "u32"
        raise ArgumentError(
            f"argument {text!r} has no type: {kind}:{text}, or another type of the kernel's parameter"
        )
    if argument is None and _FLOAT.fullmatch(text):
        raise ArgumentError(
            f"argument {text!r} has no type: f32:{text}, or another type of the kernel's parameter"
        )
    if argument is None:
        raise ArgumentError(
            f"argument {text!r} is neither TYPE:NUMBER nor buf:NAME=TYPE[COUNT] nor buf:NAME=@FILE nor "
            "struct:ITEM,... nor bytes:@FILE"
        )
    return argument


def parse_arguments(texts: Iterable[str]) -> list[Argument]:
    """All arguments in their order; ArgumentError also when two buffers have one name."""
    arguments: list[Argument] = []
    names: set[str] = set()
    for text in texts:
        argument = parse_argument(text)
        buffers = [argument] if isinstance(argument, Buffer) else []
        if isinstance(argument, Structure):
            buffers = [buffer for _, buffer in argument.buffers]
        for buffer in buffers:
            if buffer.name in names:
                raise ArgumentError(f"argument {text!r}: there is a buffer {buffer.name} already")
            names.add(buffer.name)
        arguments.append(argument)
    return arguments
