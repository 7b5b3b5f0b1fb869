"""Kernel arguments in the syntax of the command line.

==========================  =============================================================
text                        argument
==========================  =============================================================
``u32:7`` ``s32:-1``        a number passed by value: decimal, or hexadecimal with 0x
``f32:-2.5e3``              a floating-point number, rounded to nearest; also inf and nan
``b32:0x3f800000``          bits, for a parameter of any type of that size
``buf:OUT=u32[256]``        a buffer of that many zeros; its address is passed
``buf:IN=f32@data.bin``     a buffer with the bytes of a file, numbers of that type
``buf:IN=@data.bin``        a buffer with the bytes of a file, of which no type is known
``struct:ITEM,ITEM,...``    a structure passed by value, as C lays it out
``bytes:@FILE``             the bytes of a file passed by value
==========================  =============================================================

Types are u8 u16 u32 u64 s8 s16 s32 s64 f32 f64 b8 b16 b32 b64. Results refer to a buffer by its
name.

An item of a structure is ``TYPE=NUMBER``, a buffer (``buf:NAME=...``), which adds its 8-byte
address, or a nested structure, ``struct(ITEM,...)``. Each item is aligned to its size, a structure
to the alignment of its largest item; the size of a structure is a multiple of that, too.
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
    "u32:V s32:V u64:V f32:V b32:V buf:NAME=u32[COUNT] buf:NAME=f32@FILE buf:NAME=@FILE "
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
"""Types of numbers, and their sizes in bytes."""
_FLOAT = re.compile(r"[-+]?([0-9]+\.?[0-9]*([eE][-+]?[0-9]+)?|\.[0-9]+|inf|nan)")
_WHOLE = re.compile(r"-?(0[xX][0-9a-fA-F]+|[0-9]+)")
_SCALAR = re.compile(r"(?P<type>\w+)(?P<sign>[:=])(?P<value>.+)")
_BUFFER = re.compile(r"buf:(?P<name>[A-Za-z_]\w*)=(?P<what>.*)")
_ZEROS = re.compile(r"(?P<type>\w+)\[(?P<count>[0-9]+)\]")
_FILE = re.compile(r"(?P<type>\w*)@(?P<path>.*)")
_NAME = re.compile(r"buf:(?P<name>[A-Za-z_]\w*)=?")
_NESTED = re.compile(r"struct\((?P<items>.*)\)")
_STRUCTURE, _BYTES = "struct:", "bytes:@"
_MOST_BYTES = 1 << 30
"""The largest allowed size of a buffer in bytes."""


class ArgumentError(CommandError):
    """An argument that cannot be parsed. The message is one line with the reason."""


def _size(label: str, kind: str) -> int:
    if kind not in TYPE_BYTES:
        raise ArgumentError(f"{label}: unknown type {kind}; there are {' '.join(TYPE_BYTES)}")
    return TYPE_BYTES[kind]


def _number(label: str, part: str, sign: str) -> Scalar | None:
    """Returns the number in a part of an argument, with ``sign`` behind its type; None if the part
    is no number.
    """
    match = _SCALAR.fullmatch(part)
    if match is None or match["sign"] != sign:
        return None
    kind, number = match["type"], match["value"]
    if kind.startswith("f") and _FLOAT.fullmatch(number):
        return _float(label, kind, number)
    return _whole(label, kind, number) if _WHOLE.fullmatch(number) else None


def _whole(label: str, kind: str, number: str) -> Scalar:
    size, value = (
        _size(label, kind),
        int(number, 0 if number.lstrip("-")[:2] in ("0x", "0X") else 10),
    )
    lowest, steps = (-1 << 8 * size - 1 if kind[0] == "s" else 0), 1 << 8 * size
    if not lowest <= value < lowest + steps:
        raise ArgumentError(f"{label}: {kind} holds {lowest} to {lowest + steps - 1}")
    return Scalar(value, size, kind)


def _float(label: str, kind: str, number: str) -> Scalar:
    size = _size(label, kind)
    pattern, rounded = _FLOATS[kind]
    with np.errstate(over="ignore"):
        value = rounded(float(number))
    return Scalar(int.from_bytes(struct.pack(pattern, value), "little"), size, kind)


def _zeros(label: str, name: str, kind: str, count: str) -> Buffer:
    length = _size(label, kind) * int(count)
    if not 0 < length <= _MOST_BYTES:
        raise ArgumentError(f"{label}: a buffer has 1 to {_MOST_BYTES} bytes, not {length}")
    return Buffer(name, bytes(length), kind)


def _content(label: str, path: str) -> bytes:
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise ArgumentError(f"{label}: {why_unreadable(path, error)}") from error
    if not content:
        raise ArgumentError(f"{label}: {path} is empty")
    return content


def _of_file(label: str, name: str, kind: str, path: str) -> Buffer:
    """A buffer with the bytes of a file. ``kind`` is the type of its numbers, empty where it is unknown."""
    if not kind:
        return Buffer(name, _content(label, path))
    size = _size(label, kind)
    content = _content(label, path)
    if len(content) % size:
        raise ArgumentError(
            f"{label}: {path} has {len(content)} bytes, which is no multiple of the {size} of {kind}"
        )
    return Buffer(name, content, kind)


def _buffer(label: str, part: str) -> Buffer | None:
    """Returns the buffer in a part of an argument; None if the part is no buffer."""
    match = _BUFFER.fullmatch(part)
    if match is None:
        return None
    if (file := _FILE.fullmatch(match["what"])) is not None:
        return _of_file(label, match["name"], file["type"], file["path"])
    zeros = _ZEROS.fullmatch(match["what"])
    return None if zeros is None else _zeros(label, match["name"], zeros["type"], zeros["count"])


@dataclass(frozen=True)
class _StructurePiece:
    """A field of a structure."""

    content: bytes
    alignment: int
    buffers: tuple[tuple[int, Buffer], ...] = ()


def _pieces(label: str, items: str) -> Iterator[str]:
    """Splits at the commas outside of parentheses."""
    depth, begin = 0, 0
    for at, character in enumerate(items):
        depth += (character == "(") - (character == ")")
        if depth < 0:
            break
        if character == "," and not depth:
            yield items[begin:at]
            begin = at + 1
    if depth:
        raise ArgumentError(f"{label}: parentheses do not match")
    yield items[begin:]


def _item(label: str, part: str) -> _StructurePiece:
    """Parses a field of a structure."""
    if (nested := _NESTED.fullmatch(part)) is not None:
        return _laid_out(label, nested["items"])
    if (buffer := _buffer(label, part)) is not None:
        return _StructurePiece(bytes(ADDRESS_BYTES), ADDRESS_BYTES, ((0, buffer),))
    if (number := _number(label, part, "=")) is not None:
        content = (number.value & (1 << 8 * number.size) - 1).to_bytes(number.size, "little")
        return _StructurePiece(content, number.size)
    raise ArgumentError(
        f"{label}: {part!r} is neither TYPE=NUMBER nor buf:NAME=TYPE[COUNT] nor "
        "buf:NAME=TYPE@FILE nor struct(ITEM,...)"
    )


def _laid_out(label: str, items: str) -> _StructurePiece:
    """Lays out a structure as C does."""
    content, alignment = b"", 1
    buffers: list[tuple[int, Buffer]] = []
    for part in _pieces(label, items):
        item = _item(label, part)
        content += bytes(-len(content) % item.alignment)
        buffers += [(len(content) + place, buffer) for place, buffer in item.buffers]
        content += item.content
        alignment = max(alignment, item.alignment)
    return _StructurePiece(content + bytes(-len(content) % alignment), alignment, tuple(buffers))


def parse_argument(text: str, number: int | None = None) -> Argument:
    """The argument that ``text`` spells; ArgumentError when it spells none. ``number``: its place among the arguments,
    from 1 on, for messages."""
    """Parses an argument; ArgumentError if it is malformed."""
    label = f"argument {text!r}" if number is None else f"argument {number} ({text!r})"
    if text.startswith(_BYTES):
        return Structure(_content(label, text.removeprefix(_BYTES)))
    if text.startswith(_STRUCTURE):
        whole = _laid_out(label, text.removeprefix(_STRUCTURE))
        return Structure(whole.content, whole.buffers)
    argument = _number(label, text, ":") or _buffer(label, text)
    if argument is None:
        raise ArgumentError(f"{label} {_why_none(text)}")
    return argument


def _why_none(text: str) -> str:
    """What an argument lacks that is neither a number nor a buffer."""
    if _WHOLE.fullmatch(text):
        kind = "s32" if text.startswith("-") else "u32"
        return f"has no type: {kind}:{text}, or another type of the kernel's parameter"
    if _FLOAT.fullmatch(text):
        return f"has no type: f32:{text}, or another type of the kernel's parameter"
    if (named := _NAME.fullmatch(text)) is not None:
        name = named["name"]
        return f"has no type and size: buf:{name}=u32[COUNT], or buf:{name}=f32@FILE"
    return (
        "is neither TYPE:NUMBER nor buf:NAME=TYPE[COUNT] nor buf:NAME=TYPE@FILE nor "
        "struct:ITEM,... nor bytes:@FILE"
    )


def parse_arguments(texts: Iterable[str]) -> list[Argument]:
    """Parses arguments in their order; ArgumentError also if two buffers have the same name."""
    arguments: list[Argument] = []
    names: set[str] = set()
    for number, text in enumerate(texts, 1):
        argument = parse_argument(text, number)
        buffers = [argument] if isinstance(argument, Buffer) else []
        if isinstance(argument, Structure):
            buffers = [buffer for _, buffer in argument.buffers]
        for buffer in buffers:
            if buffer.name in names:
                raise ArgumentError(
                    f"argument {number} ({text!r}): there is a buffer {buffer.name} already"
                )
            names.add(buffer.name)
        arguments.append(argument)
    return arguments
