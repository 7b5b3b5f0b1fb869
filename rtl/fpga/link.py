"""The host's link: receives requests in frames, executes them one at a time, and answers each.

The content of a request ends with the address, so that its distance from the end is the same in
all requests. Numbers are little-endian. An answer has the request's number, its command with bit 7
set, and content that begins with a status.

===============  ===============================  ================================================
command          content of the request           content of the answer
===============  ===============================  ================================================
HELLO            none                             status, version of the protocol
READ_REGISTERS   count of registers, address, 3   status, 4 bytes a register, of consecutive
                 bytes                            registers
WRITE_REGISTER   value, 4 bytes; address, 3       status
                 bytes
READ_LINES       count, 2 bytes; address, 5       for each line an answer: status; address,
                 bytes                            5 bytes; 64 bytes. Count 0: status UNKNOWN
WRITE_LINE       64 bytes; mask, 8 bytes;         status
                 address, 5 bytes
===============  ===============================  ================================================

Addresses are in bytes. The low 6 bits of a line's address are ignored by memory, and returned in
the answer as they were in the request. A line that memory answers with an error has status MEMORY,
and 64 bytes without meaning.

A host that receives no answer, or one with status DAMAGED (number 0, command ANY), repeats the
request with the same number. Reads, and writes of lines, may be executed twice. A write of a
register must not be. So the number of a WRITE_REGISTER must be one more than the last: that of the
last write of a register that was executed, or of a later HELLO. A WRITE_REGISTER with the last
number is a repetition: its status is DONE, and it writes nothing. With any other number its status
is ORDER, and it writes nothing.
"""

from typing import Any

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, enum, stream
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component
from rtl.isa.tokens import LINE_BYTES
from rtl.layouts import (
    BEAT_BYTES,
    BEATS,
    HOST_ADDRESS_BITS,
    BeatPort,
    HostBus,
    beat_request,
    ends_answer,
    ends_request,
)
from rtl.params import ADDRESS_BITS, LINE_ADDRESS_BITS
from rtl.structs import struct_value

from .frames import Deframer, Framer

__all__ = [
    "ANSWER",
    "LINE_ANSWER_BYTES",
    "REQUEST_BYTES",
    "VERSION",
    "HostLink",
    "LinkCommand",
    "LinkStatus",
]

VERSION = 1
"""Version of the protocol, in the answer to HELLO."""
ANSWER = 0x80
"""The bit that is set in the command of an answer."""


class LinkCommand(enum.Enum, shape=8):
    """The command of a frame."""

    HELLO = 0
    READ_REGISTERS = 1
    WRITE_REGISTER = 2
    READ_LINES = 3
    WRITE_LINE = 4
    ANY = 0x7F
    """In the answer to a damaged frame, whose command is not known."""


class LinkStatus(enum.Enum, shape=8):
    """The result of a request."""

    DONE = 0
    MEMORY = 1
    """Nothing is mapped at the address."""
    ORDER = 2
    """The number of a WRITE_REGISTER is neither the next one nor the previous one."""
    UNKNOWN = 3
    """The command does not exist, its content has another length, or READ_LINES has count 0."""
    DAMAGED = 4


_WORD_BYTES = 4
_ADDRESS_BYTES = ADDRESS_BITS // 8
_IN_BEAT_BITS = (BEAT_BYTES - 1).bit_length()
_TAG_BITS = 1
"""One bit, always 0: Verilog has no ports of width 0."""

