"""Accesses to words of shared memory and of memory, one at a time."""

from typing import Any

from amaranth.hdl import Assert, Module, Signal, Value, unsigned
from amaranth.lib import data, memory, stream
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.layouts import (
    BEAT_BYTES,
    BEAT_NUMBER_BITS,
    BeatPort,
    Event,
    beat_request,
    ends_answer,
    ends_request,
    shared_clear,
)
from rtl.memory.instruction import OFFSET_BITS, MemoryEvents, memory_tag_bits
from rtl.params import ADDRESS_BITS, SmParams
from rtl.structs import struct_value
from rtl.wires import IN_BLOCKS

from .accumulator import REGISTER_BITS

__all__ = ["BYTE_BITS", "StoredBytes", "WordAccess", "WordRequest"]

_WORD_BYTES = 4
BYTE_BITS = ceil_log2(_WORD_BYTES)
"""Number of low bits of an address that select a byte of its word."""
_BEAT_OFFSET_BITS = ceil_log2(BEAT_BYTES)
_GRANULE_BITS = 8
"""Width of an address in a granule of shared memory, 256 bytes. A CTA's shared memory begins at a
multiple of a granule, and is cleared in whole granules."""


class StoredBytes(data.Struct):
    """The data of a write, and its byte mask."""

    value: unsigned(REGISTER_BITS)
    mask: unsigned(_WORD_BYTES)
    """The bytes that are written."""


class WordRequest(data.Struct):
    """An access to a word."""

    is_shared: unsigned(1)
    """The word is in shared memory, not in memory."""
    is_write: unsigned(1)
    """The access is a write. 0 while no request is valid."""
    address: unsigned(ADDRESS_BITS)
    """The address of the word, or of a byte in it. In shared memory, relative to its begin."""
    stored: StoredBytes
    """The data of a write. Must be 0 unless ``is_write``: it is also the data of clears."""


