"""The host's link: it carries out what comes in frames, and answers each.

A request's content ends with an address, so that this is at the same place in all of them; numbers begin with their
lowest byte. An answer has the request's number, its command with bit 7 set, and begins with a status.

===============  ======================================  ==========================================================
command          content of the request                  content of the answer
===============  ======================================  ==========================================================
HELLO            none                                    status, version of the protocol
READ_REGISTERS   count of registers, address, 3 bytes    status, 4 bytes a register: those behind each other
WRITE_REGISTER   value, 4 bytes; address, 3 bytes        status
READ_LINES       count, 2 bytes; address, 5 bytes        an answer a line: status, its address, 5 bytes; 64 bytes;
                                                         UNKNOWN alone, if they are none
WRITE_LINE       64 bytes; mask, 8 bytes; address, 5     status
===============  ======================================  ==========================================================

A host that gets no answer, or one with status DAMAGED (number 0, command ANY), asks again with the same number.
Reading, and writing a line, may be done twice. A register is not written twice: each such write has the number behind
that of the write before, or of HELLO; one with the number of the last write is answered and does nothing, one with
another is answered with ORDER.
"""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import enum, stream
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component
from rtl.isa.tokens import LINE_BYTES
from rtl.layouts import BEAT_BYTES, BEATS, HOST_ADDRESS_BITS, BeatPort, HostBus, ends_answer, ends_request
from rtl.params import ADDRESS_BITS, LINE_ADDRESS_BITS

from .frames import Deframer, Framer

__all__ = ["ANSWER", "LINE_ANSWER_BYTES", "REQUEST_BYTES", "VERSION", "HostLink", "LinkCommand", "LinkStatus"]

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
    """What came of a request."""

    DONE = 0
    MEMORY = 1
    """Nothing is mapped at the address."""
    ORDER = 2
    """The number is not that of the next write of a register, nor that of the last one."""
    UNKNOWN = 3
    """No command, not with so many bytes of content, or for no line."""
    DAMAGED = 4


_ADDRESS = ADDRESS_BITS // 8
_MASK, _COUNT, _WORD, _REGISTER = LINE_BYTES // 8, 2, 4, HOST_ADDRESS_BITS // 8
REQUEST_BYTES = {
    LinkCommand.HELLO: 0, LinkCommand.READ_REGISTERS: 1 + _REGISTER, LinkCommand.WRITE_REGISTER: _WORD + _REGISTER,
    LinkCommand.READ_LINES: _COUNT + _ADDRESS, LinkCommand.WRITE_LINE: LINE_BYTES + _MASK + _ADDRESS}
"""Bytes of content that a request has."""
LINE_ANSWER_BYTES = 1 + _ADDRESS + LINE_BYTES
"""Bytes of content of an answer with a line."""
_TAG_BITS = 1
"""As few as a port can have in all languages."""
_MOST = max(REQUEST_BYTES.values())
_END = _MASK + _ADDRESS
"""Bytes of a request's content behind a line."""
_HEAD = 1 + _ADDRESS
"""Bytes of an answer's content before a line, and of one without a line, at most."""
_WITHIN = (BEAT_BYTES - 1).bit_length()


