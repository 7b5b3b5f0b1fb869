"""Lines on their way between the stack cache and memory, token by token."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.tokens import LINE_BYTES, TOKENS_PER_LINE
from rtl.layouts import Event, MemoryPort, TokenLine
from rtl.params import SmParams

from .engine import line_job
from .records import PLACE_BITS
from .tokens import StoredToken, from_memory

__all__ = ["LineTransfer"]

_LAST = TOKENS_PER_LINE - 1


class LineTransfer(Component):
    """A line that leaves is read token by token in cycles in which nobody else reads, a line that comes is written
    token by token in cycles in which nobody else writes. The last token of a line goes with the others into the request
    to memory; the next line may be read meanwhile.

    Members
    -------
    job, job_free : In(Event(line_job)), Out(1)
    leaves, leaves_warp : Out(1), Out
        A line of that warp is on its way out.
    lowered, left_warp : In(1), In
        What StackCommit has said a cycle ago, and of which warp. A line of that warp that is read, or whose last token
        has been read, stays.
    read_free, reads, place, token : In(1), Out(1), Out(place), In(StoredToken)
        Where to read, and what was read a cycle ago.
    clean, last_warp, cleaned : Out(1), Out, Out(3)
        The line is out, and clean; what ``cleaned`` is then.
    spilled : Out(Event(warp, done))
        A line is out (``done``), or stays, a cycle ago.
    install, write_free, disturbed, installed : In(1), In(1), In(1), Out(1)
        The line that has come is to be written into the cache; its last token is written in this cycle, unless its warp
        is disturbed.
    writes, written : Out(1), Out(StoredToken)
        What is written, in the place of ``install_place``.
    install_place : Out(2)
    arrived, arrived_warp, arrived_error, consumed : Out(1), Out, Out(1), In(1)
    acknowledged, write_fault : Out(Event(warp)), Out(Event(warp))
    spill, fill : Out(1), Out(1)
        A line is handed over to memory, or asked for.
    port : Out(MemoryPort)
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        bits = params.warp_bits
        super().__init__({
            "job": In(Event(line_job(params))), "job_free": Out(1), "leaves": Out(1), "leaves_warp": Out(bits),
            "lowered": In(1), "left_warp": In(bits), "last_warp": Out(bits),
            "read_free": In(1), "reads": Out(1), "place": Out(bits + PLACE_BITS), "token": In(StoredToken),
            "clean": Out(1), "cleaned": Out(3),
            "spilled": Out(Event(data.StructLayout({"warp": bits, "done": 1}))),
            "install": In(1), "write_free": In(1), "disturbed": In(1), "installed": Out(1), "writes": Out(1),
            "written": Out(StoredToken), "install_place": Out(2),
            "arrived": Out(1), "arrived_warp": Out(bits), "arrived_error": Out(1), "consumed": In(1),
            "acknowledged": Out(Event(bits)), "write_fault": Out(Event(bits)), "spill": Out(1), "fill": Out(1),
            "port": Out(MemoryPort(bits))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._send(m)
        self._receive(m)
        return m

    def _send(self, m: Module) -> None:
        """From the cache to memory, and what is asked of it."""
        request, out = self.port.request, self.port.request.payload
        job: Any = Signal(line_job(self._params))
        leaving: Any = Signal(line_job(self._params))
        working, last, reads = Signal(), Signal(), Signal()
        place, came, came_place = Signal(2), Signal(), Signal(2)
        free = ~request.valid | request.ready

        # The line that is read; the job behind may take its place with the last token.
        ends, asks, stops, aborts = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            reads.eq(working & job.spill & self.read_free & ((place != _LAST) | free)),
            ends.eq(reads & (place == _LAST)), asks.eq(working & ~job.spill & free & ~last),
            self.reads.eq(working & job.spill), self.place.eq(Cat(place, job.slot, job.warp)),
            self.job_free.eq(~working),
            self.leaves.eq((working & job.spill) | last), self.leaves_warp.eq(Mux(last, leaving.warp, job.warp))]
        m.d.comb += [stops.eq(working & job.spill & self.lowered & (self.left_warp == job.warp)),
                     aborts.eq(last & self.lowered & (self.left_warp == leaving.warp))]
        with m.If(self.job.valid):
            m.d.sync += [job.eq(self.job.payload), working.eq(1), place.eq(0)]
        with m.Elif(ends | asks | stops):
            m.d.sync += working.eq(0)
        with m.Elif(reads):
            m.d.sync += place.eq(place + 1)
        m.d.sync += [came.eq(reads), came_place.eq(place), last.eq(ends & ~stops)]
        with m.If(ends):
            m.d.sync += leaving.eq(job)

        # Its tokens, as they come. One that is not on the stack is written as zeros, which is NONE.
        tokens: list[Any] = [Signal(StoredToken, name=f"token{index}") for index in range(_LAST)]
        kept = job.keep.bit_select(came_place, 1)
        for index, token in enumerate(tokens):
            with m.If(came & (came_place == index)):
                m.d.sync += token.eq(Mux(kept, self.token.as_value(), 0))
        line: Any = data.View(TokenLine, out.data)
        done = last & ~aborts
        m.d.comb += [out.mask.eq(Const(~0, LINE_BYTES)), self.clean.eq(done), self.cleaned.eq(leaving.cleaned),
                     self.last_warp.eq(leaving.warp), self.spill.eq(done), self.fill.eq(asks)]
        for stored, token in zip(line, [*tokens, self.token], strict=True):
            with m.If(last):
                m.d.sync += [stored[name].eq(token[name]) for name in ("pc", "mask", "kind", "counted")]
        with m.If(last & ~leaving.keep[_LAST]):
            m.d.sync += line[_LAST].eq(0)
        with m.If(free):
            m.d.sync += request.valid.eq(done | asks)
        with m.If(last | asks):
            m.d.sync += [out.write.eq(last), out.tag.eq(Mux(last, leaving.warp, job.warp)),
                         out.address.eq(Mux(last, leaving.address, job.address))]
        m.d.sync += [
            self.spilled.valid.eq(last | stops), self.spilled.payload.done.eq(done),
            self.spilled.payload.warp.eq(Mux(last, leaving.warp, job.warp))]

    def _receive(self, m: Module) -> None:
        """From memory into the cache: what it says of writes goes on at once, lines wait here."""
        response, answer = self.port.response, self.port.response.payload
        line: Any = Signal(TokenLine)
        waiting: Any = Signal(data.StructLayout({"valid": 1, "warp": self._params.warp_bits, "error": 1}))
        place = Signal(2)
        m.d.comb += [
            response.ready.eq(answer.write | ~waiting.valid), self.arrived.eq(waiting.valid),
            self.arrived_warp.eq(waiting.warp), self.arrived_error.eq(waiting.error),
            self.installed.eq(self.install & self.write_free & (place == _LAST) & ~self.disturbed),
            self.writes.eq(self.install & self.write_free), self.install_place.eq(place)]
        with m.If(~waiting.valid):
            m.d.sync += [waiting.valid.eq(response.valid & ~answer.write), waiting.warp.eq(answer.tag),
                         waiting.error.eq(answer.error), line.eq(answer.data)]
        with m.Elif(self.consumed):
            m.d.sync += waiting.valid.eq(0)
        with m.If(~self.install):
            m.d.sync += place.eq(0)
        with m.Elif(self.write_free):
            m.d.sync += place.eq(place + 1)
        from_memory(m, line[place], self.written)
        m.d.sync += [
            self.acknowledged.valid.eq(response.valid & answer.write), self.acknowledged.payload.eq(answer.tag),
            self.write_fault.valid.eq(response.valid & answer.write & answer.error),
            self.write_fault.payload.eq(answer.tag)]
