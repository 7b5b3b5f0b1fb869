"""The host's link: executes the requests that come in frames, and answers each.

A request's content ends with an address, so that this is at the same place in all of them; numbers
begin with their lowest byte. An answer has the request's number, its command with bit 7 set, and
begins with a status.

===============  ===============================  ================================================
command          content of the request           content of the answer
===============  ===============================  ================================================
HELLO            none                             status, version of the protocol
READ_REGISTERS   count of registers, address, 3   status, 4 bytes a register, of consecutive
                 bytes                            registers
WRITE_REGISTER   value, 4 bytes; address, 3       status
                 bytes
READ_LINES       count, 2 bytes; address, 5       an answer a line: status, its address, 5 bytes;
                 bytes                            64 bytes; UNKNOWN alone, if they are none
WRITE_LINE       64 bytes; mask, 8 bytes;         status
                 address, 5 bytes
===============  ===============================  ================================================

A host that gets no answer, or one with status DAMAGED (number 0, command ANY), repeats the request
with the same number. Reading, and writing a line, may be done twice. A register is not written
twice: each such write has the number after that of the write before, or of HELLO; one with the
number of the last write is answered and does nothing, one with another is answered with ORDER.
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
"""Of the protocol."""
ANSWER = 0x80
"""The bit of the command that an answer has set."""


class LinkCommand(enum.Enum, shape=8):
    """What a frame is for."""

    HELLO = 0
    READ_REGISTERS = 1
    WRITE_REGISTER = 2
    READ_LINES = 3
    WRITE_LINE = 4
    ANY = 0x7F
    """Of the answer to a frame that was damaged."""


class LinkStatus(enum.Enum, shape=8):
    """The result of a request."""

    DONE = 0
    MEMORY = 1
    """Nothing is mapped at the address."""
    ORDER = 2
    """The number is not that of the next write of a register, nor that of the last one."""
    UNKNOWN = 3
    """No such command, not with so many bytes of content, or for no line."""
    DAMAGED = 4


_WORD_BYTES = 4
_ADDRESS_BYTES = ADDRESS_BITS // 8
_IN_BEAT_BITS = (BEAT_BYTES - 1).bit_length()
_TAG_BITS = 1
"""As few as a port can have in all languages."""

_REGISTERS_TO_READ = data.StructLayout({"count": 8, "address": HOST_ADDRESS_BITS})
_REGISTER_TO_WRITE = data.StructLayout({"value": 8 * _WORD_BYTES, "address": HOST_ADDRESS_BITS})
_LINES_TO_READ = data.StructLayout({"count": 16, "address": ADDRESS_BITS})
_LINE_TO_WRITE = data.StructLayout({"mask": LINE_BYTES, "address": ADDRESS_BITS})
"""The end of a request's content; of WRITE_LINE, what follows the line."""
REQUEST_BYTES = {
    LinkCommand.HELLO: 0,
    LinkCommand.READ_REGISTERS: _REGISTERS_TO_READ.size // 8,
    LinkCommand.WRITE_REGISTER: _REGISTER_TO_WRITE.size // 8,
    LinkCommand.READ_LINES: _LINES_TO_READ.size // 8,
    LinkCommand.WRITE_LINE: LINE_BYTES + _LINE_TO_WRITE.size // 8,
}
"""Bytes of content that a request has."""
LINE_ANSWER_BYTES = 1 + _ADDRESS_BYTES + LINE_BYTES
"""Bytes of content of an answer with a line."""
_MOST_BYTES = max(REQUEST_BYTES.values())
_END_BYTES = _LINE_TO_WRITE.size // 8
"""Bytes of a request's content behind a line, and of one without a line, at most."""
_HEAD_BYTES = 1 + _ADDRESS_BYTES
"""Bytes of an answer's content before a line, and of one without a line, at most."""


