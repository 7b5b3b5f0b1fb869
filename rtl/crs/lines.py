"""Lines on their way between the stack cache and memory."""

from typing import Any

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Shape, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.tokens import LINE_BYTES, TOKENS_PER_LINE, MemoryToken, TokenKind
from rtl.layouts import Event, MemoryPort, TokenLine
from rtl.params import LINE_ADDRESS_BITS, SmParams
from rtl.structs import struct_value

from .tokens import LineTokenPort, StoredToken, line_number_bits, role_of

__all__ = ["LineEvents", "LineTransfer", "line_job"]

_KNOWN_KINDS = tuple(kind.value for kind in TokenKind if kind is not TokenKind.ILLEGAL)
_KIND_BITS = Shape.cast(TokenKind).width


def line_job(params: SmParams) -> data.StructLayout:
    """Lines to write to memory, or one to read.

    Fields
    ------
    warp
    spill : 1
        To memory; else one line from memory.
    address : in lines
        The first line's in memory.
    slot
        Its slot on chip.
    more : 0 to all but one
        How many lines follow.
    keep : 4
        The tokens of the last line that are on the stack: others are written as zeros.
    cleaned : counter
        What ``cleaned`` is when the first line is written.
    """
    return data.StructLayout({
        "warp": params.warp_bits,
        "spill": 1,
        "address": LINE_ADDRESS_BITS,
        "slot": params.stack_slot_bits,
        "more": params.stack_slot_bits,
        "keep": TOKENS_PER_LINE,
        "cleaned": params.stack_count_bits,
    })


class LineEvents(wiring.Signature):
    """What a cycle did, for counters; see StackEvents.

    Members
    -------
    spill, fill : Out(1), Out(1)
        A line is handed over to memory, or requested.
    """

    def __init__(self) -> None:
        super().__init__({"spill": Out(1), "fill": Out(1)})


