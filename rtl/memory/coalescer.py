"""Makes requests for lines of what the threads access: all that lies in one line goes together."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.arbiter import lowest
from rtl.component import Component
from rtl.isa.tokens import LINE_BYTES
from rtl.layouts import memory_request
from rtl.params import LINE_ADDRESS_BITS, WARP_THREADS, SmParams
from rtl.pick import pick

from .beats import first_beat
from .instruction import access_job, place_layout
from .line import LineLayout
from .places import OFFSET_BITS

__all__ = ["MEMORY_UNIT_TAG_BITS", "Coalescer"]

MEMORY_UNIT_TAG_BITS = 2
"""Width of the memory unit's tags: as many lines as they can tell apart are under way."""


class Coalescer(Component):
    """Takes the line of the first thread that waits, finds all others in it, and makes a request of them.

    Members
    -------
    start : In(1)
        ``job`` is there from the next cycle on.
    job : In(access_job)
    beat, places : Out, In
        The beat that is looked at, its threads' places.
    clear, fill, filling : Out(1), Out(1), In(1)
        A line that is to be written is cleared, then to be filled by ``threads``, and is being filled.
    line, written : In
        That line.
    tag, tag_free : In
        The next request's tag, and whether it may be used.
    request : Out(stream of memory_request)
    threads : Out(32)
        Those of the request.
    modified : In(1)
        The line that was read is changed, and has to be written.
    stop : In(1)
        No more lines are wanted: there was a fault.
    busy : Out(1)
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "start": In(1), "job": In(access_job()), "beat": Out(range(params.beats)),
            "places": In(place_layout(params)), "clear": Out(1), "fill": Out(1), "filling": In(1),
            "line": In(LineLayout), "written": In(LINE_BYTES), "tag": In(MEMORY_UNIT_TAG_BITS), "tag_free": In(1),
            "request": Out(stream.Signature(memory_request(MEMORY_UNIT_TAG_BITS))), "threads": Out(WARP_THREADS),
            "modified": In(1), "stop": In(1), "busy": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        params, job = self._params, self.job
        waiting, left, line = Signal(WARP_THREADS), Signal(WARP_THREADS), Signal(LINE_ADDRESS_BITS)
        lanes_waiting, hits = Signal(params.lanes), Signal(params.lanes)
        beats_left = left & ~_beat_mask(self.beat, params)
        m.d.comb += [
            lanes_waiting.eq(left.word_select(self.beat, params.lanes)), self.beat.eq(first_beat(left, params)),
            hits.eq(lanes_waiting & Cat(place[OFFSET_BITS:] == line for place in self.places))]

        with m.FSM():
            with m.State("IDLE"), m.If(self.start):
                m.next = "BEGIN"
            with m.State("BEGIN"):
                m.d.sync += [waiting.eq(job.threads), left.eq(job.threads)]
                m.d.comb += self.busy.eq(1)
                m.next = "PICK"
            with m.State("PICK"):
                m.d.comb += [self.busy.eq(1), self.clear.eq(job.write)]
                m.d.sync += [
                    line.eq(pick(self.places, lowest(lanes_waiting))[OFFSET_BITS:]), self.threads.eq(0)]
                m.next = "COLLECT"
                with m.If(~left.any() | self.stop):
                    m.next = "IDLE"
            with m.State("COLLECT"):
                m.d.comb += self.busy.eq(1)
                m.d.sync += [
                    left.eq(beats_left), self.threads.word_select(self.beat, params.lanes).eq(hits),
                    waiting.word_select(self.beat, params.lanes).eq(
                        waiting.word_select(self.beat, params.lanes) & ~hits)]
                with m.If(~beats_left.any()):
                    m.next = "REQUEST"
                    with m.If(job.write):
                        m.next = "FILL"
            with m.State("FILL"):
                m.d.comb += [self.busy.eq(1), self.fill.eq(1)]
                m.next = "FILLING"
            with m.State("FILLING"):
                m.d.comb += self.busy.eq(1)
                with m.If(~self.filling):
                    m.next = "REQUEST"
            with m.State("REQUEST"):
                m.d.comb += [self.busy.eq(1), self.request.valid.eq(self.tag_free)]
                with m.If(self.request.valid & self.request.ready):
                    m.d.sync += left.eq(waiting)
                    m.next = "PICK"
                    with m.If(job.modify):
                        m.next = "MODIFY"
            with m.State("MODIFY"):
                m.d.comb += self.busy.eq(1)
                with m.If(self.stop):
                    m.next = "IDLE"
                with m.Elif(self.modified):
                    m.next = "WRITE"
            with m.State("WRITE"):
                m.d.comb += [
                    self.busy.eq(1), self.request.valid.eq(self.tag_free), self.request.payload.write.eq(1)]
                with m.If(self.request.valid & self.request.ready):
                    m.next = "PICK"

        distance = Mux(job.local, job.word << ceil_log2(WARP_THREADS * 4) - OFFSET_BITS, 0)
        request = self.request.payload
        with m.If(job.write):
            m.d.comb += request.write.eq(1)
        m.d.comb += [
            request.tag.eq(self.tag), request.address.eq(line + distance), request.data.eq(self.line),
            request.mask.eq(self.written)]
        return m


def _beat_mask(beat: Value, params: SmParams) -> Value:
    """The threads of a beat."""
    return Cat((beat == number).replicate(params.lanes) for number in range(params.beats))
