"""Lines on their way between the stack cache and memory."""

from typing import Any

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.tokens import LINE_BYTES, TOKENS_PER_LINE, TokenKind
from rtl.layouts import Event, MemoryPort, TokenLine
from rtl.params import LINE_ADDRESS_BITS, SmParams

from .records import COUNT_BITS
from .tokens import SLOT_BITS, TokenLinePort, role_of

__all__ = ["LinePort", "LineTransfer", "line_job"]

_SHARED = ("pc", "mask", "kind", "counted")
"""What a token on chip and one in memory both have."""


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
    """Lines in both directions: one that leaves is read in every second cycle at most.

    Members
    -------
    engine : In(LinePort)
    tokens : Out(TokenLinePort)
    write_fault : Out(Event(warp))
    spill, fill : Out(1), Out(1)
        A line is handed over to memory, or asked for.
    port : Out(MemoryPort)
    """

    def __init__(self, params: SmParams) -> None:
        bits = params.warp_bits
        super().__init__({
            "engine": In(LinePort(params)), "tokens": Out(TokenLinePort(params)), "write_fault": Out(Event(bits)),
            "spill": Out(1), "fill": Out(1), "port": Out(MemoryPort(bits))})
        self._job: Any = Signal(line_job(params))
        """The line that is read next, and what follows."""
        self._read: Any = Signal(line_job(params))
        """The line that was read a cycle ago."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._send(m)
        self._receive(m)
        return m

    def _send(self, m: Module) -> None:
        """From the cache to memory, and what is asked of it."""
        engine, tokens, request, out, job, read = (
            self.engine, self.tokens, self.port.request, self.port.request.payload, self._job, self._read)
        working, came, reads, stops, aborts = (
            Signal(name=name) for name in ("working", "came", "reads", "stops", "aborts"))
        lowered, free, spills, done = engine.lowered, ~request.valid | request.ready, working & job.spill, self.spill
        m.d.comb += [
            stops.eq(spills & lowered.valid & (lowered.payload == job.warp)),
            aborts.eq(came & lowered.valid & (lowered.payload == read.warp)),
            reads.eq(spills & tokens.read_free & free & ~came & ~stops), tokens.read_slot.eq(Cat(job.slot, job.warp)),
            self.fill.eq(working & ~job.spill & free), done.eq(came & ~aborts), engine.free.eq(~working & ~came),
            engine.leaving.eq(Mux(spills, job.more + 1, 0) + came), engine.leaving_warp.eq(job.warp),
            engine.left.valid.eq(done), engine.left.payload.eq(read.warp), engine.cleaned.eq(read.cleaned)]
        with m.If(engine.job.valid):
            m.d.sync += [job.eq(engine.job.payload), working.eq(1)]
        with m.Elif(reads):
            m.d.sync += [job.slot.eq(job.slot + 1), job.address.eq(job.address + 1), job.cleaned.eq(job.cleaned + 1),
                         job.more.eq(job.more - 1), working.eq(job.more != 0)]
            m.d.sync += [read.eq(job), read.keep.eq(job.keep | (job.more != 0).replicate(TOKENS_PER_LINE))]
        with m.Elif(self.fill | stops):
            m.d.sync += working.eq(0)

        # The request. A token that is not on the stack is written as zeros, which is NONE.
        m.d.comb += out.mask.eq(Const(~0, LINE_BYTES))
        m.d.sync += [
            came.eq(reads), engine.spilled.valid.eq(came | stops), engine.spilled.payload.done.eq(done),
            engine.spilled.payload.warp.eq(job.warp),
            Assert(~(engine.job.valid & ~engine.free), "a line is to move while another one does"),
            Assert(~came | free, "a line that was read has nowhere to go")]
        with m.If(free):
            m.d.sync += request.valid.eq(done | self.fill)
        with m.If(came | self.fill):
            m.d.sync += [out.write.eq(came), out.tag.eq(job.warp), out.address.eq(Mux(came, read.address, job.address))]
        line: Any = data.View(TokenLine, out.data)
        with m.If(came):
            for keep, token, stored in zip(read.keep, tokens.read, line, strict=True):
                m.d.sync += [stored[name].eq(Mux(keep, Value.cast(token[name]), 0)) for name in _SHARED]

    def _receive(self, m: Module) -> None:
        """From memory into the cache: what it says of writes goes on at once, lines wait here."""
        engine, tokens, response, answer = self.engine, self.tokens, self.port.response, self.port.response.payload
        line: Any = Signal(TokenLine)
        waiting, written = engine.arrived.valid, response.valid & answer.write
        m.d.comb += [
            response.ready.eq(answer.write | ~waiting), tokens.write.eq(engine.install),
            tokens.write_slot.eq(engine.slot), engine.installed.eq(engine.install & tokens.write_free)]
        with m.If(~waiting):
            m.d.sync += [waiting.eq(response.valid & ~answer.write), engine.arrived.payload.eq(answer.tag),
                         engine.error.eq(answer.error), line.eq(answer.data)]
        with m.Elif(engine.consumed):
            m.d.sync += waiting.eq(0)
        for token, stored in zip(line, tokens.written, strict=True):
            known = token.kind.matches(*(kind.value for kind in TokenKind if kind is not TokenKind.ILLEGAL))
            m.d.comb += [stored[name].eq(token[name]) for name in _SHARED if name != "kind"]
            m.d.comb += [stored.kind.as_value().eq(Mux(known, token.kind, TokenKind.ILLEGAL.value)),
                         stored.role.as_value().eq(role_of(stored.kind))]
        m.d.sync += [
            engine.acknowledged.valid.eq(written), engine.acknowledged.payload.eq(answer.tag),
            self.write_fault.valid.eq(written & answer.error), self.write_fault.payload.eq(answer.tag),
            Assert(~engine.consumed | waiting, "a line is taken that has not come")]