class LineTransfer(Component):
    """Lines in both directions: one that leaves is read in every second cycle at most.

    ::

        job --> job register --> read from the cache --> request register --> memory
                                 (not while an unwind reads)                     |
        install <-------- arrived <------------------- response <----------------+

    Members
    -------
    job, free : In(Event(line_job)), Out(1)
        A job, when there is room for it.
    leaving : Out(warp, lines)
        Lines of that warp that are about to leave the cache, without those that ``keeps_lines``
        keeps there.
    keeps_lines : In(Event(warp))
        The commit stage's message of the cycle before: a line of the warp that has not gone to
        memory stays, and is dirty.
    written : Out(Event(warp, cleaned))
        A line is out, and clean; what ``cleaned`` is then.
    spilled : Out(Event(warp, done))
        In the cycle before, a line has left the cache (``done``), or its spill was cancelled.
    acknowledged, write_fault : Out(Event(warp))
        Memory has answered a write, whether or not it took the line. ``write_fault``, as well: it
        did not. The line is lost, and counts as clean.
    arrived : Out(stream of warp, error)
        A line has come, or cannot be read.
    install, install_free : In(Event(slot)), Out(1)
        It is written into the cache in a cycle in which the pipeline needs no port; it is there at
        the end of that cycle.
    events : Out(LineEvents)
    tokens : Out(LineTokenPort)
    port : Out(MemoryPort)
    """

    def __init__(self, params: SmParams) -> None:
        warp = params.warp_bits
        count = params.stack_count_bits

        def of_warp(**fields: Any) -> data.StructLayout:
            return data.StructLayout({"warp": warp, **fields})

        super().__init__({
            "job": In(Event(line_job(params))),
            "free": Out(1),
            "leaving": Out(of_warp(lines=count)),
            "keeps_lines": In(Event(warp)),
            "written": Out(Event(of_warp(cleaned=count))),
            "spilled": Out(Event(of_warp(done=1))),
            "acknowledged": Out(Event(warp)),
            "write_fault": Out(Event(warp)),
            "arrived": Out(stream.Signature(of_warp(error=1))),
            "install": In(Event(line_number_bits(params))),
            "install_free": Out(1),
            "events": Out(LineEvents()),
            "tokens": Out(LineTokenPort(params)),
            "port": Out(MemoryPort(warp)),
        })
        self._job: Any = Event(line_job(params)).create(path=("job_register",))
        """The line that moves next, and those that follow it."""
        self._read: Any = Event(line_job(params)).create(path=("read",))
        """The line that was read from the cache a cycle ago."""
        self._keeps_lines = Signal(name="keeps_lines_of_job")
        """The commit stage keeps the warp's lines on chip: none leaves any more."""
        self._reads = Signal(name="reads")
        """The job's line is read from the cache."""
        self._stops = Signal(name="stops")
        """The job is cancelled."""
        self._line: Any = Signal(TokenLine, name="line")
        """The line that has come from memory."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._take_job(m)
        self._report(m)
        self._request(m)
        self._respond(m)
        self._receive(m)
        self._install(m)
        return m

    def _take_job(self, m: Module) -> None:
        """The job register, and the addresses of its lines, which are read in consecutive
        cycles."""
        job = self._job.payload
        read = self._read.payload
        request = self.port.request
        request_free = ~request.valid | request.ready
        spills = self._job.valid & job.spill
        m.d.comb += self.free.eq(~self._job.valid & ~self._read.valid)
        m.d.comb += self._keeps_lines.eq(
            self.keeps_lines.valid & (self.keeps_lines.payload == job.warp))
        m.d.comb += self._stops.eq(spills & self._keeps_lines)
        m.d.comb += self._reads.eq(
            spills & self.tokens.read_free & request_free & ~self._read.valid & ~self._stops)
        m.d.comb += self.events.fill.eq(self._job.valid & ~job.spill & request_free)
        m.d.comb += self.tokens.read.valid.eq(self._reads)
        m.d.comb += self.tokens.read.payload.eq(Cat(job.slot, job.warp))
        m.d.sync += self._read.valid.eq(self._reads)
        with m.If(self.job.valid):
            m.d.sync += job.eq(self.job.payload)
            m.d.sync += self._job.valid.eq(1)
        with m.Elif(self._reads):
            is_last = job.more == 0
            m.d.sync += read.eq(job)
            with m.If(~is_last):
                m.d.sync += read.keep.eq(~0)
            m.d.sync += job.slot.eq(job.slot + 1)
            m.d.sync += job.address.eq(job.address + 1)
            m.d.sync += job.cleaned.eq(job.cleaned + 1)
            m.d.sync += job.more.eq(job.more - 1)
            m.d.sync += self._job.valid.eq(~is_last)
        with m.Elif(self.events.fill | self._stops):
            m.d.sync += self._job.valid.eq(0)
        m.d.sync += Assert(
            ~(self.job.valid & ~self.free), "a line is to move while another one does")

    def _report(self, m: Module) -> None:
        """Reports to the engine the lines that leave."""
        job = self._job.payload
        read = self._read.payload
        m.d.comb += self.events.spill.eq(self._read.valid & ~self._keeps_lines)
        written = self.written
        spilled = self.spilled
        m.d.comb += written.valid.eq(self.events.spill)
        m.d.comb += written.payload.eq(struct_value(
            written.payload.shape(), warp=read.warp, cleaned=read.cleaned))
        to_read = Mux(self._job.valid & job.spill, job.more + 1, 0)
        m.d.comb += self.leaving.eq(struct_value(
            self.leaving.shape(), warp=job.warp,
            lines=Mux(self._keeps_lines, 0, to_read + self._read.valid)))
        m.d.sync += spilled.valid.eq(self._read.valid | self._stops)
        m.d.sync += spilled.payload.eq(struct_value(
            spilled.payload.shape(), warp=job.warp, done=self.events.spill))

    def _request(self, m: Module) -> None:
        """The request to memory. A token that is not on the stack is written as zeros: NONE."""
        job = self._job.payload
        read = self._read.payload
        request = self.port.request
        line: Any = data.View(TokenLine, request.payload.data)
        request_free = ~request.valid | request.ready
        m.d.comb += request.payload.mask.eq(Const(~0, LINE_BYTES))
        with m.If(request_free):
            m.d.sync += request.valid.eq(self.events.spill | self.events.fill)
        with m.If(self._read.valid):
            m.d.sync += request.payload.write.eq(1)
            m.d.sync += request.payload.tag.eq(job.warp)
            m.d.sync += request.payload.address.eq(read.address)
            for place in range(TOKENS_PER_LINE):
                token = _in_memory(self.tokens.line[place])
                m.d.sync += line[place].eq(Mux(read.keep[place], token.as_value(), 0))
        with m.Elif(self.events.fill):
            m.d.sync += request.payload.write.eq(0)
            m.d.sync += request.payload.tag.eq(job.warp)
            m.d.sync += request.payload.address.eq(job.address)
        m.d.sync += Assert(
            ~self._read.valid | request_free, "a line was read without room for it")

    def _respond(self, m: Module) -> None:
        """A response to a write is passed on at once; a line waits for the line before it."""
        response = self.port.response
        answer = response.payload
        is_write = response.valid & answer.write
        m.d.comb += response.ready.eq(answer.write | ~self.arrived.valid)
        m.d.sync += self.acknowledged.valid.eq(is_write)
        m.d.sync += self.acknowledged.payload.eq(answer.tag)
        m.d.sync += self.write_fault.valid.eq(is_write & answer.error)
        m.d.sync += self.write_fault.payload.eq(answer.tag)

    def _receive(self, m: Module) -> None:
        """The line that has come waits here."""
        response = self.port.response
        answer = response.payload
        arrived = self.arrived
        with m.If(~arrived.valid):
            m.d.sync += arrived.valid.eq(response.valid & ~answer.write)
            m.d.sync += arrived.payload.eq(struct_value(
                arrived.payload.shape(), warp=answer.tag, error=answer.error))
            m.d.sync += self._line.eq(answer.data)
        with m.Elif(arrived.ready):
            m.d.sync += arrived.valid.eq(0)
        m.d.sync += Assert(~arrived.ready | arrived.valid, "a line is taken that has not arrived")

    def _install(self, m: Module) -> None:
        """Into the cache."""
        write = self.tokens.write
        m.d.comb += self.install_free.eq(self.tokens.write_free)
        m.d.sync += Assert(
            ~self.install.valid | self.install_free, "a line is installed while a push is stored")
        m.d.comb += write.valid.eq(self.install.valid)
        m.d.comb += write.payload.eq(struct_value(
            write.payload.shape(),
            slot=self.install.payload,
            places=Const(~0, TOKENS_PER_LINE),
            tokens=Cat(_on_chip(token).as_value() for token in self._line)))


def _in_memory(token: Any) -> Any:
    """A token on chip in the format of memory."""
    return struct_value(
        MemoryToken, pc=token.pc, mask=token.mask, kind=token.kind, counted=token.counted, zero=0)


def _on_chip(token: Any) -> Any:
    """A token from memory in the format on chip: with its role, and ILLEGAL instead of an undefined
    kind."""
    is_known = token.kind.matches(*_KNOWN_KINDS)
    kind = TokenKind(Mux(is_known, token.kind, TokenKind.ILLEGAL.value)[:_KIND_BITS])
    return struct_value(
        StoredToken, pc=token.pc, mask=token.mask, counted=token.counted, kind=kind,
        role=role_of(kind))
