"""Frames in a stream of bytes: each has a length and a checksum. Both directions of the host's link
use them.

A frame is delimited by two bytes FLAG::

    FLAG  number  command  length, 2 bytes  content, length bytes  CRC, 4 bytes  FLAG

Numbers of several bytes are little-endian. The CRC is that of Ethernet (CRC-32/ISO-HDLC), of all
bytes from number to content. Between the flags, each byte that equals FLAG or ESCAPE is sent as two
bytes: ESCAPE, and the byte with bit 5 inverted. A FLAG therefore always ends a frame: after lost
bytes, the receiver is synchronised again at the next FLAG. Two FLAGs in succession are no frame.
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
"""The bit that is inverted in an escaped byte."""
CRC_BYTES = 4
_LENGTH_BITS = 16


class FrameHeader(data.Struct):
    """The first bytes of a frame.

    Fields
    ------
    number : 8
        Chosen by the host; an answer has the number of its request.
    command : 8
    length : 16
        Bytes of the content.
    """

    number: unsigned(8)
    command: unsigned(8)
    length: unsigned(_LENGTH_BITS)


HEADER_BYTES = FrameHeader.as_shape().size // 8


class Deframer(Component):
    """Finds frames in a stream of bytes, a byte a cycle.

    The content is not buffered: ``content`` reports each byte in the cycle in which it is taken,
    before the CRC of its frame is checked. In the cycle after the closing FLAG ``frame`` says
    whether the frame was whole. A frame is damaged if its CRC or its length is wrong, if it is too
    long, or if its last byte was an ESCAPE.

    Parameters
    ----------
    most : int
        The largest number of bytes of content; a frame with more is damaged.

    Members
    -------
    source : In(stream of bytes)
        Not ready while ``frame`` is valid: the next frame waits until this one is accepted.
    content : Out(Event of a byte)
        A byte of the content, without its escape; never more than ``most`` in a frame.
    header : Out(FrameHeader)
        The header of the frame, while ``frame`` is valid; of a damaged frame, anything.
    frame : Out(stream of one bit)
        A frame has ended. 1: it is whole. 0: it is damaged.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        super().__init__({
            "source": In(stream.Signature(8)),
            "content": Out(Event(8)),
            "header": Out(FrameHeader),
            "frame": Out(stream.Signature(1)),
        })
        # The byte that is taken, without its escape, and its index in the frame. The index
        # saturates at one more than the length of the longest frame.
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
        """Takes a byte of a frame: header and content are stored and reported, bytes of the CRC
        only counted."""
        position = self._position
        end = HEADER_BYTES + self.header.length
        with m.If(position <= self._most_bytes):
            m.d.sync += position.eq(position + 1)
        with m.If(position < HEADER_BYTES):
            m.d.sync += self.header.eq(Cat(self.header.as_value()[8:], self._byte))
        with m.Elif(position < HEADER_BYTES + self._most):
            m.d.comb += self.content.valid.eq(position < end)


class Framer(Component):
    """Makes frames of headers and content, at most a byte a cycle; an escaped byte takes two.

    Members
    -------
    header : In(stream of FrameHeader)
        Starts a frame; ready when no frame is being sent.
    content : In(stream of bytes)
        The content, as many bytes as the header's length; ready while bytes of it are sent.
    bytes : Out(stream of bytes)
        The frame, from the opening FLAG to the closing one.
    """

    def __init__(self) -> None:
        super().__init__({
            "header": In(stream.Signature(FrameHeader)),
            "content": In(stream.Signature(8)),
            "bytes": Out(stream.Signature(8)),
        })
        self._header: Any = Signal(FrameHeader)
        """The header, rotated by as many bytes as have been sent."""
        self._remaining = Signal(_LENGTH_BITS)
        """Bytes of the present part (header, content or CRC) after the current one."""
        self._current: Any = stream.Signature(8).create(path=("current",))
        """The byte to send, before it is escaped; ready in the cycle in which the last of its one
        or two bytes is accepted."""

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
        """The current byte is sent completely in this cycle."""
        return self._current.valid & self._current.ready

    def _escape(self, m: Module) -> None:
        """Sends the current byte; a FLAG or an ESCAPE as an ESCAPE, then the byte with a bit
        inverted."""
        out = self.bytes
        current = self._current
        byte = current.payload
        needs_escape = (byte == FLAG) | (byte == ESCAPE)
        is_escaped = Signal()           # the ESCAPE before this byte has been sent
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
        """OPEN, CLOSE: sends a FLAG, which is not escaped."""
        m.d.comb += self.bytes.valid.eq(1)
        m.d.comb += self.bytes.payload.eq(FLAG)
        with m.If(self.bytes.ready):
            m.next = following

    def _accept(self, m: Module) -> None:
        """IDLE: accepts the next header."""
        m.d.comb += self.header.ready.eq(1)
        with m.If(self.header.valid):
            m.d.sync += self._header.eq(self.header.payload)
            m.d.sync += self._remaining.eq(HEADER_BYTES - 1)
            m.next = "OPEN"

    def _send_header(self, m: Module) -> None:
        """HEADER: sends the header, the lowest byte first. After the last byte the rotation is
        complete, so that ``rotated`` is the header again and its length can be read."""
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
        """CONTENT: sends bytes of the content as they are available."""
        connect(m, flipped(self.content), flipped(self._current))
        with m.If(self._is_sent):
            m.d.sync += self._remaining.eq(self._remaining - 1)
            with m.If(self._remaining == 0):
                m.d.sync += self._remaining.eq(CRC_BYTES - 1)
                m.next = "CRC"

    def _send_crc(self, m: Module, crc: Value) -> None:
        """CRC: sends the CRC, the lowest byte first."""
        place: Any = CRC_BYTES - 1 - self._remaining
        m.d.comb += self._current.valid.eq(1)
        m.d.comb += self._current.payload.eq(crc.word_select(place[:2], 8))
        with m.If(self._is_sent):
            m.d.sync += self._remaining.eq(self._remaining - 1)
            with m.If(self._remaining == 0):
                m.next = "CLOSE"