_REGISTERS_TO_READ = data.StructLayout({"count": 8, "address": HOST_ADDRESS_BITS})
_REGISTER_TO_WRITE = data.StructLayout({"value": 8 * _WORD_BYTES, "address": HOST_ADDRESS_BITS})
_LINES_TO_READ = data.StructLayout({"count": 16, "address": ADDRESS_BITS})
_LINE_TO_WRITE = data.StructLayout({"mask": LINE_BYTES, "address": ADDRESS_BITS})
"""The end of a request's content. In WRITE_LINE it follows the 64 bytes of the line."""
REQUEST_BYTES = {
    LinkCommand.HELLO: 0,
    LinkCommand.READ_REGISTERS: _REGISTERS_TO_READ.size // 8,
    LinkCommand.WRITE_REGISTER: _REGISTER_TO_WRITE.size // 8,
    LinkCommand.READ_LINES: _LINES_TO_READ.size // 8,
    LinkCommand.WRITE_LINE: LINE_BYTES + _LINE_TO_WRITE.size // 8,
}
"""Bytes of content of each request."""
LINE_ANSWER_BYTES = 1 + _ADDRESS_BYTES + LINE_BYTES
"""Bytes of content of an answer to READ_LINES."""
_MOST_BYTES = max(REQUEST_BYTES.values())
_END_BYTES = _LINE_TO_WRITE.size // 8
"""Width of the shift register in bytes: the content of a WRITE_LINE after the line, and all
content of any other request."""
_HEAD_BYTES = 1 + _ADDRESS_BYTES
"""Bytes of an answer that are loaded into the shift register at once: those before a line, or all
of the answer, or a register's word."""


