"""Beats on one side, lines on the other: what a machine of one lane says to a memory that knows lines."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from rtl.component import Component, pass_on
from rtl.layouts import BEAT_BYTES, BEAT_NUMBER_BITS, BeatPort, MemoryPort, ends_answer, ends_request

__all__ = ["BeatLines"]


class BeatLines(Component):
    """Gathers the beats of a request, and parts answers into beats.

    Members
    -------
    beats : In(BeatPort)
    lines : Out(MemoryPort)
    """

    def __init__(self, tag_bits: int) -> None:
        super().__init__({"beats": In(BeatPort(tag_bits)), "lines": Out(MemoryPort(tag_bits))})

    def elaborate(self, platform: object) -> Module:
        """Both ways."""
        m = Module()
        beat, line, kept = self.beats.request, self.lines.request, Signal.like(self.lines.request.payload)
        m.d.comb += [beat.ready.eq(~line.valid), line.payload.eq(kept)]
        with m.If(line.valid):
            m.d.sync += line.valid.eq(~line.ready)
        with m.Elif(beat.valid):
            pass_on(m, beat.payload, kept, "write", "tag", "address", domain="sync")
            number = beat.payload.beat
            m.d.sync += [
                kept.data.word_select(number, 8 * BEAT_BYTES).eq(beat.payload.data),
                kept.mask.word_select(number, BEAT_BYTES).eq(beat.payload.mask),
                line.valid.eq(ends_request(beat.payload))]

        came, given, number = self.lines.response, self.beats.response, Signal(BEAT_NUMBER_BITS)
        given_beat: Any = given.payload
        pass_on(m, came.payload, given_beat, "write", "tag", "error")
        m.d.comb += [
            given.valid.eq(came.valid), given_beat.beat.eq(number),
            given_beat.data.eq(came.payload.data.word_select(number, 8 * BEAT_BYTES)),
            came.ready.eq(given.ready & ends_answer(given_beat))]
        with m.If(given.valid & given.ready):
            m.d.sync += number.eq(Mux(ends_answer(given_beat), 0, number + 1))
        return m
