"""What a kernel has printed, and which of its assertions have failed: decodes the runtime's
records.
"""

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from sim.launch.memory import Memory, MemoryFaultError
from sim.launch.runtime import output_range
from sim.toolchain.runtime import FAILED, PRINTED

__all__ = ["Output", "output_of"]

_LONG, _SHORT = "Ljlqtz", "h"
_HEAD = struct.Struct("<II")
_PLACE = struct.Struct("<7I4x")
_SHAPE = re.compile(r"[-+ #0]*[0-9]*(\.[0-9]*)?")
"""Flags, width and precision of a conversion."""
_NO_SIGNS = str.maketrans("", "", "+ #")
_LONGEST = 1 << 16
"""The largest size of a format in bytes."""


@dataclass
class Output:
    """The decoded output of a kernel. ``lost`` is the number of records for which there was no
    room.
    """

    text: str = ""
    failed: list[str] = field(default_factory=list)
    lost: int = 0

    def lines(self) -> list[str]:
        """Returns the remarks about the output, without its text."""
        lost = (
            [f"output        {self.lost} more records had no room: more bytes with --output"]
            if self.lost
            else []
        )
        return [*(f"assertion     {line}" for line in self.failed), *lost]


def output_of(memory: Memory, variable: int | None) -> Output:
    """Decodes the output whose variable is at the address; empty without one."""
    found = Output()
    if variable is None:
        return found
    address, size = output_range(memory, variable)
    found.lost = memory.read_number(variable + 24, 8)
    content = memory.read(address, size) if size else b""
    at = 0
    while at + _HEAD.size <= len(content):
        bytes_, kind = _HEAD.unpack_from(content, at)
        record = content[at : at + bytes_]
        if kind not in (PRINTED, FAILED) or len(record) < bytes_ or bytes_ % 8 or not bytes_:
            break  # The machine was stopped before the whole record was written
        if kind == PRINTED:
            found.text += _printed(record, memory)
        else:
            found.failed.append(_failed(record))
        at += bytes_
    return found


class _Record:
    """A record, read in order."""

    def __init__(self, content: bytes, at: int) -> None:
        self._content, self._at = content, at

    def number(self) -> int:
        """Reads the next 64-bit word."""
        self._at += 8
        return int.from_bytes(self._content[self._at - 8 : self._at], "little")

    def text(self) -> str:
        """Reads the next text."""
        end = self._content.find(b"\0", self._at)
        found = self._content[self._at : end if end >= 0 else None]
        self._at += (len(found) + 8) & -8
        return found.decode(errors="replace")


def _printed(content: bytes, memory: Memory) -> str:
    address = int.from_bytes(content[8:16], "little")
    record = _Record(content, 16)
    return "".join(_pieces(_text_at(memory, address) if address else record.text(), record))


def _text_at(memory: Memory, address: int) -> str:
    """Reads a format from memory."""
    found = bytearray()
    try:
        while len(found) < _LONGEST and (byte := memory.read(address + len(found), 1)) != b"\0":
            found += byte
    except MemoryFaultError:
        pass
    return found.decode(errors="replace")


def _pieces(text: str, record: _Record) -> Iterator[str]:
    """Yields a format's text with its arguments inserted, by the rules of the runtime that has
    copied them.
    """
    at = 0
    while (begin := text.find("%", at)) >= 0:
        yield text[at:begin]
        at, shape, size = begin + 1, "", ""
        while at < len(text):
            char = text[at]
            at += 1
            if char == "%":
                yield "%"
                break
            if char == "*":
                shape = _with_number(shape, _signed(record.number(), 32))
            elif not "A" <= char <= "z":
                shape += char
            elif char in _LONG or char in _SHORT:
                size += char
            else:
                yield _converted(shape, size, char, record)
                break
        else:
            return
    yield text[at:]


def _with_number(shape: str, number: int) -> str:
    """Replaces a star in a conversion by its number. A negative precision is ignored."""
    return shape[:-1] if shape.endswith(".") and number < 0 else f"{shape}{number}"


def _signed(number: int, bits: int) -> int:
    number &= (1 << bits) - 1
    return number - (number >> bits - 1 << bits)


def _converted(shape: str, size: str, kind: str, record: _Record) -> str:
    """Formats one argument as in C; a conversion that C does not have is left unchanged."""
    if not _SHAPE.fullmatch(shape):
        return f"%{shape}{size}{kind}"
    if kind == "s":
        return f"%{shape}s" % record.text()
    number = record.number()
    bits = 64 if any(char in _LONG for char in size) else 32 >> size.count(_SHORT)
    match kind:
        case "d" | "i":
            return _whole(shape, "d", _signed(number, bits))
        case "u" | "o" | "x" | "X":
            return _whole(shape, kind, number & (1 << bits) - 1)
        case "c":
            return f"%{shape}c" % (number & 0xFF)
        case "p":
            return f"%{shape}s" % f"{number:#x}"
        case "e" | "E" | "f" | "F" | "g" | "G" | "a" | "A":
            value: float = struct.unpack("<d", number.to_bytes(8, "little"))[0]
            return f"%{shape}s" % value.hex() if kind in "aA" else f"%{shape}{kind}" % value
        case _:
            return f"%{shape}{size}{kind}"


def _whole(shape: str, kind: str, number: int) -> str:
    """Formats an integer as in C.

    Unlike in Python, a precision disables zero padding, an octal number has one leading zero, 0 has
    no prefix, and with a precision of 0 it has no digits.
    """
    if "." in shape:
        flags = len(shape) - len(shape.lstrip("-+ #0"))
        shape = shape[:flags].replace("0", "") + shape[flags:]
    for needless in "#" if kind == "d" else "+ ":
        shape = shape.replace(needless, "")
    before, point, precision = shape.partition(".")
    if point and not number and not precision.strip("0") and not (kind == "o" and "#" in shape):
        sign = next((sign for sign in "+ " if sign in shape), "")
        return f"%{before.translate(_NO_SIGNS)}s" % sign
    if "#" not in shape or (number and kind != "o"):
        return f"%{shape}{kind}" % number
    shape = shape.replace("#", "")
    found = f"%{shape}{kind}" % number
    if found.lstrip().startswith("0"):
        return found
    return f"%{shape.partition('.')[0]}.{len(f'{number:o}') + 1}o" % number


def _failed(content: bytes) -> str:
    line, *place = _PLACE.unpack_from(content, _HEAD.size)
    record = _Record(content, _HEAD.size + _PLACE.size)
    file, function, text = record.text(), record.text(), record.text()
    block, thread = (",".join(map(str, part)) for part in (place[:3], place[3:]))
    return f"{file}:{line}: {function}: block: [{block}], thread: [{thread}] Assertion `{text}` failed."
