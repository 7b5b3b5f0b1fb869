"""Connects a machine of one lane, whose port transfers beats, to a memory of lines."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.layouts import (
    BEAT_BYTES,
    BEAT_NUMBER_BITS,
    BeatPort,
    MemoryPort,
    ends_answer,
    ends_request,
)

__all__ = ["BeatLines"]


class BeatLines(Component):
    """Gathers the beats of a request, and splits a response into beats.

    Members
    -------
    beats : In(BeatPort)
    lines : Out(MemoryPort)
    """

    def __init__(self, tag_bits: int) -> None:
        super().__init__({"beats": In(BeatPort(tag_bits)), "lines": Out(MemoryPort(tag_bits))})

    def elaborate(self, platform: object) -> Module:
        """Connects both directions."""
        m = Module()
        self._gather_request(m)
        self._split_response(m)
        return m

    def _gather_request(self, m: Module) -> None:
        """Collects the beats of a request in a register; the last one makes it valid."""
        beat = self.beats.request
        line = self.lines.request
        gathered = Signal.like(line.payload)
        m.d.comb += line.payload.eq(gathered)
        m.d.comb += beat.ready.eq(~line.valid)
        with m.If(line.valid):
            m.d.sync += line.valid.eq(~line.ready)
        with m.Elif(beat.valid):
            number = beat.payload.beat
            m.d.sync += gathered.write.eq(beat.payload.write)
            m.d.sync += gathered.tag.eq(beat.payload.tag)
            m.d.sync += gathered.address.eq(beat.payload.address)
            m.d.sync += gathered.data.word_select(number, 8 * BEAT_BYTES).eq(beat.payload.data)
            m.d.sync += gathered.mask.word_select(number, BEAT_BYTES).eq(beat.payload.mask)
            m.d.sync += line.valid.eq(ends_request(beat.payload))

    def _split_response(self, m: Module) -> None:
        """Sends a line beat by beat, lowest bytes first; the line is taken with its last beat."""
        line = self.lines.response
        beat = self.beats.response
        beat_data: Any = beat.payload
        number = Signal(BEAT_NUMBER_BITS)
        is_last = ends_answer(beat_data)
        m.d.comb += beat.valid.eq(line.valid)
        m.d.comb += line.ready.eq(beat.ready & is_last)
        m.d.comb += beat_data.write.eq(line.payload.write)
        m.d.comb += beat_data.tag.eq(line.payload.tag)
        m.d.comb += beat_data.error.eq(line.payload.error)
        m.d.comb += beat_data.beat.eq(number)
        m.d.comb += beat_data.data.eq(line.payload.data.word_select(number, 8 * BEAT_BYTES))
        with m.If(beat.valid & beat.ready):
            m.d.sync += number.eq(Mux(is_last, 0, number + 1))