class HostLink(Component):
    """Executes requests from frames on a bus of registers and a port to memory.

    One request at a time: until it is answered, its frame stays in the deframer, which takes no
    further bytes. The state machine has a method for each state. The states after IDLE:

    ==============  ==========================================================================
    HELLO, errors   HEADER, CONTENT
    READ_REGISTERS  HEADER, CONTENT; READ_REGISTER, VALUE, CONTENT for each register
    WRITE_REGISTER  WRITE_REGISTER, HEADER, CONTENT
    READ_LINES      REQUEST, RESPONSE, HEADER, CONTENT for each line
    WRITE_LINE      GATHER, REQUEST for each of eight beats; RESPONSE, HEADER, CONTENT
    ==============  ==========================================================================

    ``_content`` is a shift register of 13 bytes. A request is shifted in at the most significant
    byte, so that its end is at the top of the register. The bytes that are shifted out at the
    bottom are the line of a WRITE_LINE; they are stored in a memory of LUTs. An answer is loaded
    into the low 6 bytes and shifted out at the bottom; the bytes of a line follow from that memory,
    a register's word is loaded when the bytes before it are sent.

    The line is moved byte by byte on the way to memory and back, so a request or an answer with a
    line takes 72 or 64 cycles. During this time its burst blocks the path to memory, or back, for
    all other clients. On the serial line it takes more than ten thousand cycles.

    No reset of the machine reaches the link.

    Members
    -------
    received, sent : In(stream of bytes), Out(stream of bytes)
        Requests; answers.
    bus : Out(HostBus)
    memory : Out(BeatPort)
        At most one request is outstanding.
    """

    def __init__(self) -> None:
        super().__init__({
            "received": In(stream.Signature(8)),
            "sent": Out(stream.Signature(8)),
            "bus": Out(HostBus()),
            "memory": Out(BeatPort(_TAG_BITS)),
        })
        self.deframer = Deframer(_MOST_BYTES)
        self.framer = Framer()
        # The header of the request. It is valid from the end of the frame until the deframer is
        # released, which is after the last byte of the answer's content.
        self._request = self.deframer.header
        self._address = Signal(ADDRESS_BITS)
        """Address of the line or register to access, in bytes."""
        self._count = Signal(16)
        """Lines or registers that remain to be read. Unused in other requests."""
        self._next_write = Signal(8)
        """The number that the next WRITE_REGISTER must have."""
        self._item_is_done = Signal()
        """A line has been read or written, or a register read: the address advances."""

        self._content = Signal(8 * _END_BYTES)
        """The shift register."""
        self._shifts = Signal()
        """It shifts by a byte."""
        self._loads = Signal()
        """Its low bytes are loaded with ``_head``."""
        self._head = Signal(8 * _HEAD_BYTES)
        self._remaining = Signal(range(LINE_ANSWER_BYTES + 1))
        """Bytes of the answer that remain to be sent before the next load or the end."""
        self._sends = Signal()
        """The framer accepts a byte of the answer."""

        # The index of the byte of the line that is read or written. While a request is received it
        # counts bytes that are shifted in; the first 13 of these shift out nothing of the request.
        # Their garbage is stored at the indices 51 to 63 and overwritten later; then the index
        # wraps, and byte 0 of the line is stored at index 0.
        self._index = Signal(range(LINE_BYTES), init=LINE_BYTES - _END_BYTES)
        self._clears_index = Signal()
        self._advances_index = Signal()
        self._stores_answer = Signal()
        """A byte of memory's answer is written into the memory of the line."""
        self._line_byte = Signal(8)
        """The byte of the line at ``_index``."""
        self._beat = Signal(range(BEATS))
        """Number of the beat that is written to memory; 0 except in a WRITE_LINE."""
        self._beat_bytes = Signal(8 * BEAT_BYTES)
        """The bytes of that beat."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.deframer = self.deframer
        m.submodules.framer = self.framer
        connect(m, flipped(self.received), self.deframer.source)
        connect(m, self.framer.bytes, flipped(self.sent))
        self._connect_ports(m)
        self._shift_content(m)
        self._access_line(m)
        self._select_next_item(m)
        with m.FSM(name="link") as states:
            self._accept(m)
            self._write_register(m)
            self._gather_beat(m)
            self._request_memory(m)
            self._await_memory(m)
            self._send_header(m)
            self._send_content(m)
            self._read_registers(m)
        m.d.sync += Assert(
            ~self.deframer.content.valid | states.ongoing("IDLE"),
            "content comes while a request is executed")
        return m

    # Methods that several states use.

    def _end_of_content(self, layout: data.StructLayout) -> Any:
        """The end of the request's content."""
        return data.View(layout, self._content[-layout.size:])

    def _has_command(self, command: LinkCommand) -> Value:
        """Whether the request has this command."""
        return self._request.command == command.value

    def _is_last_of_beat(self) -> Value:
        """Whether the byte of the line at ``_index`` is the last one of its beat."""
        return self._index[:_IN_BEAT_BITS] == BEAT_BYTES - 1

    def _answer(self, m: Module, head: Value, length: Any, *, loaded: int | None = None) -> None:
        """Starts an answer.

        Parameters
        ----------
        head : Value
            The first bytes of its content, or all.
        length : ValueLike
            Bytes of its content.
        loaded : int or None
            Bytes to send before the next load; None: all.
        """
        m.d.comb += self._loads.eq(1)
        m.d.comb += self._head.eq(head)
        m.d.sync += self._remaining.eq(length if loaded is None else loaded)
        m.d.sync += self.framer.header.payload.length.eq(length)
        m.next = "HEADER"

    def _answer_status(self, m: Module, status: LinkStatus) -> None:
        """Starts an answer whose content is a status alone."""
        self._answer(m, Value.cast(status), 1)

    def _connect_ports(self, m: Module) -> None:
        """Drives addresses and data of the bus and of the port to memory."""
        written = self._end_of_content(_REGISTER_TO_WRITE)
        m.d.comb += self.bus.address.eq(self._address)
        m.d.comb += self.bus.data.eq(written.value)
        m.d.comb += self.memory.request.payload.eq(struct_value(
            beat_request(_TAG_BITS),
            write=self._has_command(LinkCommand.WRITE_LINE),
            tag=0,
            address=self._address[-LINE_ADDRESS_BITS:],
            beat=self._beat,
            data=self._beat_bytes,
            mask=self._content[:BEAT_BYTES]))

    def _shift_content(self, m: Module) -> None:
        """The shift register: loads, or shifts. While an answer is sent, each shift puts the next
        byte of the line behind the last byte of the head."""
        content = self._content
        received = self.deframer.content
        follower = content[8 * (_HEAD_BYTES - 1):8 * _HEAD_BYTES]
        with m.If(self._loads):
            m.d.sync += content[:8 * _HEAD_BYTES].eq(self._head)
        with m.Elif(self._shifts | received.valid):
            m.d.sync += content.eq(Cat(content[8:], received.payload))
            with m.If(self._sends):
                m.d.sync += follower.eq(self._line_byte)
        m.d.comb += self.framer.content.payload.eq(content[:8])

    def _access_line(self, m: Module) -> None:
        """The memory of the line, and the index of the byte in it."""
        m.submodules.line = line = Memory(shape=8, depth=LINE_BYTES, init=[])
        write = line.write_port()
        read = line.read_port(domain="comb")
        index = self._index
        received = self.deframer.content
        answer = self.memory.response.payload
        answered_byte = answer.data.word_select(index[:_IN_BEAT_BITS], 8)
        m.d.comb += read.addr.eq(index)
        m.d.comb += self._line_byte.eq(read.data)
        m.d.comb += write.en.eq(self._stores_answer | received.valid)
        m.d.comb += write.addr.eq(index)
        m.d.comb += write.data.eq(
            Mux(self._stores_answer, answered_byte, self._content[:8]))

        with m.If(self.deframer.frame.ready):
            m.d.sync += index.eq(index.init)
        with m.Elif(self._clears_index):
            m.d.sync += index.eq(0)
        with m.Elif(self._advances_index | self._sends | received.valid):
            m.d.sync += index.eq(index + 1)

    def _select_next_item(self, m: Module) -> None:
        """Advances the address to the next line or register, and counts down those that remain.
        IDLE sets the first address."""
        with m.If(self._item_is_done):
            m.d.sync += self._count.eq(self._count - 1)
            with m.If(self._has_command(LinkCommand.READ_REGISTERS)):
                m.d.sync += self._address.eq(self._address + _WORD_BYTES)
            with m.Else():
                m.d.sync += self._address.eq(self._address + LINE_BYTES)

    # Methods of the states.

    def _accept(self, m: Module) -> None:
        """IDLE: waits for a frame. The frame is accepted from the deframer only at the end of the
        answer, in CONTENT."""
        request = self._request
        frame = self.deframer.frame
        header = self.framer.header.payload
        is_whole = frame.payload
        with m.State("IDLE"):
            m.d.comb += self._clears_index.eq(frame.valid)
            m.d.sync += header.number.eq(request.number)
            m.d.sync += header.command.eq(request.command | ANSWER)
            m.d.sync += self._address.eq(self._content[-ADDRESS_BITS:])
            m.d.sync += self._count.eq(0)
            with m.If(frame.valid & ~is_whole):
                m.d.sync += header.number.eq(0)
                m.d.sync += header.command.eq(LinkCommand.ANY.value | ANSWER)
                self._answer_status(m, LinkStatus.DAMAGED)
            with m.Elif(frame.valid):
                self._execute(m)

    def _execute(self, m: Module) -> None:
        """IDLE: starts the execution of a whole frame."""
        request = self._request
        registers = self._end_of_content(_REGISTERS_TO_READ)
        register = self._end_of_content(_REGISTER_TO_WRITE)
        lines = self._end_of_content(_LINES_TO_READ)

        def is_request(command: LinkCommand) -> Value:
            return self._has_command(command) & (request.length == REQUEST_BYTES[command])

        with m.If(is_request(LinkCommand.HELLO)):
            m.d.sync += self._next_write.eq(request.number + 1)
            self._answer(m, Cat(Value.cast(LinkStatus.DONE), Const(VERSION, 8)), 2)
        with m.Elif(is_request(LinkCommand.READ_REGISTERS)):
            m.d.sync += self._address.eq(registers.address)
            m.d.sync += self._count.eq(registers.count)
            self._answer(
                m, Value.cast(LinkStatus.DONE), 1 + _WORD_BYTES * registers.count, loaded=1)
        with m.Elif(is_request(LinkCommand.WRITE_REGISTER)):
            m.d.sync += self._address.eq(register.address)
            m.next = "WRITE_REGISTER"
        with m.Elif(is_request(LinkCommand.READ_LINES) & (lines.count != 0)):
            m.d.sync += self._count.eq(lines.count)
            m.next = "REQUEST"
        with m.Elif(is_request(LinkCommand.WRITE_LINE)):
            m.next = "GATHER"
        with m.Else():
            self._answer_status(m, LinkStatus.UNKNOWN)

    def _write_register(self, m: Module) -> None:
        """WRITE_REGISTER: writes the register, unless the request is a repetition or out of
        order."""
        number = self._request.number
        with m.State("WRITE_REGISTER"):
            with m.If(number == self._next_write):
                m.d.comb += self.bus.write.eq(1)
                m.d.sync += self._next_write.eq(self._next_write + 1)
                self._answer_status(m, LinkStatus.DONE)
            with m.Elif(number == (self._next_write - 1)[:8]):
                self._answer_status(m, LinkStatus.DONE)
            with m.Else():
                self._answer_status(m, LinkStatus.ORDER)

    def _gather_beat(self, m: Module) -> None:
        """GATHER: gathers the eight bytes of a beat to write, one a cycle."""
        with m.State("GATHER"):
            m.d.comb += self._advances_index.eq(1)
            m.d.sync += self._beat_bytes.eq(Cat(self._beat_bytes[8:], self._line_byte))
            with m.If(self._is_last_of_beat()):
                m.next = "REQUEST"

    def _request_memory(self, m: Module) -> None:
        """REQUEST: requests a read, or a beat of a write. The mask of the beat is the low byte of
        ``_content``, which holds mask and address of a WRITE_LINE; a shift selects that of the
        next beat."""
        port = self.memory.request
        with m.State("REQUEST"):
            m.d.comb += port.valid.eq(1)
            with m.If(port.ready):
                m.d.comb += self._shifts.eq(1)
                m.d.sync += self._beat.eq(self._beat + port.payload.write)
                with m.If(ends_request(port.payload)):
                    m.next = "RESPONSE"
                with m.Else():
                    m.next = "GATHER"

    def _await_memory(self, m: Module) -> None:
        """RESPONSE: stores a line that was read, a byte a cycle. A beat is accepted with its last
        byte."""
        port = self.memory.response
        answer = port.payload
        status = Mux(answer.error, LinkStatus.MEMORY, LinkStatus.DONE)[:8]
        with m.State("RESPONSE"):
            m.d.comb += port.ready.eq(answer.write | self._is_last_of_beat())
            m.d.comb += self._stores_answer.eq(port.valid & ~answer.write)
            m.d.comb += self._advances_index.eq(self._stores_answer)
            with m.If(port.valid & port.ready & ends_answer(answer)):
                m.d.comb += self._item_is_done.eq(1)
                with m.If(answer.write):
                    self._answer(m, status, 1)
                with m.Else():
                    self._answer(m, Cat(status, self._address), LINE_ANSWER_BYTES)

    def _send_header(self, m: Module) -> None:
        """HEADER: starts the frame of the answer."""
        port = self.framer.header
        with m.State("HEADER"):
            m.d.comb += port.valid.eq(1)
            with m.If(port.ready):
                m.next = "CONTENT"

    def _send_content(self, m: Module) -> None:
        """CONTENT: sends the bytes that are loaded. Then reads the next register, whose word is in
        the same frame, or the next line, which has another frame, or ends the request and releases
        the deframer."""
        port = self.framer.content
        has_more = self._count != 0
        with m.State("CONTENT"):
            m.d.comb += port.valid.eq(self._remaining != 0)
            with m.If(self._remaining == 0):
                m.d.comb += self._clears_index.eq(1)
                with m.If(self._has_command(LinkCommand.READ_REGISTERS) & has_more):
                    m.next = "READ_REGISTER"
                with m.Elif(self._has_command(LinkCommand.READ_LINES) & has_more):
                    m.next = "REQUEST"
                with m.Else():
                    m.d.comb += self.deframer.frame.ready.eq(1)
                    m.next = "IDLE"
            with m.Elif(port.ready):
                m.d.comb += self._sends.eq(1)
                m.d.comb += self._shifts.eq(1)
                m.d.sync += self._remaining.eq(self._remaining - 1)

    def _read_registers(self, m: Module) -> None:
        """READ_REGISTER, VALUE: reads a register; its word is on the bus a cycle later."""
        with m.State("READ_REGISTER"):
            m.d.comb += self.bus.read.eq(1)
            m.next = "VALUE"
        with m.State("VALUE"):
            m.d.comb += self._loads.eq(1)
            m.d.comb += self._head.eq(self.bus.value)
            m.d.comb += self._item_is_done.eq(1)
            m.d.sync += self._remaining.eq(_WORD_BYTES)
            m.next = "CONTENT"
