"""Reads a launch descriptor, and writes the release at the end of the grid."""

from abc import abstractmethod
from typing import Any, ClassVar

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.qmd import QMD, QMD_BYTES
from rtl.isa.tokens import LINE_BYTES
from rtl.layouts import (
    BEAT_BYTES,
    BEATS,
    CONSTANT_BANKS,
    BeatPort,
    Event,
    MemoryPort,
    described_bank,
    ends_answer,
    ends_request,
)
from rtl.params import ADDRESS_BITS, SmParams

__all__ = [
    "LAUNCH_TAG_BITS",
    "BeatDescriptorMemory",
    "Descriptor",
    "DescriptorMemory",
    "LineDescriptorMemory",
]

LAUNCH_TAG_BITS = 1
"""Width of the distributor's tags. One request is in flight at a time, and its tag is always 0."""

Descriptor = data.StructLayout({
    name: field.width if field.count == 1 else data.ArrayLayout(field.width, field.count)
    for name, field in QMD.items()})
"""The fields of a descriptor by their names."""

_LINE_BITS = 8 * LINE_BYTES
_OFFSET_BITS = LINE_BYTES.bit_length() - 1
"""Bits of a byte address within a line."""
_LINES = 1 + max(
    field.lowest(field.count - 1) + field.width - 1 for field in QMD.values()) // _LINE_BITS
"""How many lines are read: those up to the last one that has a field."""
_WORD_BITS = 32
_LINE_WORDS = _LINE_BITS // _WORD_BITS
_BANK_FIELDS = tuple(f"CONSTANT_BUFFER_{name}" for name in ("ADDR_LOWER", "ADDR_UPPER", "SIZE"))
_ONE_WORD = 0xF
_FOUR_WORDS = 0xFFFF
"""Byte masks of a release."""


