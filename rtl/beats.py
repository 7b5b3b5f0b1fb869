"""Lines as bursts of beats, and the arbiter of ports of beats: :class:`~rtl.layouts.BeatPort`."""

from collections.abc import Callable, Sequence
from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal, Value
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.layouts import (
    BEAT_BYTES,
    BEAT_NUMBER_BITS,
    BeatPort,
    MemoryPort,
    beat_request,
    beat_response,
    ends_answer,
    ends_request,
)
from rtl.memory_arbiter import PortArbiter
from rtl.structs import struct_value

__all__ = ["BeatArbiter", "LineBeats"]

_OUTSTANDING_BITS = 12
"""Width of a count of requests without an answer, for an Assert."""


class LineBeats(Component):
    """Lines on one side, beats on the other.

    A line to write stays at the port until its last beat has been taken; one that is read is
    gathered in a register.

    Members
    -------
    lines : In(MemoryPort)
    beats : Out(BeatPort)
    """

    def __init__(self, tag_bits: int) -> None:
        super().__init__({"lines": In(MemoryPort(tag_bits)), "beats": Out(BeatPort(tag_bits))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._send_beats(m)
        self._gather_answer(m)
        return m

    def _send_beats(self, m: Module) -> None:
        """A line's request, beat by beat. A read has one."""
        line = self.lines.request
        request = line.payload
        beat = self.beats.request
        number = Signal(BEAT_NUMBER_BITS)
        m.d.comb += beat.valid.eq(line.valid)
        m.d.comb += beat.payload.eq(struct_value(
            beat.payload.shape(),
            write=request.write,
            tag=request.tag,
            address=request.address,
            beat=number,
            data=request.data.word_select(number, 8 * BEAT_BYTES),
            mask=request.mask.word_select(number, BEAT_BYTES)))
        m.d.comb += line.ready.eq(beat.ready & ends_request(beat.payload))
        with m.If(line.valid & beat.ready & line.payload.write):
            m.d.sync += number.eq(number + 1)

    def _gather_answer(self, m: Module) -> None:
        """A line's answer, from its beats."""
        beat = self.beats.response
        line = self.lines.response
        m.d.comb += beat.ready.eq(~line.valid)
        with m.If(line.valid):
            m.d.sync += line.valid.eq(~line.ready)
        with m.Elif(beat.valid):
            data = line.payload.data.word_select(beat.payload.beat, 8 * BEAT_BYTES)
            m.d.sync += line.valid.eq(ends_answer(beat.payload))
            m.d.sync += line.payload.write.eq(beat.payload.write)
            m.d.sync += line.payload.tag.eq(beat.payload.tag)
            m.d.sync += line.payload.error.eq(beat.payload.error)
            m.d.sync += data.eq(beat.payload.data)


class BeatArbiter(PortArbiter):
    """Passes bursts of several ports to one, round robin, and answers to the client of the request,
    each a cycle later.

    A request is passed in the cycle in which it arrives, if it is that client's turn; the turn
    changes with the last beat of a burst, or in a cycle without a request.

    Parameters
    ----------
    tag_bits : sequence of int
        Width of each client's tags.

    Members
    -------
    client_0.. : In(BeatPort) each; directions are the client's
    port : Out(BeatPort)
    """

    def __init__(self, tag_bits: Sequence[int]) -> None:
        super().__init__(tag_bits, BeatPort)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._request(m)
        self._answer(m, self._registered_answers(m))
        self._promise(m)
        return m

    def _request(self, m: Module) -> None:
        """The client that was served last keeps its turn until another one has a request and no
        burst is under way."""
        out = self.port.request
        was_in_burst = Signal()
        is_in_burst = Signal()
        is_taken = out.valid & out.ready
        m.d.comb += is_in_burst.eq(Mux(is_taken, ~ends_request(out.payload), was_in_burst))
        m.d.sync += was_in_burst.eq(is_in_burst)
        self._take_turns(m, out.valid, ~is_in_burst & (~out.valid | out.ready))
        for number, client in enumerate(self.clients):
            request = client.request
            with m.If(self.turn == number):
                m.d.comb += request.ready.eq(out.ready)
                m.d.comb += out.payload.eq(self._outside_request(request.payload, number))

    def _outside_request(self, request: Any, number: int) -> Any:
        return struct_value(
            beat_request(self._outside_tag_bits),
            write=request.write,
            tag=self._outside_tag(request, number),
            address=request.address,
            beat=request.beat,
            data=request.data,
            mask=request.mask)

    def _client_response(self, response: Any, number: int) -> Any:
        return struct_value(
            beat_response(self._tag_bits[number]),
            write=response.write,
            tag=response.tag,
            error=response.error,
            beat=response.beat,
            data=response.data)

    def _registered_answers(self, m: Module) -> Any:
        """Answers, from registers, since where they come from is far."""
        answer = self.port.response
        kept = stream.Signature(answer.payload.shape()).create()
        m.d.comb += answer.ready.eq(~kept.valid | kept.ready)
        with m.If(answer.ready):
            m.d.sync += kept.valid.eq(answer.valid)
            m.d.sync += kept.payload.eq(answer.payload)
        return kept

    def _promise(self, m: Module) -> None:
        """A client's beats, and those of memory, come in the order of a burst; memory answers what
        was requested."""
        request = self.port.request
        response = self.port.response
        outstanding = Signal(_OUTSTANDING_BITS)
        requested = request.valid & request.ready & ends_request(request.payload)
        answered = response.valid & response.ready & ends_answer(response.payload)
        m.d.sync += outstanding.eq(outstanding + requested - answered)
        m.d.sync += Assert(
            ~response.valid | (outstanding != 0), "memory answers without a request")
        self._promise_order(m, "client", request, ends_request)
        self._promise_order(m, "memory", response, ends_answer)

    def _promise_order(self, m: Module, name: str, beats: Any,
                       is_last: Callable[[Any], Value]) -> None:
        """The beats of a burst are contiguous: none of another burst comes between."""
        beat = beats.payload
        burst = Cat(beat.write, beat.tag)
        last_burst = Signal.like(burst)
        number = Signal(BEAT_NUMBER_BITS)
        with m.If(beats.valid & beats.ready):
            m.d.sync += number.eq(Mux(is_last(beat), 0, number + 1))
            m.d.sync += last_burst.eq(burst)
            m.d.sync += Assert(
                beat.beat == number, f"a beat of a {name} is not the next one of its burst")
            m.d.sync += Assert(
                (number == 0) | (last_burst == burst), f"a {name} mixes two bursts")
