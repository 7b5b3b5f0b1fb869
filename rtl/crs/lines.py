"""Lines on their way between the stack cache and memory."""

from typing import Any

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.tokens import LINE_BYTES, TOKENS_PER_LINE
from rtl.layouts import Event, MemoryPort, TokenLine
from rtl.params import LINE_ADDRESS_BITS, SmParams

from .records import COUNT_BITS, SLOT_BITS
from .tokens import StoredLine, from_memory

__all__ = ["LinePort", "LineTransfer", "line_job"]


def line_job(params: SmParams) -> data.StructLayout:
    """Lines to write, or one to read: the first one's address and slot, how many follow (``more``), the tokens of the
    last one that are on the stack, what ``cleaned`` is when the first one is written."""
    return data.StructLayout({"warp": params.warp_bits, "spill": 1, "address": LINE_ADDRESS_BITS, "slot": SLOT_BITS,
                              "more": SLOT_BITS, "keep": TOKENS_PER_LINE, "cleaned": COUNT_BITS})


class LinePort(wiring.Signature):
    """What the spill and fill engine sees of the line transfer.

    Members
    -------
    job, free : Out(Event(line_job)), In(1)
        What is to move.
    leaving, leaving_warp : In(COUNT_BITS), In
        So many lines of that warp are on their way out of the cache.
    lowered : Out(Event(warp))
        What the commit has said of the warp a cycle ago: a line of it that has not gone to memory stays.
    left, cleaned : In(Event(warp)), In(COUNT_BITS)
        A line is out, and clean; what ``cleaned`` is then.
    spilled : In(Event(warp, done))
        A line is out (``done``), or stays, a cycle ago.
    acknowledged : In(Event(warp))
        Memory has taken a line.
    arrived, error, consumed : In(Event(warp)), In(1), Out(1)
        A line has come, or cannot be read.
    install, slot, installed : Out(1), Out, In(1)
        It is to be put into the cache; it is there with the end of this cycle.
    """

    def __init__(self, params: SmParams) -> None:
        bits = params.warp_bits
        super().__init__({
            "job": Out(Event(line_job(params))), "free": In(1), "leaving": In(COUNT_BITS), "leaving_warp": In(bits),
            "lowered": Out(Event(bits)), "left": In(Event(bits)), "cleaned": In(COUNT_BITS),
            "spilled": In(Event(data.StructLayout({"warp": bits, "done": 1}))), "acknowledged": In(Event(bits)),
            "arrived": In(Event(bits)), "error": In(1), "consumed": Out(1), "install": Out(1),
            "slot": Out(bits + SLOT_BITS), "installed": In(1)})