class DescriptorMemory(Component):
    """Reads the descriptor line by line, and stores its fields; writes the release that these
    fields describe. There are two forms: for a memory port of lines, and for one of beats.

    ::

                read             request accepted        last line, or error
        IDLE ---------> REQUEST ------------------> ANSWER ------------------> IDLE (done)
          |                ^                           |
          |                '---------------------------' next line
          | release         last transfer accepted           response
          '--------> WRITE ------------------------> CONFIRM --------> IDLE (done)

    Members
    -------
    read, address : In(1), In(40)
        Reads the descriptor at a byte address, a multiple of 256. Ignored unless idle.
    release : In(1)
        Writes RELEASE0_PAYLOAD to the release address, rounded down to a multiple of the size that
        is written: 4 or 16 bytes (ours). Ignored unless idle, and never 1 together with ``read``.
    done, failed : Out(1), Out(1)
        ``done`` is 1 for one cycle at the end of a read or a release; ``failed`` is then 1 if
        memory answered with an error. An error ends a read: further lines are not read.
    fields : Out(Descriptor)
        The fields. Each changes in the cycle after its line (or beat) was received, and holds until
        the next read. After a read that failed they are meaningless.
    port : Out(MemoryPort or BeatPort)

    Attributes
    ----------
    streams_banks : bool
        ``fields`` has no constant banks, except for whether they are valid; instead there is a
        member ``bank``, which sends them one by one while the descriptor is read.
    """

    streams_banks = False
    memory_port: ClassVar[type[MemoryPort] | type[BeatPort]] = MemoryPort

    def __init__(self, params: SmParams) -> None:
        members: dict[str, Any] = {
            "read": In(1),
            "address": In(ADDRESS_BITS),
            "release": In(1),
            "done": Out(1),
            "failed": Out(1),
            "fields": Out(Descriptor),
            "port": Out(self.memory_port(LAUNCH_TAG_BITS)),
        }
        if self.streams_banks:
            members["bank"] = Out(Event(described_bank()))
        super().__init__(members)
        self._line = Signal(range(_LINES))
        """Number in the descriptor of the line that is read."""
        self._base = Signal(len(self.port.request.payload.address))
        """Address of the first line, in lines."""
        self._release_address = Cat(
            self.fields["RELEASE0_ADDRESS_LOWER"], self.fields["RELEASE0_ADDRESS_UPPER"])

    def elaborate(self, platform: object) -> Module:
        m = Module()
        request = self.port.request
        response = self.port.response
        line = self._line
        is_last_transfer = self._drive_release(m)
        m.d.comb += response.ready.eq(1)
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += line.eq(0)
                m.d.sync += self._base.eq(self.address[_OFFSET_BITS:])
                with m.If(self.release):
                    m.next = "WRITE"
                with m.Elif(self.read):
                    m.next = "REQUEST"
            with m.State("REQUEST"):
                m.d.comb += request.valid.eq(1)
                m.d.comb += request.payload.address.eq(self._base + line)
                with m.If(request.ready):
                    m.next = "ANSWER"
            with m.State("ANSWER"), m.If(response.valid):
                self._keep_answer(m)
                with m.If(self._line_ends()):
                    m.d.sync += line.eq(line + 1)
                    m.next = "REQUEST"
                    with m.If(response.payload.error | (line == _LINES - 1)):
                        m.d.comb += self.done.eq(1)
                        m.d.comb += self.failed.eq(response.payload.error)
                        m.next = "IDLE"
            with m.State("WRITE"):
                m.d.comb += request.valid.eq(1)
                m.d.comb += request.payload.write.eq(1)
                m.d.comb += request.payload.address.eq(self._release_address[_OFFSET_BITS:])
                with m.If(request.ready & is_last_transfer):
                    m.next = "CONFIRM"
            with m.State("CONFIRM"), m.If(response.valid):
                m.d.comb += self.done.eq(1)
                m.d.comb += self.failed.eq(response.payload.error)
                m.next = "IDLE"
        m.d.sync += Assert(~(self.read & self.release), "a descriptor is read and released")
        return m

    @abstractmethod
    def _line_ends(self) -> Value:
        """Whether the response is the last one of its line."""

    @abstractmethod
    def _keep_answer(self, m: Module) -> None:
        """Stores the fields of the response."""

    @abstractmethod
    def _drive_release(self, m: Module) -> Value:
        """Drives the data and mask of a release. Returns whether this transfer is the last one."""

    def _keep_fields(self, m: Module, part: Value, names: list[str]) -> None:
        """Stores the fields of the part of the descriptor with this number; a part has as many bits
        as a response. No field is split over two parts."""
        answer = self.port.response.payload.data
        bits = len(answer)
        targets: dict[int, list[tuple[Value, int]]] = {}
        for name in names:
            field = QMD[name]
            for index in range(field.count):
                number, start = divmod(field.lowest(index), bits)
                assert start + field.width <= bits
                target = self.fields[name] if field.count == 1 else self.fields[name][index]
                targets.setdefault(number, []).append((target, start))
        with m.Switch(part):
            for number, fields in targets.items():
                with m.Case(number):
                    for target, start in fields:
                        m.d.sync += target.eq(answer[start:start + len(target)])


class LineDescriptorMemory(DescriptorMemory):
    """For a memory port of lines."""

    def _line_ends(self) -> Value:
        return Const(1)

    def _keep_answer(self, m: Module) -> None:
        self._keep_fields(m, self._line, list(QMD))

    def _drive_release(self, m: Module) -> Value:
        """Repeats the release in all places of the line; the mask selects the place."""
        payload = self.fields["RELEASE0_PAYLOAD"]
        is_one_word = self.fields["RELEASE0_STRUCTURE_SIZE"]
        request = self.port.request.payload
        offset = self._release_address[:_OFFSET_BITS]
        other = Mux(is_one_word, payload, Const(0, _WORD_BITS))
        m.d.comb += request.data.eq(
            Cat(other if word % 4 else payload for word in range(_LINE_WORDS)))
        with m.If(is_one_word):
            m.d.comb += request.mask.eq(
                Const(_ONE_WORD, LINE_BYTES) << Cat(Const(0, 2), offset[2:]))
        with m.Else():
            m.d.comb += request.mask.eq(
                Const(_FOUR_WORDS, LINE_BYTES) << Cat(Const(0, 4), offset[4:]))
        return Const(1)


