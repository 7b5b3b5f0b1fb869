"""Moves lines between the stack cache and memory, ahead of need."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.arbiter import RoundRobin
from rtl.isa.tokens import TOKENS_PER_LINE, TokenKind
from rtl.layouts import DEPTH_BITS, LINE_BITS, TokenLine, memory_response
from rtl.params import SmParams

from .lines import CACHED_LINES, TokensOfLine
from .window import LINE_COUNT_BITS, MoverEvents
from .windows import WindowView

__all__ = ["LineMover", "tokens_on_top"]

_KINDS = tuple(kind for kind in TokenKind if kind is not TokenKind.ILLEGAL)


def tokens_on_top(last: Signal) -> Cat:
    """Which tokens of the top line are on the stack, when ``last`` is the number of the topmost one."""
    return Cat(last[:2] >= index for index in range(TOKENS_PER_LINE))


class LineMover(wiring.Component):
    """One move a cycle: a line that came is put into its slot, else a dirty line is sent to memory, else a line
    is asked for.

    The move is that of ``warp``. A line is taken from the cache only while nobody else reads it
    (``read_free``), and put in only while nobody else writes it (``write_free``).

    Members
    -------
    windows : In(array of WindowView)
    warp, depth : Out, In
        Whose move it is in this cycle, and the depth of its stack.
    slot, number : Out
        The slot in the cache, and the number of the line that moves.
    events : Out(MoverEvents)
        What happens to the window of ``warp``.
    read_free, write_free, request_free : In(1)
        What the move may use.
    valid : Out(4)
        Which tokens of a spilled line are on the stack.
    install, installed : Out(1), Out(TokensOfLine)
        Write this line into the slot.
    response : In(stream of memory_response)
    written, written_warp, write_fault : Out
        Memory has a line of ``written_warp``, or it could not take it.
    """

    def __init__(self, params: SmParams) -> None:
        self._warps = params.warps
        bits = params.warp_bits
        super().__init__({
            "windows": In(data.ArrayLayout(WindowView, params.warps)),
            "warp": Out(bits), "depth": In(DEPTH_BITS), "slot": Out(range(CACHED_LINES)), "number": Out(LINE_BITS),
            "events": Out(MoverEvents),
            "read_free": In(1), "write_free": In(1), "request_free": In(1), "valid": Out(TOKENS_PER_LINE),
            "install": Out(1), "installed": Out(TokensOfLine),
            "response": In(stream.Signature(memory_response(bits))),
            "written": Out(1), "written_warp": Out(bits), "write_fault": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.turns = turns = RoundRobin(self._warps)
        m.d.comb += turns.requests.eq(Cat(window.wants_spill | window.wants_fill for window in self.windows))

        # A response waits here until the cache can take its line.
        arrived, arrived_valid = Signal.like(self.response.payload), Signal()
        line_came = arrived_valid & ~arrived.write
        m.d.comb += self.response.ready.eq(~line_came | self.write_free)
        with m.If(self.response.ready):
            m.d.sync += [arrived_valid.eq(self.response.valid), arrived.eq(self.response.payload)]
        m.d.comb += [
            self.written.eq(arrived_valid & arrived.write), self.written_warp.eq(arrived.tag),
            self.write_fault.eq(self.written & arrived.error)]

        # Which line: the one below the lowest on chip, the oldest dirty one, the one below those under way.
        window, last = Signal(WindowView), Signal(DEPTH_BITS)
        below_top, number = Signal(LINE_COUNT_BITS), Signal(LINE_BITS + 1)
        spill = ~line_came & window.wants_spill
        m.d.comb += [
            self.warp.eq(Mux(line_came, arrived.tag, turns.chosen)),
            window.eq(self.windows[self.warp]),
            last.eq(self.depth - 1),
            below_top.eq(Mux(line_came, window.cached, Mux(spill, window.dirty - 1, window.cached + window.coming))),
            number.eq(last[2:] - below_top),
            self.number.eq(number), self.slot.eq(number)]

        # The move.
        turn = ~line_came & turns.valid & self.request_free
        exists = ~number[-1] & (self.depth != 0)
        m.d.comb += [
            self.events.filled.eq(line_came & self.write_free), self.events.first.eq(number == 0),
            self.events.fault.eq(arrived.error),
            self.install.eq(self.events.filled & window.accepts & ~arrived.error),
            self.events.spilled.eq(turn & spill & self.read_free),
            self.events.requested.eq(turn & ~spill & window.wants_fill & exists),
            self.valid.eq(Mux(window.dirty == 1, tokens_on_top(last), ~0) & spill.replicate(TOKENS_PER_LINE))]

        for token, stored in zip(self.installed, data.View(TokenLine, arrived.data), strict=True):
            m.d.comb += [token.pc.eq(stored.pc), token.mask.eq(stored.mask), token.counted.eq(stored.counted)]
            with m.Switch(stored.kind):
                for kind in _KINDS:
                    with m.Case(kind.value):
                        m.d.comb += token.kind.eq(kind)
                with m.Default():
                    m.d.comb += token.kind.eq(TokenKind.ILLEGAL)
        return m
