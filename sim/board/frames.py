"""Encodes and decodes frames on the host's side; see :mod:`rtl.fpga.frames`."""

import zlib
from dataclasses import dataclass

from rtl.fpga.frames import CRC_BYTES, ESCAPE, ESCAPED_BIT, FLAG, HEADER_BYTES

__all__ = ["FrameFinder", "LinkFrame"]

_ESCAPED = {byte: bytes((ESCAPE, byte ^ ESCAPED_BIT)) for byte in (ESCAPE, FLAG)}


@dataclass(frozen=True)
class LinkFrame:
    """A request or an answer."""

    number: int
    command: int
    content: bytes = b""

    def sent(self) -> bytes:
        """Returns the bytes on the line, with both flags."""
        body = (
            bytes((self.number, self.command))
            + len(self.content).to_bytes(2, "little")
            + self.content
        )
        body += zlib.crc32(body).to_bytes(CRC_BYTES, "little")
        for byte, replacement in _ESCAPED.items():  # ESCAPE first
            body = body.replace(bytes((byte,)), replacement)
        return bytes((FLAG,)) + body + bytes((FLAG,))


def _read(escaped: bytes) -> LinkFrame | None:
    """Decodes the content between two flags; None if it is damaged."""
    body = bytearray()
    before = False
    for byte in escaped:
        if byte == ESCAPE:
            before = True
            continue
        body.append(byte ^ ESCAPED_BIT if before else byte)
        before = False
    if before or len(body) < HEADER_BYTES + CRC_BYTES:
        return None
    content, crc = bytes(body[HEADER_BYTES:-CRC_BYTES]), body[-CRC_BYTES:]
    if int.from_bytes(body[2:4], "little") != len(content) or zlib.crc32(
        body[:-CRC_BYTES]
    ) != int.from_bytes(crc, "little"):
        return None
    return LinkFrame(body[0], body[1], content)


class FrameFinder:
    """Finds frames in bytes that arrive in pieces; damaged frames are dropped."""

    def __init__(self) -> None:
        self._rest = b""

    def take(self, received: bytes) -> list[LinkFrame]:
        """Returns the frames that these bytes complete."""
        *parts, self._rest = (self._rest + received).split(bytes((FLAG,)))
        return [frame for part in parts if part and (frame := _read(part)) is not None]
