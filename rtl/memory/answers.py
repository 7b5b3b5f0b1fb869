"""What memory answers: lines, whose words go to the threads that wait for them."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import memory, stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.layouts import memory_response
from rtl.params import WARP_THREADS, SmParams

from .choose import first_beat, pick
from .coalescer import MEMORY_UNIT_TAG_BITS, line_pass
from .line import LineLayout
from .narrow import extended
from .places import offset_layout
from .words import word_write

__all__ = ["AnswerStage"]

_TAGS = 1 << MEMORY_UNIT_TAG_BITS


class AnswerStage(Component):
    """Keeps what was asked under each tag, and hands out the words of lines as they come.

    Members
    -------
    start : In(1)
        Forgets faults.
    job, signed : In(line_pass), In(1)
        What the requests are for.
    tag, tag_free : Out
        The next request's tag, and whether nobody uses it any more.
    note, threads : In(1), In(32)
        A request for these threads was made with that tag.
    response : In(stream of memory_response)
    load : Out(1)
        The response's line is wanted.
    line : In(line)
        The last line that was wanted.
    modify, modify_threads : Out(1), Out(32)
        It is there, for these threads to change.
    offset_beat, offsets : Out, In
        Where in the line their accesses begin.
    write : Out(word_write)
    fault : Out(1)
        Something was not mapped.
    busy : Out(1)
        There are answers to come, or words to hand out.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "start": In(1), "job": In(line_pass(params)), "signed": In(1), "tag": Out(MEMORY_UNIT_TAG_BITS),
            "tag_free": Out(1), "note": In(1), "threads": In(WARP_THREADS),
            "response": In(stream.Signature(memory_response(MEMORY_UNIT_TAG_BITS))), "load": Out(1),
            "line": In(LineLayout), "modify": Out(1), "modify_threads": Out(WARP_THREADS),
            "offset_beat": Out(range(params.beats)), "offsets": In(offset_layout(params)),
            "write": Out(word_write(params)), "fault": Out(1), "busy": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        params, job, answer = self._params, self.job, self.response.payload
        used, left = Signal(_TAGS), Signal(WARP_THREADS)
        m.submodules.waiting = waiting = memory.Memory(shape=WARP_THREADS, depth=_TAGS, init=[])
        keep, kept = waiting.write_port(), waiting.read_port(domain="comb")
        m.d.comb += [
            keep.en.eq(self.note), keep.addr.eq(self.tag), keep.data.eq(self.threads), kept.addr.eq(answer.tag),
            self.tag_free.eq(~used.bit_select(self.tag, 1)), self.busy.eq(used.any() | left.any())]
        with m.If(self.note):
            m.d.sync += self.tag.eq(self.tag + 1)

        # An answer is taken when the last line is handed out.
        arrives = self.response.valid & self.response.ready
        good = arrives & ~answer.error & ~answer.write
        m.d.comb += [
            self.response.ready.eq(~left.any()), self.load.eq(good), self.modify_threads.eq(left)]
        m.d.sync += self.modify.eq(good & job.modify)
        with m.If(self.start):
            m.d.sync += self.fault.eq(0)
        with m.Elif(arrives & answer.error):
            m.d.sync += self.fault.eq(1)
        noted = Mux(self.note, 1 << self.tag, 0)
        answered = Mux(arrives, 1 << answer.tag, 0)
        m.d.sync += used.eq((used | noted) & ~answered)

        # Its words, a beat's one of each thread in a cycle; a line that is changed is handed out by who does that.
        word, step = Signal(range(4)), Signal(range(4))
        m.d.comb += [
            self.offset_beat.eq(first_beat(left, params)), step.eq(Mux(job.local, 0, word)),
            self.write.beat.eq(self.offset_beat), self.write.word.eq(Mux(job.local, job.word, word))]
        with m.If(good):
            m.d.sync += left.eq(kept.data)
        with m.Elif(job.modify):
            m.d.sync += left.eq(0)
        with m.Elif(left.any()):
            m.d.comb += self.write.lanes.eq(left.word_select(self.offset_beat, params.lanes))
            m.d.sync += word.eq(word + 1)
            with m.If(job.local | (word == job.words - 1)):
                m.d.sync += [word.eq(0), left.word_select(self.offset_beat, params.lanes).eq(0)]
        for lane in range(params.lanes):
            offset = self.offsets[lane]
            m.d.comb += self.write.values[lane].eq(
                extended(pick(self.line, offset[2:] | step), offset[:2], job.size, self.signed))
        return m
