"""Reading a launch descriptor, and writing the release at the grid's end."""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.qmd import QMD, QMD_BYTES
from rtl.isa.tokens import LINE_BYTES
from rtl.layouts import (
    MemoryPort,
    ends_answer,
)
from rtl.params import ADDRESS_BITS

__all__ = ["LAUNCH_TAG_BITS", "WORD_BITS", "Descriptor", "DescriptorMemory"]

LAUNCH_TAG_BITS = 1
"""Width of the distributor's tags. It has one request under way at a time."""

Descriptor = data.StructLayout({
    name: field.width if field.count == 1 else data.ArrayLayout(field.width, field.count)
    for name, field in QMD.items()})
"""The fields of a descriptor by their names."""

_LINE_BITS = 8 * LINE_BYTES
_LINES = 1 + max(field.lowest(field.count - 1) + field.width - 1 for field in QMD.values()) // _LINE_BITS
"""Lines of a descriptor with fields in them."""
WORD_BITS = 32
_ONE_WORD, _FOUR_WORDS = 0xF, 0xFFFF
"""Bytes of a release."""


class DescriptorMemory(Component):
    """Reads the descriptor line by line, and keeps its fields as they come; writes the release of the descriptor that
    it has.

    Members
    -------
    read, address : In(1), In(40)
        Reads the descriptor at a byte address, a multiple of 256.
    release : In(1)
        Writes RELEASE0_PAYLOAD; bits of the address below the size of what is written are ignored (ours).
    over, failed : Out(1), Out(1)
        For one cycle: what was asked for is done; memory has nothing at the address.
    fields : Out(Descriptor)
    port : Out(MemoryPort)
    """

    def __init__(self) -> None:
        super().__init__({
            "read": In(1), "address": In(ADDRESS_BITS), "release": In(1), "over": Out(1), "failed": Out(1),
            "fields": Out(Descriptor), "port": Out(MemoryPort(LAUNCH_TAG_BITS)), **self.more_ports()})

    def more_ports(self) -> dict[str, Any]:
        """Ports that are otherwise, or that others have not."""
        return {}

    def elaborate(self, platform: object) -> Module:
        m = Module()
        request, response, fields = self.port.request, self.port.response, self.fields
        line = Signal(range(_LINES))
        base = Signal(len(request.payload.address))
        place = Cat(fields["RELEASE0_ADDRESS_LOWER"], fields["RELEASE0_ADDRESS_UPPER"])
        written = self.write_release(m, place)
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
                self.take(m, line)
                with m.If(ends_answer(response.payload)):
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

    def take(self, m: Module, line: Signal) -> None:
        """Keeps the fields of a line."""
        self.keep_fields(m, line, list(QMD))

    def keep_fields(self, m: Module, place: Value, names: Sequence[str]) -> None:
        """Keeps some fields of a part of the descriptor, which is as wide as an answer: of part number ``place``. No
        field lies across two."""
        answer = self.port.response.payload
        bits = len(answer.data)
        parts: dict[int, list[tuple[Value, int]]] = {}
        for name in names:
            field = QMD[name]
            for index in range(field.count):
                number, start = divmod(field.lowest(index), bits)
                assert start + field.width <= bits
                target = self.fields[name] if field.count == 1 else self.fields[name][index]
                parts.setdefault(number, []).append((target, start))
        with m.Switch(place):
            for number, targets in parts.items():
                with m.Case(number):
                    m.d.sync += [target.eq(answer.data[start:start + len(target)]) for target, start in targets]

    def write_release(self, m: Module, place: Value) -> Value:
        """The data of a release: the same in every place of the line where it can be. Returns whether it is all."""
        payload, single = self.fields["RELEASE0_PAYLOAD"], self.fields["RELEASE0_STRUCTURE_SIZE"]
        other = Mux(single, payload, Const(0, WORD_BITS))
        request, words = self.port.request.payload, LINE_BYTES * 8 // WORD_BITS
        offset = place[:LINE_BYTES.bit_length() - 1]
        m.d.comb += [
            request.data.eq(Cat(other if word % 4 else payload for word in range(words))),
            request.mask.eq(Mux(single, Const(_ONE_WORD, LINE_BYTES) << Cat(Const(0, 2), offset[2:]),
                                Const(_FOUR_WORDS, LINE_BYTES) << Cat(Const(0, 4), offset[4:])))]
        return Const(1)


assert _LINES * LINE_BYTES <= QMD_BYTES
