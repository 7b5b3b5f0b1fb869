"""Kernel arguments as they are written on a command line.

====================  ===================================================================
text                  argument
====================  ===================================================================
``u32:7`` ``s32:-1``  a number passed by value: decimal, or hexadecimal with 0x
``f32:-2.5e3``        a floating-point number, rounded to the nearest one; also inf and nan
``buf:OUT=u32[256]``  a buffer of that many zeros; its address is passed
``buf:IN=@data.bin``  a buffer with the bytes of a file
====================  ===================================================================

Types are u8 u16 u32 u64 s8 s16 s32 s64 f32 f64. The name of a buffer is what results call it.
"""

import re
import struct
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from sim.command import CommandError
from sim.launch import Argument, Buffer, Scalar

__all__ = ["ArgumentError", "parse_argument", "parse_arguments"]

_FLOATS = {"f32": ("<f", np.float32), "f64": ("<d", np.float64)}
_SIZES = {**{f"{sign}{8 * size}": size for sign in "us" for size in (1, 2, 4, 8)}, "f32": 4, "f64": 8}
_FLOAT = re.compile(r"(?P<type>f\w+):(?P<value>[-+]?([0-9]+\.?[0-9]*([eE][-+]?[0-9]+)?|\.[0-9]+|inf|nan))")
_SCALAR = re.compile(r"(?P<type>\w+):(?P<value>-?(0[xX][0-9a-fA-F]+|[0-9]+))")
_BUFFER = re.compile(r"buf:(?P<name>[A-Za-z_]\w*)=(?P<what>.*)")
_ZEROS = re.compile(r"(?P<type>\w+)\[(?P<count>[0-9]+)\]")
_MOST_BYTES = 1 << 30
"""The largest buffer that is made."""


class ArgumentError(CommandError):
    """An argument that can't be read: one line that says why."""


def _size(text: str, kind: str) -> int:
    if kind not in _SIZES:
        raise ArgumentError(f"argument {text!r}: unknown type {kind}; there are {' '.join(_SIZES)}")
    return _SIZES[kind]


def _scalar(text: str, kind: str, number: str) -> Scalar:
    size, value = _size(text, kind), int(number, 0 if number.lstrip("-")[:2] in ("0x", "0X") else 10)
    lowest, steps = (-1 << 8 * size - 1 if kind[0] == "s" else 0), 1 << 8 * size
    if not lowest <= value < lowest + steps:
        raise ArgumentError(f"argument {text!r}: {kind} holds {lowest} to {lowest + steps - 1}")
    return Scalar(value, size)


def _float(text: str, kind: str, number: str) -> Scalar:
    size = _size(text, kind)
    pattern, rounded = _FLOATS[kind]
    with np.errstate(over="ignore"):
        value = rounded(float(number))
    return Scalar(int.from_bytes(struct.pack(pattern, value), "little"), size)


def _zeros(text: str, name: str, kind: str, count: str) -> Buffer:
    length = _size(text, kind) * int(count)
    if not 0 < length <= _MOST_BYTES:
        raise ArgumentError(f"argument {text!r}: a buffer has 1 to {_MOST_BYTES} bytes, not {length}")
    return Buffer(name, bytes(length))


def _content(text: str, path: str) -> bytes:
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise ArgumentError(f"argument {text!r}: {path}: {error.strerror}") from error
    if not content:
        raise ArgumentError(f"argument {text!r}: {path} is empty")
    return content


def parse_argument(text: str) -> Argument:
    """The argument that ``text`` spells; ArgumentError when it spells none."""
    if match := _FLOAT.fullmatch(text):
        return _float(text, match["type"], match["value"])
    if match := _SCALAR.fullmatch(text):
        return _scalar(text, match["type"], match["value"])
    if match := _BUFFER.fullmatch(text):
        if match["what"].startswith("@"):
            return Buffer(match["name"], _content(text, match["what"][1:]))
        if zeros := _ZEROS.fullmatch(match["what"]):
            return _zeros(text, match["name"], zeros["type"], zeros["count"])
    raise ArgumentError(f"argument {text!r} is neither TYPE:NUMBER nor buf:NAME=TYPE[COUNT] nor buf:NAME=@FILE")


def parse_arguments(texts: Iterable[str]) -> list[Argument]:
    """All arguments in their order; ArgumentError also when two buffers have one name."""
    arguments: list[Argument] = []
    names: set[str] = set()
    for text in texts:
        argument = parse_argument(text)
        if isinstance(argument, Buffer):
            if argument.name in names:
                raise ArgumentError(f"argument {text!r}: there is a buffer {argument.name} already")
            names.add(argument.name)
        arguments.append(argument)
    return arguments
