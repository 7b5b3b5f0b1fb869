"""Words of shared memory and of memory, one at a time."""

from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal
from amaranth.lib import memory, stream
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.layouts import BEAT_BYTES, BEAT_NUMBER_BITS, BeatPort, ends_answer, ends_request
from rtl.memory.banks import clear_request
from rtl.memory.instruction import OFFSET_BITS, MemoryEvents, memory_tag_bits
from rtl.params import ADDRESS_BITS, SmParams
from rtl.wires import IN_BLOCKS

__all__ = ["WordAccess"]

_WORD_AT = 2
"""Lowest bit of an address that tells words apart."""
_BEAT_AT = ceil_log2(BEAT_BYTES)
_GRANULE_BITS = 8
"""A CTA's shared memory begins, and is cleared, in pieces of so many bytes, as a power of two."""


class WordAccess(Component):
    """Reads or writes a word of shared memory, or of memory: then it asks for the whole line, or writes it with all
    but the word masked.

    Members
    -------
    valid : In(1)
        A word is asked for, until it is ``done``; what is asked stays the same.
    shared, write, place, mask, value : In
        In shared memory; the address of the word, or of what is in it; the bytes that are written. Both are 0 where
        nothing is written.
    comes, word : Out(1), Out(32)
        The word that is read, before it is ``done`` or in that cycle.
    done, fault : Out(1)
        Memory has done it, or tells that nothing is mapped there.
    clear : In(stream of clear_request)
        Shared memory is cleared a word a cycle, when none is written. A transfer tells that it is done.
    memory : Out(BeatPort)
    events : Out(MemoryEvents)
        But for atomic operations.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "valid": In(1), "shared": In(1), "write": In(1), "place": In(ADDRESS_BITS), "mask": In(4), "value": In(32),
            "comes": Out(1), "word": Out(32), "done": Out(1), "fault": Out(1),
            "clear": In(stream.Signature(clear_request(params))), "memory": Out(BeatPort(memory_tag_bits(params))),
            "events": Out(MemoryEvents)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        in_shared, shared_word, shared_done = self._shared(m)
        line_comes, line_word, line_done, line_fault = self._line(m)
        m.d.comb += [
            self.word.eq(Mux(self.shared, shared_word, line_word)), self.comes.eq(line_comes | shared_done),
            self.done.eq(line_done | shared_done), self.fault.eq(line_fault), self.events.shared.eq(in_shared)]
        return m

    def _shared(self, m: Module) -> tuple[Any, Any, Any]:
        """Shared memory: an access, the word, and that it is done. A word is there a cycle after it is asked for."""
        bits = self._params.shared_bits
        row_bits, piece_bits = bits - _WORD_AT, _GRANULE_BITS - _WORD_AT
        m.submodules.shared = words = memory.Memory(shape=32, depth=1 << row_bits, init=[], attrs=IN_BLOCKS)
        read, write, word = words.read_port(domain="comb"), words.write_port(granularity=8), Signal(32)
        asked, row, here = self.valid & self.shared, self.place[_WORD_AT:bits], Signal()

        clear, clearing = self.clear.payload, Signal()
        cleared, left = Signal(row_bits), Signal(row_bits - piece_bits + 1)
        clears = clearing & ~self.write & left.any()
        m.d.comb += self.clear.ready.eq(clearing & ~left.any())
        with m.If(~clearing):
            m.d.sync += [
                clearing.eq(self.clear.valid), cleared.eq(clear.shared_base >> _WORD_AT),
                left.eq((clear.bytes >> _GRANULE_BITS) + clear.bytes[:_GRANULE_BITS].any())]
        with m.Elif(clears):
            m.d.sync += [cleared.eq(cleared + 1), left.eq(left - cleared[:piece_bits].all())]
        with m.Elif(self.clear.ready):
            m.d.sync += clearing.eq(0)
        m.d.sync += Assert(~self.clear.valid | ~clear.shared_base[:_GRANULE_BITS].any(),
                           "shared memory does not begin with a piece")

        m.d.comb += [
            read.addr.eq(row), write.addr.eq(Mux(clears, cleared, row)), write.data.eq(self.value),
            write.en.eq(Mux(asked, self.mask, 0) | clears.replicate(4))]
        m.d.sync += [word.eq(read.data), here.eq(asked & ~self.write & ~here),
                     Assert(self.write | ~Cat(self.mask, self.value).any(), "what nobody writes is not 0")]
        done = asked & (self.write | here)
        return done, word, done

    def _line(self, m: Module) -> tuple[Any, Any, Any, Any]:
        """Memory: the word comes; the word; the access is done; it has a fault."""
        request, response, place = self.memory.request, self.memory.response, self.place
        asked, number, beat, upper = Signal(), Signal(BEAT_NUMBER_BITS), place[_BEAT_AT:OFFSET_BITS], place[_WORD_AT]
        own, payload = Signal(), request.payload
        m.d.comb += [
            own.eq(number == beat), request.valid.eq(self.valid & ~self.shared & ~asked), payload.write.eq(self.write),
            payload.address.eq(place[OFFSET_BITS:]), payload.beat.eq(number),
            payload.data.eq(Cat(self.value, self.value)),
            payload.mask.eq(Cat(Mux(own & ~upper, self.mask, 0), Mux(own & upper, self.mask, 0))),
            response.ready.eq(1)]
        sent = request.valid & request.ready
        with m.If(sent):
            m.d.sync += [asked.eq(ends_request(payload)), number.eq(number + self.write)]
        answer = response.payload
        ends = response.valid & ends_answer(answer)
        with m.If(ends):
            m.d.sync += asked.eq(0)
        m.d.comb += [self.events.line.eq(sent & ends_request(payload)), self.events.write.eq(self.write)]
        comes = response.valid & ~answer.write & (answer.beat == beat)
        return comes, Mux(upper, answer.data[32:], answer.data[:32]), ends, ends & answer.error
