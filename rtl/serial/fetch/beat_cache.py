"""The cache of a serial machine: for instructions and constants, a beat at a time."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.fetch.loader import TAG_BITS
from rtl.fetch.records import LINE_GROUPS
from rtl.isa.syntax import WORD_BITS
from rtl.isa.tokens import LINE_BYTES
from rtl.layouts import BEAT_NUMBER_BITS, BEATS, BeatPort
from rtl.params import LINE_ADDRESS_BITS, SmParams
from rtl.wires import IN_BLOCKS

__all__ = ["BEAT_ADDRESS_BITS", "BeatCache"]

BEAT_ADDRESS_BITS = LINE_ADDRESS_BITS + BEAT_NUMBER_BITS
"""Width of the address of a beat, of 64 bits."""
_LINE_CONSTANTS = LINE_BYTES // 4


class BeatCache(Component):
    """Direct mapped, by the address in memory, one half for instructions and the other one for constants: as many lines
    as the larger of two caches would have. One beat is looked up at a time; its line comes from memory while whoever
    wants it waits.

    Members
    -------
    address, constant : In(BEAT_ADDRESS_BITS), In(1)
        Of a beat, and in which half it is; both stay from the cycle before ``look`` to ``found``.
    look : In(1)
        It is looked up. Not before the cycle behind the last ``found``.
    found, word, error : Out(1), Out(64), Out(1)
        For one cycle, in which ``look`` is still 1: the beat, or that memory has none. ``word`` stays as long as the
        address does.
    invalidate, busy : In(1), Out(1)
        It becomes empty, a line a cycle, before anything else is looked up; it is about to.
    memory : Out(BeatPort)
    """

    def __init__(self, params: SmParams) -> None:
        self._lines = 2 * max(params.instruction_groups // LINE_GROUPS, params.constant_words // _LINE_CONSTANTS)
        super().__init__({
            "address": In(BEAT_ADDRESS_BITS), "constant": In(1), "look": In(1), "found": Out(1),
            "word": Out(WORD_BITS), "error": Out(1), "invalidate": In(1), "busy": Out(1),
            "memory": Out(BeatPort(TAG_BITS))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        index_bits = ceil_log2(self._lines)
        line, number = self.address[BEAT_NUMBER_BITS:], self.address[:BEAT_NUMBER_BITS]
        index, rest = Cat(line[:index_bits - 1], self.constant), line[index_bits - 1:]
        tag = data.StructLayout({"valid": 1, "error": 1, "line": len(rest)})
        m.submodules.tags = tags = memory.Memory(shape=tag, depth=self._lines, init=[], attrs=IN_BLOCKS)
        m.submodules.rows = rows = memory.Memory(
            shape=WORD_BITS, depth=self._lines * BEATS, init=[], attrs=IN_BLOCKS)
        tag_in, tag_out = tags.write_port(), tags.read_port(domain="comb")
        row_in, row_out = rows.write_port(), rows.read_port(domain="comb")
        request, response = self.memory.request, self.memory.response
        there: Any = Signal(tag)
        m.d.sync += [there.eq(tag_out.data), self.word.eq(row_out.data)]
        clearing, cleared, came = Signal(), Signal(index_bits), response.payload

        m.d.comb += [
            tag_out.addr.eq(index), row_out.addr.eq(Cat(number, index)),
            self.error.eq(there.error), request.payload.address.eq(line), response.ready.eq(1),
            row_in.addr.eq(Cat(came.beat, index)), row_in.data.eq(came.data), row_in.en.eq(response.valid),
            tag_in.addr.eq(Mux(clearing, cleared, index)), tag_in.data.valid.eq(~clearing),
            tag_in.data.error.eq(came.error), tag_in.data.line.eq(rest), tag_in.en.eq(clearing)]
        with m.If(self.invalidate):
            m.d.sync += self.busy.eq(1)

        with m.FSM():
            with m.State("IDLE"):
                with m.If(self.busy):
                    m.next = "CLEAR"
                with m.Elif(self.look):
                    m.next = "COMPARE"
            with m.State("READ"):
                m.next = "COMPARE"
            with m.State("COMPARE"):
                m.d.comb += self.found.eq(there.valid & (there.line == rest))
                m.next = "ASK"
                with m.If(self.found):
                    m.next = "IDLE"
            with m.State("ASK"):
                m.d.comb += request.valid.eq(1)
                with m.If(request.ready):
                    m.next = "FILL"
            with m.State("FILL"), m.If(response.valid & (came.beat == BEATS - 1)):
                m.d.comb += tag_in.en.eq(1)
                m.next = "READ"
            with m.State("CLEAR"):
                m.d.comb += clearing.eq(1)
                m.d.sync += cleared.eq(cleared + 1)
                with m.If(cleared.all()):
                    m.d.sync += self.busy.eq(self.invalidate)
                    m.next = "IDLE"
        return m
