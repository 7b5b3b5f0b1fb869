"""Moves lines between the stack cache and memory, ahead of need."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal
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
    is sent to memory, else a line is asked for.

    The move is that of ``warp``. A line is taken from the cache only while nobody else reads it
    (``read_free``), and put in only while nobody else writes it (``write_free``).

    Members
    -------
    windows, high : In(array of WindowView), In
        All windows, and the upper part of the number of the topmost token of ``warp``.
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
            "windows": In(data.ArrayLayout(WindowView, params.warps)), "warp": Out(bits), "high": In(HIGH_BITS),
            "held": In(self._warps), "events": Out(MoverEvents),
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

        # An answer waits here until it can be taken: for one cycle to find its slot, then until the cache is free.
        answer, answered, looked = Signal.like(self.response.payload), Signal(), Signal()
        takes = Signal()
        m.d.comb += self.response.ready.eq(~answered)
        m.d.sync += looked.eq(answered)
        with m.If(~answered):
            m.d.sync += [answered.eq(self.response.valid), answer.eq(self.response.payload)]
        with m.Elif(takes):
            m.d.sync += [answered.eq(0), looked.eq(0)]
        target = Signal(WindowView)
        lowest = Signal(SLOT_BITS)
        m.d.comb += [target.eq(self.windows[answer.tag]), lowest.eq(target.last[2:] + 1 - sum(target.cached))]
        first = Signal()
        m.d.sync += [self.install_slot.eq(lowest - 1), self.install_warp.eq(answer.tag), first.eq(self.number == 0)]
        arrived = answered & ~answer.write

        # Whose move it is.
        m.submodules.turns = turns = RoundRobin(self._warps)
        window = Signal(WindowView)
        m.d.comb += [
            turns.requests.eq(Cat(window.wants_spill | window.wants_fill for window in self.windows)),
            self.turn_warp.eq(turns.chosen), window.eq(self.windows[turns.chosen]),
            self.warp.eq(Mux(answered, answer.tag, turns.chosen))]
        answer_held = Array(self.held)[answer.tag]
        turn = turns.valid & ~answered & ~Array(self.held)[turns.chosen] & self.request_free
        written = answered & answer.write & ~answer_held
        full = self._count(m, written)
        m.d.comb += [
            self.arrived.eq(arrived & looked), takes.eq(~answer_held & Mux(answer.write, 1, looked & self.write_free)),
            events.filled.eq(arrived & takes), events.fault.eq(answer.error), events.first.eq(first),
            self.install.eq(arrived & looked & self.write_free & ~answer_held & target.keeps & ~answer.error),
            self.send.eq(turn & window.wants_spill & self.read_free & ~full),
            self.ask.eq(turn & ~window.wants_spill & window.wants_fill),
            events.spilled.eq(self.send), events.requested.eq(self.ask),
            self.write_fault.eq(written & answer.error), self.write_fault_warp.eq(answer.tag)]

        # Which line: the oldest dirty one, or the one below those on chip.
        moved = Mux(answered, target.as_value(), window.as_value())
        top = Cat(WindowView(moved).last[2:], self.high)
        cached, dirty = sum(WindowView(moved).cached), sum(window.dirty)
        m.d.comb += [
            self.number.eq(top - Mux(~answered & window.wants_spill, dirty - 1, cached)), self.slot.eq(window.oldest),
            self.valid.eq(Mux(window.dirty[1], ~0, tokens_up_to(window.last))
                          & window.wants_spill.replicate(TOKENS_PER_LINE))]
        for token, stored in zip(self.installed, data.View(TokenLine, answer.data), strict=True):
            m.d.comb += [token.pc.eq(stored.pc), token.mask.eq(stored.mask), token.counted.eq(stored.counted)]
            with m.Switch(stored.kind):
                for kind in _KINDS:
                    with m.Case(kind.value):
                        m.d.comb += token.kind.eq(kind)
                with m.Default():
                    m.d.comb += token.kind.eq(TokenKind.ILLEGAL)
        return m

    def _count(self, m: Module, written: Signal) -> Signal:
        """Counts each warp's lines on their way to memory; whether there may be no more of them."""
        m.submodules.writes = writes = memory.Memory(shape=range(_WRITES + 1), depth=self._warps, init=[])
        before, after = writes.read_port(domain="comb"), writes.write_port()
        m.d.comb += [
            before.addr.eq(self.warp), after.addr.eq(self.warp), after.en.eq(self.send | written),
            after.data.eq(Mux(written, before.data - 1, before.data + 1)),
            self.events.writes.eq(after.en), self.events.writing.eq(after.data != 0)]
        return before.data == _WRITES
