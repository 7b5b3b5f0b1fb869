"""Reading a launch descriptor, and writing the release at the grid's end."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.qmd import QMD, QMD_BYTES
from rtl.isa.tokens import LINE_BYTES
from rtl.layouts import (
    BEAT_BYTES,
    BEATS,
    CONSTANT_BANKS,
    EventLayout,
    described_bank,
    ends_answer,
    ends_request,
    memory_port,
)
from rtl.params import ADDRESS_BITS, SmParams

__all__ = ["LAUNCH_TAG_BITS", "Descriptor", "DescriptorMemory"]

LAUNCH_TAG_BITS = 1
"""Width of the distributor's tags. It has one request under way at a time."""

Descriptor = data.StructLayout({
    name: field.width if field.count == 1 else data.ArrayLayout(field.width, field.count)
    for name, field in QMD.items()})
"""The fields of a descriptor by their names."""

_LINE_BITS = 8 * LINE_BYTES
_LINES = 1 + max(field.lowest(field.count - 1) + field.width - 1 for field in QMD.values()) // _LINE_BITS
"""Lines of a descriptor with fields in them."""
_WORD_BITS = 32
_BANK_FIELDS = tuple(f"CONSTANT_BUFFER_{name}" for name in ("ADDR_LOWER", "ADDR_UPPER", "SIZE"))
_ONE_WORD, _FOUR_WORDS = 0xF, 0xFFFF
"""Bytes of a release."""