class HostLink(Component):
    """Frames on one side; a bus of registers and a port to memory on the other.

    A line goes between them byte by byte, by way of a memory of LUTs. So a request or an answer of memory with a line
    takes 64 cycles and more here, in which nobody else has the way to memory, or back; on the serial line the line
    takes ten thousand.

    Members
    -------
    received, sent : In(stream of bytes), Out(stream of bytes)
    bus : Out(HostBus)
    memory : Out(BeatPort)
        One request at a time.
    """

    def __init__(self) -> None:
        super().__init__({
            "received": In(stream.Signature(8)), "sent": Out(stream.Signature(8)), "bus": Out(HostBus()),
            "memory": Out(BeatPort(_TAG_BITS))})
        self.deframer, self.framer = Deframer(_MOST), Framer()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.deframer, m.submodules.framer = deframer, framer = self.deframer, self.framer
        connect(m, flipped(self.received), deframer.source)
        connect(m, framer.bytes, flipped(self.sent))
        request, header, frame = deframer.header, framer.header.payload, deframer.frame
        bus, memory = self.bus, self.memory

        # A request's content moves in from above, so that its end is at the top, and what falls out below is a line, if
        # there is one; an answer's content moves out below, and a line follows its head.
        content = Signal(8 * _END)
        line_address, register = content[-8 * _ADDRESS:], content[-8 * _REGISTER:]
        word = content[-8 * (_REGISTER + _WORD):-8 * _REGISTER]
        address, count, expected = Signal(ADDRESS_BITS), Signal(8 * _COUNT), Signal(8)
        left, onward = Signal(range(LINE_ANSWER_BYTES + 1)), Signal()
        head, loaded, moved, sent = Signal(8 * _HEAD), Signal(), Signal(), Signal()

        of_registers = request.command == LinkCommand.READ_REGISTERS.value
        with m.If(onward):
            m.d.sync += [address.eq(address + Mux(of_registers, _WORD, LINE_BYTES)), count.eq(count - 1)]

        # The line, and the number of the byte that comes next.
        m.submodules.line = line = Memory(shape=8, depth=LINE_BYTES, init=[])
        store, load = line.write_port(), line.read_port(domain="comb")
        place, stepped, arrives = Signal(range(LINE_BYTES), init=LINE_BYTES - _END), Signal(), Signal()
        asked, told = memory.request.payload, memory.response.payload
        beat, bytes_of_beat = Signal(range(BEATS)), Signal(8 * BEAT_BYTES)
        of_beat = place[:_WITHIN]
        with m.If(stepped | sent | deframer.content.valid):
            m.d.sync += place.eq(place + 1)
        with m.If(loaded):
            m.d.sync += content[:8 * _HEAD].eq(head)
        with m.Elif(moved | sent | deframer.content.valid):
            m.d.sync += content.eq(Cat(content[8:], deframer.content.payload))
            with m.If(sent):
                m.d.sync += content[8 * (_HEAD - 1):8 * _HEAD].eq(load.data)
        m.d.comb += [
            store.en.eq(arrives | deframer.content.valid), store.addr.eq(place), load.addr.eq(place),
            store.data.eq(Mux(arrives, told.data.word_select(of_beat, 8), content[:8])),
            framer.content.payload.eq(content[:8]), bus.address.eq(address), bus.data.eq(word),
            asked.write.eq(request.command == LinkCommand.WRITE_LINE.value), asked.beat.eq(beat),
            asked.address.eq(address[-LINE_ADDRESS_BITS:]), asked.mask.eq(content[:8]),
            asked.data.eq(bytes_of_beat)]

        def answer(status: Any, *more: Any, there: int | None = None, length: Any = None) -> None:
            """Begins an answer: its first bytes, the count of those that are there already, and of all, if these are
            more."""
            first = Cat(Value.cast(status), *more)
            there = len(first) // 8 if there is None else there
            m.d.comb += [loaded.eq(1), head.eq(first)]
            m.d.sync += [left.eq(there), header.length.eq(there if length is None else length)]
            m.next = "ANSWER"

        with m.FSM(name="link"):
            with m.State("IDLE"):
                m.d.sync += [
                    header.number.eq(request.number), header.command.eq(request.command | ANSWER),
                    address.eq(line_address), count.eq(0)]
                with m.If(frame.valid):
                    m.d.sync += place.eq(0)
                with m.If(frame.valid & ~frame.payload):
                    m.d.sync += [header.number.eq(0), header.command.eq(LinkCommand.ANY.value | ANSWER)]
                    answer(LinkStatus.DAMAGED)
                for command, length in REQUEST_BYTES.items():
                    with m.Elif(frame.valid & (request.command == command.value) & (request.length == length)):
                        match command:
                            case LinkCommand.HELLO:
                                m.d.sync += expected.eq(request.number + 1)
                                answer(LinkStatus.DONE, Const(VERSION, 8))
                            case LinkCommand.READ_REGISTERS:
                                registers = content[-8 * (_REGISTER + 1):-8 * _REGISTER]
                                m.d.sync += [address.eq(register), count.eq(registers)]
                                answer(LinkStatus.DONE, length=1 + _WORD * registers)
                            case LinkCommand.WRITE_REGISTER:
                                m.d.sync += address.eq(register)
                                m.next = "WRITE"
                            case LinkCommand.READ_LINES:
                                lines = content[-8 * (_ADDRESS + _COUNT):-8 * _ADDRESS]
                                m.d.sync += count.eq(lines)
                                m.next = "LINE"
                                with m.If(lines == 0):
                                    answer(LinkStatus.UNKNOWN)
                            case _:
                                m.next = "BEAT"
                with m.Elif(frame.valid):
                    answer(LinkStatus.UNKNOWN)
            with m.State("WRITE"):
                answer(LinkStatus.DONE)
                with m.If(request.number == expected):
                    m.d.comb += bus.write.eq(1)
                    m.d.sync += expected.eq(expected + 1)
                with m.Elif(request.number != (expected - 1)[:8]):
                    answer(LinkStatus.ORDER)
            with m.State("BEAT"):
                m.d.comb += stepped.eq(1)
                m.d.sync += bytes_of_beat.eq(Cat(bytes_of_beat[8:], load.data))
                with m.If(of_beat == BEAT_BYTES - 1):
                    m.next = "LINE"
            with m.State("LINE"):
                m.d.comb += memory.request.valid.eq(1)
                with m.If(memory.request.ready):
                    m.d.comb += moved.eq(1)         # the next beat's mask
                    m.d.sync += beat.eq(beat + asked.write)
                    m.next = "BEAT"
                    with m.If(ends_request(asked)):
                        m.next = "RESPONSE"
            with m.State("RESPONSE"):
                m.d.comb += [
                    memory.response.ready.eq(told.write | (of_beat == BEAT_BYTES - 1)),
                    arrives.eq(memory.response.valid & ~told.write), stepped.eq(arrives)]
                with m.If(memory.response.valid & memory.response.ready & ends_answer(told)):
                    m.d.comb += onward.eq(1)
                    status = Mux(told.error, LinkStatus.MEMORY, LinkStatus.DONE)[:8]
                    answer(status, address, there=LINE_ANSWER_BYTES)
                    with m.If(told.write):
                        answer(status)
            with m.State("ANSWER"):
                m.d.comb += framer.header.valid.eq(1)
                with m.If(framer.header.ready):
                    m.next = "CONTENT"
            with m.State("CONTENT"):
                m.d.comb += framer.content.valid.eq(left != 0)
                with m.If(left == 0):
                    m.d.sync += place.eq(0)
                    m.next = "IDLE"
                    with m.If(of_registers & (count != 0)):
                        m.next = "READ"
                    with m.Elif((request.command == LinkCommand.READ_LINES.value) & (count != 0)):
                        m.next = "LINE"
                    with m.Else():
                        m.d.comb += frame.ready.eq(1)
                with m.Elif(framer.content.ready):
                    m.d.comb += sent.eq(1)
                    m.d.sync += left.eq(left - 1)
            with m.State("READ"):
                m.d.comb += bus.read.eq(1)
                m.next = "VALUE"
            with m.State("VALUE"):
                m.d.comb += [loaded.eq(1), head.eq(bus.value), onward.eq(1)]
                m.d.sync += left.eq(_WORD)
                m.next = "CONTENT"
        with m.If(frame.ready):
            m.d.sync += place.eq(place.init)
        return m