class WordAccess(Component):
    """Reads or writes a word of shared memory or of memory. One access is in flight.

    ======  ============================================  ==========================================
    access  shared memory                                 memory
    ======  ============================================  ==========================================
    read    ``word`` and ``ready`` in the second cycle    the line is requested; ``word`` with the
            of the request                                word's beat, ``ready`` with the last beat
    write   ``ready`` in the first cycle                  the eight beats of the line are sent, with
                                                          only the word's bytes in their masks;
                                                          ``ready`` with the response
    ======  ============================================  ==========================================

    A clear writes one word of shared memory a cycle. It pauses while the request is a write; reads
    are served at the same time.

    Members
    -------
    request : In(stream of WordRequest)
        ``ready`` when the access is done; the payload must not change before.
    fault : Out(1)
        Memory has answered with an error. Valid in the cycle of ``request.ready``.
    word : Out(Event of 32 bits)
        The word that was read: valid with ``request.ready`` or before. Also valid, without meaning,
        in a write to shared memory.
    clear : In(stream of shared_clear)
        A part of shared memory to fill with zeros. ``ready`` in the cycle after the last word.
    memory : Out(BeatPort)
    events : Out(MemoryEvents)
        ``atomic`` is 0.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "request": In(stream.Signature(WordRequest)),
            "fault": Out(1),
            "word": Out(Event(REGISTER_BITS)),
            "clear": In(stream.Signature(shared_clear(params))),
            "memory": Out(BeatPort(memory_tag_bits(params))),
            "events": Out(MemoryEvents),
        })
        row_bits = params.shared_bits - BYTE_BITS
        self._shared_word = Signal(REGISTER_BITS, name="shared_word")
        self._shared_done = Signal(name="shared_done")
        self._clears = Signal(name="clears")
        """A word of shared memory is cleared in this cycle."""
        self._cleared_row = Signal(row_bits, name="cleared_row")
        self._is_requested = Signal(name="is_requested")
        """All beats of the request are sent; the response has not ended."""
        self._memory_done = Signal(name="memory_done")
        """The last beat of the response arrives in this cycle."""
        self._line_is_requested = Signal(name="line_is_requested")
        """The last beat of a request is sent in this cycle."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._clear_shared(m)
        self._access_shared(m)
        self._request_line(m)
        self._receive_line(m)
        request = self._request
        m.d.comb += self.request.ready.eq(self._memory_done | self._shared_done)
        m.d.comb += self.events.eq(struct_value(
            MemoryEvents, line=self._line_is_requested, write=request.is_write,
            shared=self._shared_done, atomic=0))
        m.d.sync += Assert(
            request.is_write | ~request.stored.as_value().any(), "an unwritten value is not 0")
        return m

    @property
    def _request(self) -> Any:
        """The access."""
        return self.request.payload

    def _clear_shared(self, m: Module) -> None:
        """The words of a clear, one in each cycle in which the request is no write. The bytes are
        rounded up to whole granules."""
        request = self.clear.payload
        granule_row_bits = _GRANULE_BITS - BYTE_BITS
        is_clearing = Signal()
        granules = Signal(len(self._cleared_row) - granule_row_bits + 1)
        ends_granule = self._cleared_row[:granule_row_bits].all()
        m.d.comb += self._clears.eq(
            is_clearing & ~self._request.is_write & granules.any())
        m.d.comb += self.clear.ready.eq(is_clearing & ~granules.any())
        with m.If(~is_clearing):
            m.d.sync += is_clearing.eq(self.clear.valid)
            m.d.sync += self._cleared_row.eq(request.base >> BYTE_BITS)
            m.d.sync += granules.eq(
                (request.bytes >> _GRANULE_BITS) + request.bytes[:_GRANULE_BITS].any())
        with m.Elif(self._clears):
            m.d.sync += self._cleared_row.eq(self._cleared_row + 1)
            m.d.sync += granules.eq(granules - ends_granule)
        with m.Elif(self.clear.ready):
            m.d.sync += is_clearing.eq(0)
        m.d.sync += Assert(
            ~self.clear.valid | ~request.base[:_GRANULE_BITS].any(),
            "shared memory does not begin at a multiple of a granule")

    def _access_shared(self, m: Module) -> None:
        """Shared memory: a read takes two cycles, a write one; a clear uses the write port."""
        row_bits = len(self._cleared_row)
        m.submodules.shared = words = memory.Memory(
            shape=REGISTER_BITS, depth=1 << row_bits, init=[], attrs=IN_BLOCKS)
        read = words.read_port(domain="comb")
        write = words.write_port(granularity=8)
        request = self._request
        row = request.address[BYTE_BITS:self._params.shared_bits]
        is_requested = self.request.valid & request.is_shared
        word_is_read = Signal()
        m.d.comb += read.addr.eq(row)
        m.d.sync += self._shared_word.eq(read.data)
        m.d.sync += word_is_read.eq(is_requested & ~request.is_write & ~word_is_read)
        m.d.comb += self._shared_done.eq(is_requested & (request.is_write | word_is_read))

        m.d.comb += write.addr.eq(row)
        m.d.comb += write.data.eq(request.stored.value)    # 0 while a word is cleared
        with m.If(self._clears):
            m.d.comb += write.addr.eq(self._cleared_row)
            m.d.comb += write.en.eq(~0)
        with m.Elif(is_requested):
            m.d.comb += write.en.eq(request.stored.mask)

    @property
    def _beat(self) -> Value:
        """The beat of the line that has the word."""
        return self._request.address[_BEAT_OFFSET_BITS:OFFSET_BITS]

    @property
    def _is_upper_word(self) -> Value:
        """The word is the upper one of its beat."""
        return self._request.address[BYTE_BITS]

    def _request_line(self, m: Module) -> None:
        """Sends the one beat that requests a read, or the eight beats of a write. The number of the
        beat is 0 again after the last one."""
        request = self._request
        stored = request.stored
        beats = self.memory.request
        beat = beats.payload
        number = Signal(BEAT_NUMBER_BITS)
        mask = Signal(BEAT_BYTES)
        is_sent = Signal()
        m.d.comb += beats.valid.eq(
            self.request.valid & ~request.is_shared & ~self._is_requested)
        m.d.comb += is_sent.eq(beats.valid & beats.ready)
        m.d.comb += self._line_is_requested.eq(is_sent & ends_request(beat))
        with m.If(number == self._beat):
            with m.If(self._is_upper_word):
                m.d.comb += mask.eq(stored.mask << _WORD_BYTES)
            with m.Else():
                m.d.comb += mask.eq(stored.mask)
        m.d.comb += beat.eq(struct_value(
            beat_request(memory_tag_bits(self._params)), write=request.is_write, tag=0,
            address=request.address[OFFSET_BITS:], beat=number,
            data=stored.value.replicate(2), mask=mask))
        with m.If(self._memory_done):
            m.d.sync += self._is_requested.eq(0)
        with m.Elif(is_sent):
            m.d.sync += self._is_requested.eq(ends_request(beat))
        with m.If(is_sent):
            m.d.sync += number.eq(number + request.is_write)

    def _receive_line(self, m: Module) -> None:
        """Receives the response, and selects the word: of memory or of shared memory."""
        response = self.memory.response
        answer = response.payload
        is_beat = response.valid & ~answer.write & (answer.beat == self._beat)
        m.d.comb += response.ready.eq(1)
        m.d.comb += self._memory_done.eq(response.valid & ends_answer(answer))
        m.d.comb += self.fault.eq(self._memory_done & answer.error)
        word = self.word
        m.d.comb += word.valid.eq(is_beat | self._shared_done)
        with m.If(self._request.is_shared):
            m.d.comb += word.payload.eq(self._shared_word)
        with m.Elif(self._is_upper_word):
            m.d.comb += word.payload.eq(answer.data[REGISTER_BITS:])
        with m.Else():
            m.d.comb += word.payload.eq(answer.data[:REGISTER_BITS])
