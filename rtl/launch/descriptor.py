"""Reading a launch descriptor, and writing the release at the grid's end."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.qmd import QMD, QMD_BYTES
from rtl.isa.tokens import LINE_BYTES
from rtl.layouts import MemoryPort
from rtl.params import ADDRESS_BITS

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
_ONE_WORD, _FOUR_WORDS = 0xF, 0xFFFF
"""Bytes of a release."""




class DescriptorMemory(Component):
    """Reads the descriptor line by line, and keeps its fields; writes the release of the descriptor that it has.

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
            "fields": Out(Descriptor), "port": Out(MemoryPort(LAUNCH_TAG_BITS))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        request, response, fields = self.port.request, self.port.response, self.fields
        line = Signal(range(_LINES))
        base = Signal(len(request.payload.address))
        place = Cat(fields["RELEASE0_ADDRESS_LOWER"], fields["RELEASE0_ADDRESS_UPPER"])
        self._release(m, place)
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
                m.d.sync += line.eq(line + 1)
                m.next = "ASK"
                with m.If(response.payload.error | (line == _LINES - 1)):
                    m.d.comb += [self.over.eq(1), self.failed.eq(response.payload.error)]
                    m.next = "IDLE"
            with m.State("WRITE"):
                m.d.comb += [
                    request.valid.eq(1), request.payload.write.eq(1),
                    request.payload.address.eq(place[LINE_BYTES.bit_length() - 1:])]
                with m.If(request.ready):
                    m.next = "WRITTEN"
            with m.State("WRITTEN"), m.If(response.valid):
                m.d.comb += [self.over.eq(1), self.failed.eq(response.payload.error)]
                m.next = "IDLE"
        return m

    def _take(self, m: Module, line: Signal) -> None:
        """Keeps the fields of a line. None lies across two."""
        content = self.port.response.payload.data
        with m.Switch(line):
            for number in range(_LINES):
                with m.Case(number):
                    for name, field in QMD.items():
                        for index in range(field.count):
                            first, start = divmod(field.lowest(index), _LINE_BITS)
                            target = self.fields[name] if field.count == 1 else self.fields[name][index]
                            if first == number:
                                m.d.sync += target.eq(content[start:start + field.width])

    def _release(self, m: Module, place: Cat) -> None:
        """The data of a release: the same in every place of the line where it can be."""
        payload, single = self.fields["RELEASE0_PAYLOAD"], self.fields["RELEASE0_STRUCTURE_SIZE"]
        other = Mux(single, payload, Const(0, _WORD_BITS))
        request, words = self.port.request.payload, LINE_BYTES * 8 // _WORD_BITS
        offset = place[:LINE_BYTES.bit_length() - 1]
        m.d.comb += [
            request.data.eq(Cat(other if word % 4 else payload for word in range(words))),
            request.mask.eq(Mux(single, Const(_ONE_WORD, LINE_BYTES) << Cat(Const(0, 2), offset[2:]),
                                Const(_FOUR_WORDS, LINE_BYTES) << Cat(Const(0, 4), offset[4:])))]


assert _LINES * LINE_BYTES <= QMD_BYTES