class BeatDescriptorMemory(DescriptorMemory):
    """For a memory port of beats. It does not store addresses and sizes of constant banks, which
    would be most of the bits of ``fields``.

    Members
    -------
    bank : Out(Event of described_bank)
        A constant bank, in the cycle in which the beat with its second half is received. There is
        one event for each bank, whether it is valid or not.
    """

    streams_banks = True
    memory_port = BeatPort

    def _line_ends(self) -> Value:
        return ends_answer(self.port.response.payload)

    def _keep_answer(self, m: Module) -> None:
        beat = Cat(self.port.response.payload.beat, self._line)
        self._keep_fields(m, beat, [name for name in QMD if name not in _BANK_FIELDS])
        self._stream_bank(m, beat)

    def _stream_bank(self, m: Module, beat: Value) -> None:
        """Sends a constant bank with the beat that has its second half. The first half is in the
        beat before, which is the response that was received last."""
        answer = self.port.response.payload.data
        bank = self.bank.payload
        bits = len(answer)
        first = QMD["CONSTANT_BUFFER_SIZE"].lowest(0) // bits
        before = Signal.like(answer)
        m.d.sync += before.eq(answer)

        def read(name: str) -> Value:
            field = QMD[name]
            number, start = divmod(field.lowest(0), bits)
            assert field.lowest(1) - field.lowest(0) == bits and first - number in (0, 1)
            half = answer if number == first else before
            return half[start:start + field.width]

        valid = self.fields["CONSTANT_BUFFER_VALID"].as_value()
        m.d.comb += self.bank.valid.eq((beat >= first) & (beat < first + CONSTANT_BANKS))
        m.d.comb += bank.number.eq(beat - first)
        m.d.comb += bank.bank.valid.eq(valid.bit_select(bank.number, 1))
        m.d.comb += bank.bank.address.eq(
            Cat(read("CONSTANT_BUFFER_ADDR_LOWER"), read("CONSTANT_BUFFER_ADDR_UPPER")))
        m.d.comb += bank.bank.size.eq(read("CONSTANT_BUFFER_SIZE"))

    def _drive_release(self, m: Module) -> Value:
        """Writes a whole line of beats; the mask is 0 in all but the one or two of the release."""
        payload = self.fields["RELEASE0_PAYLOAD"]
        is_one_word = self.fields["RELEASE0_STRUCTURE_SIZE"]
        request = self.port.request
        content = request.payload
        beat = Signal(range(BEATS))
        release_beat = self._release_address[3:6]
        is_upper_word = self._release_address[2]
        with m.If(content.write & request.ready):
            m.d.sync += beat.eq(beat + 1)
        m.d.comb += content.beat.eq(beat)
        zero = Const(0, _WORD_BITS)
        lower = Mux(is_one_word | ~beat[0], payload, zero)
        upper = Mux(is_one_word, payload, zero)
        m.d.comb += content.data.eq(Cat(lower, upper))

        half = BEAT_BYTES // 2
        word_mask = Cat((~is_upper_word).replicate(half), is_upper_word.replicate(half))
        with m.If(is_one_word):
            m.d.comb += content.mask.eq(Mux(beat == release_beat, word_mask, 0))
        with m.Else():
            is_in_release = beat[1:] == release_beat[1:]
            m.d.comb += content.mask.eq(is_in_release.replicate(BEAT_BYTES))
        return ends_request(content)


assert _LINES * LINE_BYTES <= QMD_BYTES
