"""Lines on their way between the stack cache and memory."""

from typing import Any

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.tokens import LINE_BYTES, TOKENS_PER_LINE, TokenKind
from rtl.layouts import Event, MemoryPort, TokenLine
from rtl.params import LINE_ADDRESS_BITS, SmParams

from .tokens import TokenPort, role_of

__all__ = ["LineTransfer"]

_SHARED = ("pc", "mask", "kind", "counted")
"""What a token on chip and one in memory both have."""


class LineTransfer(Component):
    """Lines in both directions: one that leaves is read in every second cycle at most.

    Members
    -------
    job, free : In(Event), Out(1)
        Lines to write, or one to read, when there is room for it: the first one's address and slot, how many follow
        (``more``), the tokens of the last one that are on the stack, what ``cleaned`` is when the first one is written.
    leaving : Out(warp, lines)
        So many lines of that warp are on their way out of the cache, without those that ``lowered`` keeps there.
    lowered : In(Event(warp))
        What the commit has said of the warp a cycle ago: a line of it that has not gone to memory stays.
    left : Out(Event(warp, cleaned))
        A line is out, and clean; what ``cleaned`` is then.
    spilled : Out(Event(warp, done))
        A line is out (``done``), or stays, a cycle ago.
    acknowledged, write_fault : Out(Event(warp))
        Memory has taken a line, or could not.
    arrived : Out(stream of warp, error)
        A line has come, or cannot be read.
    install, install_free : In(Event(slot)), Out(1)
        It is put into the cache, where there is time for it; it is there with the end of the cycle.
    spill, fill : Out(1), Out(1)
        A line is handed over to memory, or asked for.
    tokens : Out(TokenPort)
    port : Out(MemoryPort)
    """

    def __init__(self, params: SmParams) -> None:
        bits, slot, count = params.warp_bits, params.stack_slot_bits, params.stack_count_bits

        def of_warp(**fields: Any) -> data.StructLayout:
            return data.StructLayout({"warp": bits, **fields})

        super().__init__({
            "job": In(Event(of_warp(spill=1, address=LINE_ADDRESS_BITS, slot=slot, more=slot,
                                    keep=TOKENS_PER_LINE, cleaned=count))),
            "free": Out(1), "leaving": Out(of_warp(lines=count)),
            "lowered": In(Event(bits)), "left": Out(Event(of_warp(cleaned=count))),
            "spilled": Out(Event(of_warp(done=1))), "acknowledged": Out(Event(bits)), "write_fault": Out(Event(bits)),
            "arrived": Out(stream.Signature(of_warp(error=1))), "install": In(Event(bits + slot)),
            "install_free": Out(1), "spill": Out(1), "fill": Out(1), "tokens": Out(TokenPort(params)),
            "port": Out(MemoryPort(bits))})
        self._job, self._read = (Signal.like(self.job.payload, name=name) for name in ("job", "read"))
        self._working, self._came = (Signal(name=name) for name in ("working", "came"))
        """``job`` is the line that is read next, and what follows, while it is ``working``; ``read`` is the line that
        ``came`` out of the cache, read a cycle ago."""
        self._line: Any = Signal(TokenLine)
        """What has come from memory."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._send(m)
        self._receive(m)
        return m

    def _send(self, m: Module) -> None:
        """From the cache to memory, and what is asked of it."""
        tokens, request, out, left, spilled = (
            self.tokens, self.port.request, self.port.request.payload, self.left, self.spilled)
        job, read, working, came = self._job, self._read, self._working, self._came
        reads, stays, stops = (Signal(name=name) for name in ("reads", "stays", "stops"))
        lowered, free, spills, done = self.lowered, ~request.valid | request.ready, working & job.spill, self.spill
        m.d.comb += [
            stays.eq(lowered.valid & (lowered.payload == job.warp)), stops.eq(spills & stays), done.eq(came & ~stays),
            reads.eq(spills & tokens.read_free & free & ~came & ~stops), tokens.read.valid.eq(reads),
            tokens.read.payload.eq(Cat(job.slot, job.warp)),
            self.fill.eq(working & ~job.spill & free), self.free.eq(~working & ~came),
            self.leaving.warp.eq(job.warp), self.leaving.lines.eq(
                Mux(stays, 0, Mux(spills, job.more + 1, 0) + came)),
            left.valid.eq(done), left.payload.warp.eq(read.warp),
            left.payload.cleaned.eq(read.cleaned)]
        with m.If(self.job.valid):
            m.d.sync += [job.eq(self.job.payload), working.eq(1)]
        with m.Elif(reads):
            m.d.sync += [job.slot.eq(job.slot + 1), job.address.eq(job.address + 1), job.cleaned.eq(job.cleaned + 1),
                         job.more.eq(job.more - 1), working.eq(job.more != 0)]
            m.d.sync += [read.eq(job), read.keep.eq(job.keep | (job.more != 0).replicate(TOKENS_PER_LINE))]
        with m.Elif(self.fill | stops):
            m.d.sync += working.eq(0)

        # The request. A token that is not on the stack is written as zeros, which is NONE.
        line: Any = data.View(TokenLine, out.data)
        m.d.comb += out.mask.eq(Const(~0, LINE_BYTES))
        m.d.sync += [
            came.eq(reads), spilled.valid.eq(came | stops), spilled.payload.done.eq(done),
            spilled.payload.warp.eq(job.warp),
            Assert(~(self.job.valid & ~self.free), "a line is to move while another one does"),
            Assert(~came | free, "a line that was read has nowhere to go")]
        with m.If(free):
            m.d.sync += request.valid.eq(done | self.fill)
        with m.If(came | self.fill):
            m.d.sync += [out.write.eq(came), out.tag.eq(job.warp), out.address.eq(Mux(came, read.address, job.address))]
        with m.If(came):
            for keep, token, stored in zip(read.keep, tokens.line, line, strict=True):
                m.d.sync += [stored[name].eq(Mux(keep, Value.cast(token[name]), 0)) for name in _SHARED]

    def _receive(self, m: Module) -> None:
        """From memory into the cache: what it says of writes goes on at once, lines wait here."""
        written, response, answer = self.tokens.write, self.port.response, self.port.response.payload
        arrived, told, line = self.arrived, Signal(), self._line
        m.d.comb += [
            told.eq(response.valid & answer.write), response.ready.eq(answer.write | ~arrived.valid),
            written.valid.eq(self.install.valid), written.payload.slot.eq(self.install.payload),
            written.payload.places.eq(~0), self.install_free.eq(self.tokens.write_free)]
        with m.If(~arrived.valid):
            m.d.sync += [arrived.valid.eq(response.valid & ~answer.write), arrived.payload.warp.eq(answer.tag),
                         arrived.payload.error.eq(answer.error), line.eq(answer.data)]
        with m.Elif(arrived.ready):
            m.d.sync += arrived.valid.eq(0)
        for token, stored in zip(line, written.payload.tokens, strict=True):
            known = token.kind.matches(*(kind.value for kind in TokenKind if kind is not TokenKind.ILLEGAL))
            m.d.comb += [stored[name].eq(token[name]) for name in _SHARED if name != "kind"]
            m.d.comb += [stored.kind.as_value().eq(Mux(known, token.kind, TokenKind.ILLEGAL.value)),
                         stored.role.as_value().eq(role_of(stored.kind))]
        m.d.sync += [
            self.acknowledged.valid.eq(told), self.acknowledged.payload.eq(answer.tag),
            self.write_fault.valid.eq(told & answer.error), self.write_fault.payload.eq(answer.tag),
            Assert(~arrived.ready | arrived.valid, "a line is taken that has not come")]