class HostLink(Component):
    """Frames on one side; a bus of registers and a port to memory on the other.

    One request at a time, a state machine with a method a state. What follows IDLE:

    ==============  ==========================================================================
    HELLO, errors   HEADER, CONTENT
    READ_REGISTERS  HEADER, CONTENT; READ_REGISTER, VALUE, CONTENT for each register
    WRITE_REGISTER  WRITE_REGISTER, HEADER, CONTENT
    READ_LINES      REQUEST, RESPONSE, HEADER, CONTENT for each line
    WRITE_LINE      GATHER, REQUEST for each of eight beats; RESPONSE, HEADER, CONTENT
    ==============  ==========================================================================

    Content goes byte by byte: ``content`` is a shift register. A request moves in from above, so
    that its end is at the top; what falls out below is the line of a WRITE_LINE, and is stored in a
    memory of LUTs. An answer moves out below: first its head, then a line from that memory, or a
    register's word.

    So a request or an answer of memory with a line takes 64 cycles and more here, in which nobody
    else can use the way to memory, or back; on the serial line it takes ten thousand.

    Members
    -------
    received, sent : In(stream of bytes), Out(stream of bytes)
    bus : Out(HostBus)
    memory : Out(BeatPort)
        One request at a time.
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
        # The request: from the frame's end on, until it is answered.
        self._request = self.deframer.header
        self._address = Signal(ADDRESS_BITS)
        """Of the line or register, in bytes; of several, of the next one."""
        self._count = Signal(16)
        """Lines or registers that are still to be read."""
        self._next_write = Signal(8)
        """The number of the next WRITE_REGISTER."""
        self._is_answered = Signal()
        """A line or a register has been read or written: the next one follows."""

        # The shift register: moves by a byte, or is loaded with an answer's head. Bytes of the
        # answer that are still to be sent, and whether one is sent.
        self._content = Signal(8 * _END_BYTES)
        self._shifts = Signal()
        self._loads = Signal()
        self._head = Signal(8 * _HEAD_BYTES)
        self._remaining = Signal(range(LINE_ANSWER_BYTES + 1))
        self._sends = Signal()

        # The line: the number of its byte that is read or written. As a request's content moves in,
        # byte 0 falls out behind so many others.
        self._place = Signal(range(LINE_BYTES), init=LINE_BYTES - _END_BYTES)
        self._restarts = Signal()
        self._steps = Signal()
        self._stores_answer = Signal()
        """The byte is written with that of memory's answer."""
        self._line_byte = Signal(8)
        """The byte that is read."""
        self._beat = Signal(range(BEATS))
        """The beat that is written to memory, and its bytes."""
        self._beat_bytes = Signal(8 * BEAT_BYTES)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.deframer = self.deframer
        m.submodules.framer = self.framer
        connect(m, flipped(self.received), self.deframer.source)
        connect(m, self.framer.bytes, flipped(self.sent))
        self._connect_ports(m)
        self._shift_content(m)
        self._access_line(m)
        self._count_up(m)
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

    # What the states use.

    def _end_of_content(self, layout: data.StructLayout) -> Any:
        """The end of the request's content."""
        return data.View(layout, self._content[-layout.size:])

    def _has_command(self, command: LinkCommand) -> Value:
        """Whether the request has this command."""
        return self._request.command == command.value

    def _is_last_of_beat(self) -> Value:
        """Whether the present byte of the line is the last one of its beat."""
        return self._place[:_IN_BEAT_BITS] == BEAT_BYTES - 1

    def _answer(self, m: Module, head: Value, length: Any, *, loaded: int | None = None) -> None:
        """Begins an answer with this head, and so many bytes of content. ``loaded``: as many of
        them are there already, if not all."""
        m.d.comb += self._loads.eq(1)
        m.d.comb += self._head.eq(head)
        m.d.sync += self._remaining.eq(length if loaded is None else loaded)
        m.d.sync += self.framer.header.payload.length.eq(length)
        m.next = "HEADER"

    def _answer_status(self, m: Module, status: LinkStatus) -> None:
        """Begins an answer of a status alone."""
        self._answer(m, Value.cast(status), 1)

    def _connect_ports(self, m: Module) -> None:
        """What bus and memory are driven with."""
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
        """The shift register. While an answer is sent, bytes of the line follow its head."""
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
        """The memory of the line, and the number of the byte in it."""
        m.submodules.line = line = Memory(shape=8, depth=LINE_BYTES, init=[])
        write = line.write_port()
        read = line.read_port(domain="comb")
        place = self._place
        received = self.deframer.content
        answer = self.memory.response.payload
        answered_byte = answer.data.word_select(place[:_IN_BEAT_BITS], 8)
        m.d.comb += read.addr.eq(place)
        m.d.comb += self._line_byte.eq(read.data)
        m.d.comb += write.en.eq(self._stores_answer | received.valid)
        m.d.comb += write.addr.eq(place)
        m.d.comb += write.data.eq(
            Mux(self._stores_answer, answered_byte, self._content[:8]))

        with m.If(self.deframer.frame.ready):
            m.d.sync += place.eq(place.init)
        with m.Elif(self._restarts):
            m.d.sync += place.eq(0)
        with m.Elif(self._steps | self._sends | received.valid):
            m.d.sync += place.eq(place + 1)

    def _count_up(self, m: Module) -> None:
        """The next line or register. IDLE sets the first one."""
        with m.If(self._is_answered):
            m.d.sync += self._count.eq(self._count - 1)
            with m.If(self._has_command(LinkCommand.READ_REGISTERS)):
                m.d.sync += self._address.eq(self._address + _WORD_BYTES)
            with m.Else():
                m.d.sync += self._address.eq(self._address + LINE_BYTES)

    # The states.

    def _accept(self, m: Module) -> None:
        """IDLE: a frame. It stays in the deframer until it is answered."""
        request = self._request
        frame = self.deframer.frame
        header = self.framer.header.payload
        is_whole = frame.payload
        with m.State("IDLE"):
            m.d.comb += self._restarts.eq(frame.valid)
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
        """IDLE: what a whole frame requests."""
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
        """WRITE_REGISTER: if it has not been written by a request with this number before."""
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
        """GATHER: the bytes of a beat to write."""
        with m.State("GATHER"):
            m.d.comb += self._steps.eq(1)
            m.d.sync += self._beat_bytes.eq(Cat(self._beat_bytes[8:], self._line_byte))
            with m.If(self._is_last_of_beat()):
                m.next = "REQUEST"

    def _request_memory(self, m: Module) -> None:
        """REQUEST: a beat of a write, or a read. The next beat's mask is the next byte of
        ``content``."""
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
        """RESPONSE: a line that was read is stored byte by byte; a beat is taken with its last
        one."""
        port = self.memory.response
        answer = port.payload
        status = Mux(answer.error, LinkStatus.MEMORY, LinkStatus.DONE)[:8]
        with m.State("RESPONSE"):
            m.d.comb += port.ready.eq(answer.write | self._is_last_of_beat())
            m.d.comb += self._stores_answer.eq(port.valid & ~answer.write)
            m.d.comb += self._steps.eq(self._stores_answer)
            with m.If(port.valid & port.ready & ends_answer(answer)):
                m.d.comb += self._is_answered.eq(1)
                with m.If(answer.write):
                    self._answer(m, status, 1)
                with m.Else():
                    self._answer(m, Cat(status, self._address), LINE_ANSWER_BYTES)

    def _send_header(self, m: Module) -> None:
        """HEADER: the answer's frame begins."""
        port = self.framer.header
        with m.State("HEADER"):
            m.d.comb += port.valid.eq(1)
            with m.If(port.ready):
                m.next = "CONTENT"

    def _send_content(self, m: Module) -> None:
        """CONTENT: the bytes that are there. Then the next register, whose word belongs to the same
        frame; the next line, with a frame of its own; or the request is done."""
        port = self.framer.content
        has_more = self._count != 0
        with m.State("CONTENT"):
            m.d.comb += port.valid.eq(self._remaining != 0)
            with m.If(self._remaining == 0):
                m.d.comb += self._restarts.eq(1)
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
        """READ_REGISTER, VALUE: a register's word, which the bus has a cycle later."""
        with m.State("READ_REGISTER"):
            m.d.comb += self.bus.read.eq(1)
            m.next = "VALUE"
        with m.State("VALUE"):
            m.d.comb += self._loads.eq(1)
            m.d.comb += self._head.eq(self.bus.value)
            m.d.comb += self._is_answered.eq(1)
            m.d.sync += self._remaining.eq(_WORD_BYTES)
            m.next = "CONTENT"
