"""Moves lines between the stack cache and memory, ahead of need."""

from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, memory, stream
from amaranth.lib.wiring import In, Out

from rtl.arbiter import RoundRobin
from rtl.component import Component
from rtl.isa.tokens import TOKENS_PER_LINE, TokenKind
from rtl.layouts import LINE_BITS, TokenLine, memory_response
from rtl.params import SmParams

from .lines import SLOT_BITS, TokensOfLine
from .pointers import HIGH_BITS
from .turns import tokens_up_to
from .window import MoverEvents
from .windows import WindowView

__all__ = ["LineMover"]

_KINDS = tuple(kind for kind in TokenKind if kind is not TokenKind.ILLEGAL)
_WRITES = 15
"""Lines of one warp that may be on their way to memory."""


class LineMover(Component):
    """One move a cycle: an answer of memory is taken (a line that came is put into its slot), else a dirty line
    is sent to memory, else a line is asked for. Each warp is looked at a cycle before.

    The move is that of ``warp``. A line is taken from the cache only while nobody else reads it
    (``read_free``), and put in only while nobody else writes it (``write_free``).

    Members
    -------
    windows, look_warp, high : In(array of WindowView), Out, In
        All windows, and the upper part of the number of the topmost token of ``look_warp``.
    warp : Out
        Whose move it is in this cycle.
    held : In(warps)
        Warps whose windows are just being changed by others.
    events : Out(MoverEvents)
        What happens to the window of ``warp``.
    read_free, write_free, request_free : In(1)
        What the move may use.
    arrived : Out(1)
        A line waits to be put into the cache.
    turn_warp, slot : Out
        The line to read.
    install, install_warp, install_slot, installed : Out
        Whether a line is written, where, and what.
    send, ask, number, valid : Out
        A line to be sent to memory or asked for, and which of its tokens are on the stack.
    response : In(stream of memory_response)
    write_fault, write_fault_warp : Out
        Memory could not take a line.
    """

    def __init__(self, params: SmParams) -> None:
        self._warps = params.warps
        bits = params.warp_bits
        super().__init__({
            "windows": In(data.ArrayLayout(WindowView, params.warps)), "look_warp": Out(bits), "high": In(HIGH_BITS),
            "warp": Out(bits), "held": In(params.warps), "events": Out(MoverEvents),
            "read_free": In(1), "write_free": In(1), "request_free": In(1), "arrived": Out(1),
            "turn_warp": Out(bits), "slot": Out(SLOT_BITS),
            "install": Out(1), "install_warp": Out(bits), "install_slot": Out(SLOT_BITS),
            "installed": Out(TokensOfLine),
            "send": Out(1), "ask": Out(1), "number": Out(LINE_BITS), "valid": Out(TOKENS_PER_LINE),
            "response": In(stream.Signature(memory_response(bits))),
            "write_fault": Out(1), "write_fault_warp": Out(bits)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        events = self.events

        # An answer waits here until it can be taken: until its slot is known, then until the cache is free.
        answer, answered = Signal.like(self.response.payload), Signal()
        takes, looked, known, first = Signal(), Signal(), Signal(), Signal()
        m.d.comb += self.response.ready.eq(~answered)
        with m.If(self.response.ready):
            m.d.sync += [answered.eq(self.response.valid), answer.eq(self.response.payload)]
        with m.Elif(takes):
            m.d.sync += answered.eq(0)
        arrived = answered & ~answer.write
        m.d.sync += [looked.eq(arrived), known.eq(arrived & looked)]

        # A look at a warp: the one whose line has come, or the one whose turn it is.
        m.submodules.turns = turns = RoundRobin(self._warps)
        window: Any = Signal(WindowView)
        high, looking = Signal(HIGH_BITS), Signal()
        moving = Signal.like(self.look_warp)
        m.d.comb += [
            turns.requests.eq(Cat(window.wants_spill | window.wants_fill for window in self.windows)),
            self.look_warp.eq(Mux(arrived, answer.tag, turns.chosen))]
        m.d.sync += [
            window.eq(self.windows[self.look_warp]), high.eq(self.high), moving.eq(self.look_warp),
            # A window that changes at the same time has to be looked at again. A move changes it, too; but behind one
            # the request is not free.
            looking.eq(turns.valid & ~arrived & ~self._is_held(self.look_warp))]

        # The move: an answer is taken, or what was looked at is written or asked for.
        m.d.comb += self.warp.eq(Mux(answered, answer.tag, moving))
        held = self._is_held(self.warp)
        turn = looking & ~answered & ~held & self.request_free
        written = answered & answer.write & ~held
        full = self._count(m, written)
        keeps = Array(window.keeps for window in self.windows)[answer.tag]
        m.d.comb += [
            self.arrived.eq(arrived & known), takes.eq(~held & Mux(answer.write, 1, known & self.write_free)),
            events.filled.eq(arrived & takes), events.fault.eq(answer.error), events.first.eq(first),
            self.install.eq(arrived & known & self.write_free & ~held & keeps & ~answer.error),
            self.send.eq(turn & window.wants_spill & self.read_free & ~full),
            self.ask.eq(turn & ~window.wants_spill & window.wants_fill),
            events.spilled.eq(self.send), events.requested.eq(self.ask),
            self.write_fault.eq(written & answer.error), self.write_fault_warp.eq(answer.tag),
            self.turn_warp.eq(moving)]

        # Which line: the oldest dirty one, or the one below those on chip. An answer's does not change any more.
        spills = window.wants_spill & ~arrived
        cached, dirty = sum(window.cached), sum(window.dirty)
        m.d.comb += [
            self.number.eq(Cat(window.last[2:], high) - Mux(spills, dirty - 1, cached)), self.slot.eq(window.oldest),
            self.valid.eq(Mux(window.dirty[1], ~0, tokens_up_to(window.last))
                          & window.wants_spill.replicate(TOKENS_PER_LINE))]
        m.d.sync += [self.install_slot.eq(self.number[:SLOT_BITS]), self.install_warp.eq(answer.tag),
                     first.eq(self.number == 0)]
        line: Any = data.View(TokenLine, answer.data)
        for token, stored in zip(self.installed, line, strict=True):
            m.d.comb += [token.pc.eq(stored.pc), token.mask.eq(stored.mask), token.counted.eq(stored.counted)]
            with m.Switch(stored.kind):
                for kind in _KINDS:
                    with m.Case(kind.value):
                        m.d.comb += token.kind.eq(kind)
                with m.Default():
                    m.d.comb += token.kind.eq(TokenKind.ILLEGAL)
        return m

    def _is_held(self, warp: Value) -> Value:
        """Whether another is changing a warp's window."""
        return self.held.bit_select(warp, 1)

    def _count(self, m: Module, written: Signal) -> Value:
        """Counts each warp's lines on their way to memory; whether there may be no more of them."""
        m.submodules.writes = writes = memory.Memory(shape=range(_WRITES + 1), depth=self._warps, init=[])
        before, after = writes.read_port(domain="comb"), writes.write_port()
        m.d.comb += [
            before.addr.eq(self.warp), after.addr.eq(self.warp), after.en.eq(self.send | written),
            after.data.eq(Mux(written, before.data - 1, before.data + 1)),
            self.events.writes.eq(after.en), self.events.writing.eq(after.data != 0)]
        return before.data == _WRITES
