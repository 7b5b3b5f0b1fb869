"""Lines as bursts of beats, and the arbiter of ports of beats; see :class:`~rtl.layouts.BeatPort`."""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component, pass_on
from rtl.layouts import BEAT_BYTES, BEAT_NUMBER_BITS, BeatPort, MemoryPort, ends_answer, ends_request
from rtl.memory_arbiter import PortArbiter

__all__ = ["BeatArbiter", "LineBeats"]

_OWED_BITS = 12


class LineBeats(Component):
    """Lines on one side, beats on the other.

    A line to write stays where it is, at the port, until its last beat has been taken; one that is read is gathered in
    a register.

    Members
    -------
    lines : In(MemoryPort)
    beats : Out(BeatPort)
    """

    def __init__(self, tag_bits: int) -> None:
        super().__init__({"lines": In(MemoryPort(tag_bits)), "beats": Out(BeatPort(tag_bits))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        line, beat, number = self.lines.request, self.beats.request, Signal(BEAT_NUMBER_BITS)
        pass_on(m, line.payload, beat.payload, "write", "tag", "address")
        m.d.comb += [
            beat.valid.eq(line.valid), beat.payload.beat.eq(number),
            beat.payload.data.eq(line.payload.data.word_select(number, 8 * BEAT_BYTES)),
            beat.payload.mask.eq(line.payload.mask.word_select(number, BEAT_BYTES)),
            line.ready.eq(beat.ready & ends_request(beat.payload))]
        with m.If(line.valid & beat.ready & line.payload.write):
            m.d.sync += number.eq(number + 1)

        came, given, full = self.beats.response, self.lines.response, Signal()
        answer = Signal.like(given.payload)
        m.d.comb += [came.ready.eq(~full), given.valid.eq(full), given.payload.eq(answer)]
        with m.If(full):
            m.d.sync += full.eq(~given.ready)
        with m.Elif(came.valid):
            pass_on(m, came.payload, answer, "write", "tag", "error", domain="sync")
            m.d.sync += [answer.data.word_select(came.payload.beat, 8 * BEAT_BYTES).eq(came.payload.data),
                         full.eq(ends_answer(came.payload))]
        return m


class BeatArbiter(PortArbiter):
    """Passes bursts of several ports to one, in turn, and answers back to whom they belong, a cycle later each.

    A request goes through in the cycle in which it comes, if it is that client's turn; the turn changes with the last
    beat of a burst, or in a cycle without a request.

    Parameters
    ----------
    tag_bits : sequence of int
        Width of each client's tags.

    Members
    -------
    client_0.. : In(BeatPort) each, seen from the client
    port : Out(BeatPort)
    """

    def __init__(self, tag_bits: Sequence[int]) -> None:
        super().__init__(tag_bits, BeatPort)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._request(m)
        self._answer(m, self._kept(m))
        self._promises(m)
        return m

    def _request(self, m: Module) -> None:
        """It stays the turn of the client that was served last, until another one has a request and no burst is under
        way."""
        out, begun, goes_on = self.port.request, Signal(), Signal()
        m.d.comb += goes_on.eq(Mux(out.valid & out.ready, ~ends_request(out.payload), begun))
        m.d.sync += begun.eq(goes_on)
        self._take_turns(m, out.valid, ~goes_on & (~out.valid | out.ready))
        for index, client in enumerate(self.clients):
            with m.If(self.turn == index):
                m.d.comb += client.request.ready.eq(out.ready)
                pass_on(m, client.request.payload, out.payload, "write", "address", "beat", "data", "mask")
                m.d.comb += out.payload.tag.eq(client.request.payload.tag | index << self.own_bits)

    def _kept(self, m: Module) -> Any:
        """Answers, from registers, since where they come from is far."""
        came, kept = self.port.response, stream.Signature(self.port.response.payload.shape()).create()
        m.d.comb += came.ready.eq(~kept.valid | kept.ready)
        with m.If(came.ready):
            m.d.sync += [kept.valid.eq(came.valid), kept.payload.eq(came.payload)]
        return kept

    def _promises(self, m: Module) -> None:
        """A client's beats, and those of memory, come in the order of a burst; memory answers what it was asked."""
        port, owed = self.port, Signal(_OWED_BITS)
        asked = port.request.valid & port.request.ready & ends_request(port.request.payload)
        answered = port.response.valid & port.response.ready & ends_answer(port.response.payload)
        m.d.sync += [
            owed.eq(owed + asked - answered),
            Assert(~port.response.valid | (owed != 0), "memory answers before it was asked")]
        for name, way, ends in (("client", port.request, ends_request), ("memory", port.response, ends_answer)):
            beat = way.payload
            now, number = Cat(beat.write, beat.tag), Signal(BEAT_NUMBER_BITS)
            head = Signal.like(now)
            with m.If(way.valid & way.ready):
                m.d.sync += [
                    number.eq(Mux(ends(beat), 0, number + 1)), head.eq(now),
                    Assert(beat.beat == number, f"a beat of a {name} is not the next one of its burst"),
                    Assert((number == 0) | (head == now), f"a {name} mixes two bursts")]
