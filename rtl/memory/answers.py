"""What memory answers: lines, for the threads that wait for them."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import memory, stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.layouts import memory_response
from rtl.params import WARP_THREADS

from .coalescer import MEMORY_UNIT_TAG_BITS

__all__ = ["AnswerStage"]

_TAGS = 1 << MEMORY_UNIT_TAG_BITS


class AnswerStage(Component):
    """Keeps what was asked under each tag, and has lines handed out as they come.

    Members
    -------
    start : In(1)
        Forgets faults.
    tag, tag_free : Out
        The next request's tag, and whether nobody uses it any more.
    note, threads : In(1), In(32)
        A request for these threads was made with that tag.
    response : In(stream of memory_response)
    load : Out(1)
        The response's line is wanted.
    serve, served_threads : Out(1), Out(32)
        It is there, for these threads.
    serving : In(1)
        They are being served; no answer is taken.
    fault : Out(1)
        Something was not mapped.
    busy : Out(1)
        There are answers to come, or threads to be served.
    """

    def __init__(self) -> None:
        super().__init__({
            "start": In(1), "tag": Out(MEMORY_UNIT_TAG_BITS), "tag_free": Out(1), "note": In(1),
            "threads": In(WARP_THREADS), "response": In(stream.Signature(memory_response(MEMORY_UNIT_TAG_BITS))),
            "load": Out(1), "serve": Out(1), "served_threads": Out(WARP_THREADS), "serving": In(1), "fault": Out(1),
            "busy": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        answer, used = self.response.payload, Signal(_TAGS)
        m.submodules.waiting = waiting = memory.Memory(shape=WARP_THREADS, depth=_TAGS, init=[])
        keep, kept = waiting.write_port(), waiting.read_port(domain="comb")
        m.d.comb += [
            keep.en.eq(self.note), keep.addr.eq(self.tag), keep.data.eq(self.threads), kept.addr.eq(answer.tag),
            self.tag_free.eq(~used.bit_select(self.tag, 1)), self.busy.eq(used.any() | self.serve)]
        with m.If(self.note):
            m.d.sync += self.tag.eq(self.tag + 1)

        arrives = self.response.valid & self.response.ready
        m.d.comb += [
            self.response.ready.eq(~self.serve & ~self.serving), self.load.eq(arrives & ~answer.error & ~answer.write)]
        m.d.sync += [self.serve.eq(self.load), self.served_threads.eq(kept.data)]
        with m.If(self.start):
            m.d.sync += self.fault.eq(0)
        with m.Elif(arrives & answer.error):
            m.d.sync += self.fault.eq(1)
        noted = Mux(self.note, 1 << self.tag, 0)
        answered = Mux(arrives, 1 << answer.tag, 0)
        m.d.sync += used.eq((used | noted) & ~answered)
        return m
