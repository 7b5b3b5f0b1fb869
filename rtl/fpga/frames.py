"""Frames on a line of bytes: how the two sides of the host's link delimit what they say to each
other, with length and checksum.

A frame lies between two bytes FLAG::

    FLAG  number  command  length, 2 bytes  content, length bytes  CRC, 4 bytes  FLAG

Numbers of several bytes begin with the lowest. The CRC is that of Ethernet (CRC-32/ISO-HDLC), of
all bytes from number to content. A byte between the flags that is FLAG or ESCAPE is sent as ESCAPE
and the byte with bit 5 inverted; so a FLAG always is the end of a frame, whatever was lost before
it, and the next frame is found again. Two FLAGs without anything between them mean nothing.
"""

from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream
from amaranth.lib.crc.catalog import CRC32_ISO_HDLC
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component
from rtl.layouts import Event

__all__ = [
    "CRC_BYTES",
    "ESCAPE",
    "ESCAPED_BIT",
    "FLAG",
    "HEADER_BYTES",
    "Deframer",
    "FrameHeader",
    "Framer",
]

FLAG = 0x7E
"""The byte between frames."""
ESCAPE = 0x7D
"""The byte before one that is escaped."""
ESCAPED_BIT = 0x20
"""What is inverted in an escaped byte."""
CRC_BYTES = 4
_LENGTH_BITS = 16


class FrameHeader(data.Struct):
    """What a frame begins with.

    Fields
    ------
    number : 8
        The sender's; an answer has that of its request.
    command : 8
    length : 16
        Bytes of the content.
    """

    number: unsigned(8)
    command: unsigned(8)
    length: unsigned(_LENGTH_BITS)


HEADER_BYTES = FrameHeader.as_shape().size // 8