class DescriptorMemory(Component):
    """Reads the descriptor line by line, and keeps its fields as they come, of whole lines or of beats; writes the
    release of the descriptor that it has.

    Members
    -------
    read, address : In(1), In(40)
        Reads the descriptor at a byte address, a multiple of 256.
    release : In(1)
        Writes RELEASE0_PAYLOAD; bits of the address below the size of what is written are ignored (ours).
    over, failed : Out(1), Out(1)
        For one cycle: what was asked for is done; memory has nothing at the address.
    fields : Out(Descriptor)
    bank : Out(EventLayout of described_bank)
        In a serial machine, where constant banks are no ``fields``: each of them, when it is read.
    port : Out(memory_port)
    """

    def __init__(self, params: SmParams) -> None:
        self._in_beats = params.serial
        super().__init__({
            "read": In(1), "address": In(ADDRESS_BITS), "release": In(1), "over": Out(1), "failed": Out(1),
            "fields": Out(Descriptor), "port": Out(memory_port(params, LAUNCH_TAG_BITS)),
            **({"bank": Out(EventLayout(described_bank()))} if params.serial else {})})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        request, response, fields = self.port.request, self.port.response, self.fields
        line = Signal(range(_LINES))
        base = Signal(len(request.payload.address))
        place = Cat(fields["RELEASE0_ADDRESS_LOWER"], fields["RELEASE0_ADDRESS_UPPER"])
        line_answered: Any = ends_answer(response.payload) if self._in_beats else 1
        written: Any = self._release_beat(m, place) if self._in_beats else self._release(m, place)
        m.d.comb += response.ready.eq(1)
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += [line.eq(0), base.eq(self.address[LINE_BYTES.bit_length() - 1:])]
                with m.If(self.read):
                    m.next = "ASK"
                with m.If(self.release):
                    m.next = "WRITE"
            with m.State("ASK"):
                m.d.comb += [request.valid.eq(1), request.payload.address.eq(base + line)]
                with m.If(request.ready):
                    m.next = "TAKE"
            with m.State("TAKE"), m.If(response.valid):
                self._take(m, line)
                if self._in_beats:
                    self._tell_bank(m, Cat(response.payload.beat, line))
                with m.If(line_answered):
                    m.d.sync += line.eq(line + 1)
                    m.next = "ASK"
                    with m.If(response.payload.error | (line == _LINES - 1)):
                        m.d.comb += [self.over.eq(1), self.failed.eq(response.payload.error)]
                        m.next = "IDLE"
            with m.State("WRITE"):
                m.d.comb += [
                    request.valid.eq(1), request.payload.write.eq(1),
                    request.payload.address.eq(place[LINE_BYTES.bit_length() - 1:])]
                with m.If(request.ready & written):
                    m.next = "WRITTEN"
            with m.State("WRITTEN"), m.If(response.valid):
                m.d.comb += [self.over.eq(1), self.failed.eq(response.payload.error)]
                m.next = "IDLE"
        return m

    def _take(self, m: Module, line: Signal) -> None:
        """Keeps the fields of a line, or of a beat of it. None lies across two."""
        answer = self.port.response.payload
        bits = len(answer.data)
        parts: dict[int, list[tuple[Value, int]]] = {}
        for name, field in QMD.items():
            if self._in_beats and name in _BANK_FIELDS:
                continue
            for index in range(field.count):
                number, start = divmod(field.lowest(index), bits)
                assert start + field.width <= bits
                target = self.fields[name] if field.count == 1 else self.fields[name][index]
                parts.setdefault(number, []).append((target, start))
        with m.Switch(Cat(answer.beat, line) if self._in_beats else line):
            for number, targets in parts.items():
                with m.Case(number):
                    m.d.sync += [target.eq(answer.data[start:start + len(target)]) for target, start in targets]

    def _tell_bank(self, m: Module, number: Value) -> None:
        """A constant bank, when its second half comes: the first one is in the beat before."""
        answer, told = self.port.response.payload.data, self.bank.payload
        parts, before = [], Signal.like(answer)
        first, bits = QMD["CONSTANT_BUFFER_SIZE"].lowest(0) // len(answer), len(answer)
        for name in _BANK_FIELDS:
            field = QMD[name]
            beat, start = divmod(field.lowest(0), bits)
            assert field.lowest(1) - field.lowest(0) == bits and first - beat in (0, 1)
            parts.append((answer if beat == first else before)[start:start + field.width])
        lower, upper, size = parts
        m.d.sync += before.eq(answer)
        m.d.comb += [
            told.number.eq(number - first),
            self.bank.valid.eq((number >= first) & (number < first + CONSTANT_BANKS)),
            told.bank.valid.eq(self.fields["CONSTANT_BUFFER_VALID"].as_value().bit_select(told.number, 1)),
            told.bank.address.eq(Cat(lower, upper)), told.bank.size.eq(size)]

    def _release(self, m: Module, place: Cat) -> int:
        """The data of a release: the same in every place of the line where it can be. Returns that it is all."""
        payload, single = self.fields["RELEASE0_PAYLOAD"], self.fields["RELEASE0_STRUCTURE_SIZE"]
        other = Mux(single, payload, Const(0, _WORD_BITS))
        request, words = self.port.request.payload, LINE_BYTES * 8 // _WORD_BITS
        offset = place[:LINE_BYTES.bit_length() - 1]
        m.d.comb += [
            request.data.eq(Cat(other if word % 4 else payload for word in range(words))),
            request.mask.eq(Mux(single, Const(_ONE_WORD, LINE_BYTES) << Cat(Const(0, 2), offset[2:]),
                                Const(_FOUR_WORDS, LINE_BYTES) << Cat(Const(0, 4), offset[4:])))]
        return 1

    def _release_beat(self, m: Module, place: Cat) -> Value:
        """A beat of that line, of which one or two have the release. Returns whether it is the last one."""
        payload, single = self.fields["RELEASE0_PAYLOAD"], self.fields["RELEASE0_STRUCTURE_SIZE"]
        request, beat = self.port.request, Signal(range(BEATS))
        content, number, upper = request.payload, place[3:6], place[2]
        word = Cat(half.replicate(BEAT_BYTES // 2) for half in (~upper, upper))
        with m.If(content.write & request.ready):
            m.d.sync += beat.eq(beat + 1)
        m.d.comb += [
            content.beat.eq(beat), content.data.eq(Cat(
                Mux(single | ~beat[0], payload, Const(0, _WORD_BITS)), Mux(single, payload, Const(0, _WORD_BITS)))),
            content.mask.eq(Mux(
                single, Mux(beat == number, word, 0), (beat[1:] == number[1:]).replicate(BEAT_BYTES)))]
        return ends_request(content)


assert _LINES * LINE_BYTES <= QMD_BYTES
