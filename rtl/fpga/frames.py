"""Frames on a line of bytes: what the two sides of the host's link say to each other, with length and checksum.

A frame lies between two bytes FLAG::

    FLAG  number  command  length, 2 bytes  content, length bytes  CRC, 4 bytes  FLAG

Numbers of several bytes begin with the lowest. The CRC is that of Ethernet (CRC-32/ISO-HDLC), of all bytes from number
to content. A byte between the flags that is FLAG or ESCAPE is sent as ESCAPE and the byte with bit 5 inverted; so a
FLAG always is the end of a frame, whatever was lost before it, and the next frame is found again. Two FLAGs without
anything between them mean nothing.
"""

from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream
from amaranth.lib.crc.catalog import CRC32_ISO_HDLC
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.layouts import Event

__all__ = ["CRC_BYTES", "ESCAPE", "ESCAPED_BIT", "FLAG", "HEADER_BYTES", "Deframer", "FrameHeader", "Framer"]

FLAG, ESCAPE, ESCAPED_BIT = 0x7E, 0x7D, 0x20
"""The bytes between frames and before an escaped byte, and what inverts that."""
CRC_BYTES = 4
_LENGTH_BITS = 16


class FrameHeader(data.Struct):
    """What a frame begins with."""

    number: unsigned(8)
    """The sender's; an answer has that of its request."""
    command: unsigned(8)
    length: unsigned(_LENGTH_BITS)
    """Bytes of the content."""


HEADER_BYTES = FrameHeader.as_shape().size // 8


class Deframer(Component):
    """Finds frames in a stream of bytes.

    Parameters
    ----------
    most : int
        Bytes of content at most; a longer frame is a damaged one.

    Members
    -------
    source : In(stream of bytes)
        None is taken while ``frame`` is valid.
    content : Out(Event of a byte)
        Of the content, as it comes; whether its frame is whole is not known yet.
    header : Out(FrameHeader)
        Of the frame that ``frame`` tells of.
    frame : Out(stream of one bit)
        A frame is over: 1, it was whole; 0, it is damaged.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        super().__init__({
            "source": In(stream.Signature(8)), "content": Out(Event(8)), "header": Out(FrameHeader),
            "frame": Out(stream.Signature(1))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        crc: Any = CRC32_ISO_HDLC(8).create()
        m.submodules.crc = crc
        source, frame, length = self.source, self.frame, self.header.length
        least, most = HEADER_BYTES + CRC_BYTES, HEADER_BYTES + self._most + CRC_BYTES
        position = Signal(range(most + 2))      # stays behind the longest frame
        escaped, taken, byte = Signal(), Signal(), Signal(8)
        m.d.comb += [
            source.ready.eq(~frame.valid), byte.eq(source.payload ^ Mux(escaped, ESCAPED_BIT, 0)), crc.data.eq(byte),
            self.content.payload.eq(byte), taken.eq(source.valid & source.ready), crc.start.eq(frame.valid)]
        with m.If(taken):
            with m.If(source.payload == FLAG):
                m.d.sync += [
                    frame.valid.eq((position != 0) | escaped), position.eq(0), escaped.eq(0),
                    frame.payload.eq(
                        ~escaped & crc.match_detected & (position == length + least) & (length <= self._most))]
            with m.Elif(source.payload == ESCAPE):
                m.d.sync += escaped.eq(1)
            with m.Else():
                m.d.comb += crc.valid.eq(1)
                m.d.sync += escaped.eq(0)
                with m.If(position <= most):
                    m.d.sync += position.eq(position + 1)
                with m.If(position < HEADER_BYTES):
                    m.d.sync += self.header.eq(Cat(self.header.as_value()[8:], byte))
                with m.Else():
                    m.d.comb += self.content.valid.eq(
                        (position < HEADER_BYTES + length) & (position < HEADER_BYTES + self._most))
        with m.If(frame.valid & frame.ready):
            m.d.sync += frame.valid.eq(0)
        return m


class Framer(Component):
    """Makes frames of headers and content.

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
            "header": In(stream.Signature(FrameHeader)), "content": In(stream.Signature(8)),
            "bytes": Out(stream.Signature(8))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        crc: Any = CRC32_ISO_HDLC(8).create()
        m.submodules.crc = crc
        out = self.bytes
        header: Any = Signal(FrameHeader)
        byte, offered, sent, escaped = Signal(8), Signal(), Signal(), Signal()
        left = Signal(_LENGTH_BITS)
        special = (byte == FLAG) | (byte == ESCAPE)
        # A byte of a frame is offered; it is sent when the line takes it, or its second half.
        m.d.comb += [
            out.valid.eq(offered), out.payload.eq(Mux(escaped, byte ^ ESCAPED_BIT, Mux(special, ESCAPE, byte))),
            sent.eq(offered & out.ready & (escaped | ~special)), crc.data.eq(byte)]
        with m.If(offered & out.ready):
            m.d.sync += escaped.eq(special & ~escaped)

        def flag(then: str) -> None:
            m.d.comb += [out.valid.eq(1), out.payload.eq(FLAG)]
            with m.If(out.ready):
                m.next = then

        with m.FSM(name="part"):
            with m.State("IDLE"):
                m.d.comb += [self.header.ready.eq(1), crc.start.eq(1)]
                with m.If(self.header.valid):
                    m.d.sync += [header.eq(self.header.payload), left.eq(HEADER_BYTES - 1)]
                    m.next = "OPEN"
            with m.State("OPEN"):
                flag("HEADER")
            with m.State("HEADER"):
                m.d.comb += [offered.eq(1), byte.eq(header.as_value()[:8]), crc.valid.eq(sent)]
                with m.If(sent):
                    m.d.sync += [header.eq(header.as_value().rotate_right(8)), left.eq(left - 1)]
                    with m.If(left == 0):
                        length = header.as_value().rotate_right(8)[-_LENGTH_BITS:]
                        m.d.sync += left.eq(length - 1)
                        m.next = "CONTENT"
                        with m.If(length == 0):
                            m.d.sync += left.eq(CRC_BYTES - 1)
                            m.next = "CRC"
            with m.State("CONTENT"):
                m.d.comb += [
                    offered.eq(self.content.valid), byte.eq(self.content.payload), self.content.ready.eq(sent),
                    crc.valid.eq(sent)]
                with m.If(sent):
                    m.d.sync += left.eq(left - 1)
                    with m.If(left == 0):
                        m.d.sync += left.eq(CRC_BYTES - 1)
                        m.next = "CRC"
            with m.State("CRC"):
                place: Any = CRC_BYTES - 1 - left
                m.d.comb += [offered.eq(1), byte.eq(crc.crc.word_select(place[:2], 8))]
                with m.If(sent):
                    m.d.sync += left.eq(left - 1)
                    with m.If(left == 0):
                        m.next = "CLOSE"
            with m.State("CLOSE"):
                flag("IDLE")
        m.d.sync += Assert(~sent | offered, "a byte is sent that nobody offers")
        return m