class Deframer(Component):
    """Finds frames in a stream of bytes.

    A byte a cycle. It is known to be part of a whole frame only when that ends: ``content`` may
    belong to a frame that turns out to be damaged.

    Parameters
    ----------
    most : int
        Bytes of content at most; a longer frame is a damaged one.

    Members
    -------
    source : In(stream of bytes)
        None is taken while ``frame`` is valid.
    content : Out(Event of a byte)
        Of the content, as it comes.
    header : Out(FrameHeader)
        Of the frame that ``frame`` is about.
    frame : Out(stream of one bit)
        A frame has ended: 1, it is whole; 0, it is damaged.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        super().__init__({
            "source": In(stream.Signature(8)),
            "content": Out(Event(8)),
            "header": Out(FrameHeader),
            "frame": Out(stream.Signature(1)),
        })
        # The byte that is taken, without its escape, and its number in the frame, which stops
        # behind the longest frame.
        self._byte = self.content.payload
        self._position = Signal(range(self._most_bytes + 2))
        self._is_escaped = Signal()

    @property
    def _most_bytes(self) -> int:
        """Bytes of the longest frame."""
        return HEADER_BYTES + self._most + CRC_BYTES

    def elaborate(self, platform: object) -> Module:
        m = Module()
        crc: Any = CRC32_ISO_HDLC(8).create()
        m.submodules.crc = crc
        source = self.source
        frame = self.frame
        position = self._position
        length = self.header.length
        has_right_length = (length <= self._most) & (position == HEADER_BYTES + length + CRC_BYTES)
        m.d.comb += source.ready.eq(~frame.valid)
        m.d.comb += self._byte.eq(source.payload ^ Mux(self._is_escaped, ESCAPED_BIT, 0))
        m.d.comb += crc.data.eq(self._byte)
        m.d.comb += crc.start.eq(frame.valid)
        with m.If(source.valid & source.ready):
            with m.If(source.payload == FLAG):
                m.d.sync += frame.valid.eq((position != 0) | self._is_escaped)
                m.d.sync += frame.payload.eq(
                    ~self._is_escaped & crc.match_detected & has_right_length)
                m.d.sync += position.eq(0)
                m.d.sync += self._is_escaped.eq(0)
            with m.Elif(source.payload == ESCAPE):
                m.d.sync += self._is_escaped.eq(1)
            with m.Else():
                m.d.comb += crc.valid.eq(1)
                m.d.sync += self._is_escaped.eq(0)
                self._take_byte(m)
        with m.If(frame.valid & frame.ready):
            m.d.sync += frame.valid.eq(0)
        return m

    def _take_byte(self, m: Module) -> None:
        """A byte of a frame: of its header, its content or its CRC."""
        position = self._position
        end = HEADER_BYTES + self.header.length
        with m.If(position <= self._most_bytes):
            m.d.sync += position.eq(position + 1)
        with m.If(position < HEADER_BYTES):
            m.d.sync += self.header.eq(Cat(self.header.as_value()[8:], self._byte))
        with m.Elif(position < HEADER_BYTES + self._most):
            m.d.comb += self.content.valid.eq(position < end)


class Framer(Component):
    """Makes frames of headers and content, a byte a cycle at most; an escaped byte takes two.

    Members
    -------
    header : In(stream of FrameHeader)
        A frame to be sent.
    content : In(stream of bytes)
        Then its content, as many bytes as the header says.
    bytes : Out(stream of bytes)
    """

    def __init__(self) -> None:
        super().__init__({
            "header": In(stream.Signature(FrameHeader)),
            "content": In(stream.Signature(8)),
            "bytes": Out(stream.Signature(8)),
        })
        self._header: Any = Signal(FrameHeader)
        """Rotates by a byte with each that is sent."""
        self._remaining = Signal(_LENGTH_BITS)
        """Bytes of header, content or CRC behind the present one."""
        self._current: Any = stream.Signature(8).create(path=("current",))
        """The present byte, which is taken when it has been sent, with its escape."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        crc: Any = CRC32_ISO_HDLC(8).create()
        m.submodules.crc = crc
        m.d.comb += crc.data.eq(self._current.payload)
        self._escape(m)
        with m.FSM(name="part"):
            with m.State("IDLE"):
                m.d.comb += crc.start.eq(1)
                self._accept(m)
            with m.State("OPEN"):
                self._send_flag(m, "HEADER")
            with m.State("HEADER"):
                m.d.comb += crc.valid.eq(self._is_sent)
                self._send_header(m)
            with m.State("CONTENT"):
                m.d.comb += crc.valid.eq(self._is_sent)
                self._send_content(m)
            with m.State("CRC"):
                self._send_crc(m, crc.crc)
            with m.State("CLOSE"):
                self._send_flag(m, "IDLE")
        m.d.sync += Assert(
            ~self._current.ready | self._current.valid, "a byte is sent that is not there")
        return m

    @property
    def _is_sent(self) -> Value:
        """The present byte has been sent."""
        return self._current.valid & self._current.ready

    def _escape(self, m: Module) -> None:
        """The present byte on the line: if it is a FLAG or an ESCAPE, an ESCAPE and then the byte
        with a bit inverted."""
        out = self.bytes
        current = self._current
        byte = current.payload
        needs_escape = (byte == FLAG) | (byte == ESCAPE)
        is_escaped = Signal()           # its ESCAPE has been sent
        m.d.comb += out.valid.eq(current.valid)
        with m.If(is_escaped):
            m.d.comb += out.payload.eq(byte ^ ESCAPED_BIT)
        with m.Elif(needs_escape):
            m.d.comb += out.payload.eq(ESCAPE)
        with m.Else():
            m.d.comb += out.payload.eq(byte)
        with m.If(current.valid & out.ready):
            m.d.comb += current.ready.eq(is_escaped | ~needs_escape)
            m.d.sync += is_escaped.eq(needs_escape & ~is_escaped)

    def _send_flag(self, m: Module, following: str) -> None:
        """OPEN, CLOSE: a FLAG, which is not escaped."""
        m.d.comb += self.bytes.valid.eq(1)
        m.d.comb += self.bytes.payload.eq(FLAG)
        with m.If(self.bytes.ready):
            m.next = following

    def _accept(self, m: Module) -> None:
        """IDLE: the next header."""
        m.d.comb += self.header.ready.eq(1)
        with m.If(self.header.valid):
            m.d.sync += self._header.eq(self.header.payload)
            m.d.sync += self._remaining.eq(HEADER_BYTES - 1)
            m.next = "OPEN"

    def _send_header(self, m: Module) -> None:
        """HEADER: its bytes. With the last one the header is as it was at first."""
        rotated = self._header.as_value().rotate_right(8)
        length = rotated[-_LENGTH_BITS:]
        m.d.comb += self._current.valid.eq(1)
        m.d.comb += self._current.payload.eq(self._header.as_value()[:8])
        with m.If(self._is_sent):
            m.d.sync += self._header.eq(rotated)
            m.d.sync += self._remaining.eq(self._remaining - 1)
            with m.If((self._remaining == 0) & (length == 0)):
                m.d.sync += self._remaining.eq(CRC_BYTES - 1)
                m.next = "CRC"
            with m.Elif(self._remaining == 0):
                m.d.sync += self._remaining.eq(length - 1)
                m.next = "CONTENT"

    def _send_content(self, m: Module) -> None:
        """CONTENT: its bytes, as they come."""
        connect(m, flipped(self.content), flipped(self._current))
        with m.If(self._is_sent):
            m.d.sync += self._remaining.eq(self._remaining - 1)
            with m.If(self._remaining == 0):
                m.d.sync += self._remaining.eq(CRC_BYTES - 1)
                m.next = "CRC"

    def _send_crc(self, m: Module, crc: Value) -> None:
        """CRC: its bytes."""
        place: Any = CRC_BYTES - 1 - self._remaining
        m.d.comb += self._current.valid.eq(1)
        m.d.comb += self._current.payload.eq(crc.word_select(place[:2], 8))
        with m.If(self._is_sent):
            m.d.sync += self._remaining.eq(self._remaining - 1)
            with m.If(self._remaining == 0):
                m.next = "CLOSE"