class LineTransfer(Component):
    """A line that leaves is read in a cycle in which nobody else reads, a line that comes is written in one in which
    nobody else writes.

    Members
    -------
    engine : In(LinePort)
    read_free, slot, line : In(1), Out(slot and warp), In(StoredLine)
        Where to read, and what was read a cycle ago.
    write_free, written : In(1), Out(StoredLine)
        What is written when ``installed``.
    write_fault : Out(Event(warp))
    spill, fill : Out(1), Out(1)
        A line is handed over to memory, or asked for.
    port : Out(MemoryPort)
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        bits = params.warp_bits
        super().__init__({
            "engine": In(LinePort(params)), "read_free": In(1), "slot": Out(SLOT_BITS + bits), "line": In(StoredLine),
            "write_free": In(1), "written": Out(StoredLine), "write_fault": Out(Event(bits)), "spill": Out(1),
            "fill": Out(1), "port": Out(MemoryPort(bits))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._send(m)
        self._receive(m)
        return m

    def _send(self, m: Module) -> None:
        """From the cache to memory, and what is asked of it. A line is read in every second cycle at most."""
        engine, request, out = self.engine, self.port.request, self.port.request.payload
        job: Any = Signal(line_job(self._params))
        read: Any = Signal(line_job(self._params))
        working, came, reads, asks, stops, aborts = (
            Signal(name=name) for name in ("working", "came", "reads", "asks", "stops", "aborts"))
        lowered, free, spills = engine.lowered, ~request.valid | request.ready, working & job.spill
        m.d.comb += [
            stops.eq(spills & lowered.valid & (lowered.payload == job.warp)),
            aborts.eq(came & lowered.valid & (lowered.payload == read.warp)),
            reads.eq(spills & self.read_free & free & ~came & ~stops), asks.eq(working & ~job.spill & free),
            self.slot.eq(Cat(job.slot, job.warp)), engine.free.eq(~working & ~came),
            engine.leaving.eq(Mux(spills, job.more + 1, 0) + came), engine.leaving_warp.eq(job.warp)]

        # The line that is read next.
        with m.If(engine.job.valid):
            m.d.sync += [job.eq(engine.job.payload), working.eq(1)]
        with m.Elif(reads):
            m.d.sync += [job.slot.eq(job.slot + 1), job.address.eq(job.address + 1), job.cleaned.eq(job.cleaned + 1),
                         job.more.eq(job.more - 1), working.eq(job.more != 0)]
        with m.Elif(asks | stops):
            m.d.sync += working.eq(0)
        m.d.sync += came.eq(reads)
        with m.If(reads):
            m.d.sync += [read.eq(job), read.keep.eq(job.keep | (job.more != 0).replicate(TOKENS_PER_LINE))]

        # The line that was read. A token that is not on the stack is written as zeros, which is NONE.
        line: Any = data.View(TokenLine, out.data)
        done = came & ~aborts
        m.d.comb += [out.mask.eq(Const(~0, LINE_BYTES)), engine.left.valid.eq(done), engine.left.payload.eq(read.warp),
                     engine.cleaned.eq(read.cleaned), self.spill.eq(done), self.fill.eq(asks)]
        for place, (stored, token) in enumerate(zip(line, self.line, strict=True)):
            with m.If(came):
                m.d.sync += [stored[name].eq(token[name]) for name in ("pc", "mask", "kind", "counted")]
            with m.If(came & ~read.keep[place]):
                m.d.sync += stored.eq(0)
        with m.If(free):
            m.d.sync += request.valid.eq(done | asks)
        with m.If(came | asks):
            m.d.sync += [out.write.eq(came), out.tag.eq(job.warp), out.address.eq(Mux(came, read.address, job.address))]
        m.d.sync += [engine.spilled.valid.eq(came | stops), engine.spilled.payload.done.eq(done),
                     engine.spilled.payload.warp.eq(job.warp),
                     Assert(~(engine.job.valid & ~engine.free), "a line is to move while another one does"),
                     Assert(~came | free, "a line that was read has nowhere to go")]

    def _receive(self, m: Module) -> None:
        """From memory into the cache: what it says of writes goes on at once, lines wait here."""
        engine, response, answer = self.engine, self.port.response, self.port.response.payload
        line: Any = Signal(TokenLine)
        waiting = engine.arrived.valid
        m.d.comb += [response.ready.eq(answer.write | ~waiting), engine.installed.eq(engine.install & self.write_free)]
        with m.If(~waiting):
            m.d.sync += [waiting.eq(response.valid & ~answer.write), engine.arrived.payload.eq(answer.tag),
                         engine.error.eq(answer.error), line.eq(answer.data)]
        with m.Elif(engine.consumed):
            m.d.sync += waiting.eq(0)
        for token, stored in zip(line, self.written, strict=True):
            from_memory(m, token, stored)
        m.d.sync += [
            engine.acknowledged.valid.eq(response.valid & answer.write), engine.acknowledged.payload.eq(answer.tag),
            self.write_fault.valid.eq(response.valid & answer.write & answer.error),
            self.write_fault.payload.eq(answer.tag),
            Assert(~engine.consumed | waiting, "a line is taken that has not come")]
