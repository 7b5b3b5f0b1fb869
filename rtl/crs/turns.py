"""Whose own step is next: unwinds that go on, write-backs that are over."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.arbiter import RoundRobin
from rtl.isa.errors import WarpError
from rtl.isa.tokens import TOKENS_PER_LINE
from rtl.params import SmParams

from .stages import SEEN_BITS, turn_stage
from .window import WindowFill, WindowState
from .windows import WindowView

__all__ = ["StackTurns", "tokens_up_to"]


def tokens_up_to(last: Signal) -> Cat:
    """Which tokens of the top line are on the stack, when ``last`` is the number of the topmost one."""
    return Cat(last[:2] >= index for index in range(TOKENS_PER_LINE))


class StackTurns(wiring.Component):
    """Chooses a warp, looks at what it needs, and hands it on as a step: three cycles from wish to step.

    Members
    -------
    windows : In(array of WindowView)
    warp, seen, quad : Out, In, In
        The warp that is looked at: the lines that its unwind has seen, and whether it looks for a QUAD token.
    valid, turn : Out(1), Out(turn_stage)
        A step that goes into the pipeline in this cycle, before any request.
    """

    def __init__(self, params: SmParams) -> None:
        self._warps = params.warps
        super().__init__({
            "windows": In(data.ArrayLayout(WindowView, params.warps)),
            "warp": Out(params.warp_bits), "seen": In(SEEN_BITS), "quad": In(1),
            "valid": Out(1), "turn": Out(turn_stage(params))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.arbiter = arbiter = RoundRobin(self._warps)
        # A warp wants its turn until the turn is in the pipeline: so turns are three cycles apart.
        underway = arbiter.valid | self.valid
        wishes = Cat(window.wants_turn for window in self.windows)
        m.d.comb += [arbiter.requests.eq(wishes & ~underway.replicate(self._warps)), self.warp.eq(arbiter.chosen)]

        window, turn, step = Signal(WindowView), self.turn, self.turn.step
        m.d.comb += window.eq(self.windows[self.warp])
        again = window.state == WindowState.AGAIN
        finishes = window.state == WindowState.WRITE_BACK
        faulty = ~again & ~finishes & (window.fill == WindowFill.FAULTY)
        m.d.sync += [
            self.valid.eq(arbiter.valid), turn.warp.eq(self.warp),
            turn.top.eq(window.last[2:]), turn.slot.eq(window.last[2:] - self.seen),
            turn.tokens.eq(Mux(self.seen == 0, tokens_up_to(window.last), ~0) & again.replicate(TOKENS_PER_LINE)),
            turn.error.eq(Mux(faulty, WarpError.MMU_FAULT, WarpError.NONE)),
            step.walk.eq(again | faulty), step.quad.eq(self.quad), step.seen.eq(self.seen),
            step.cached.eq(window.cached >> self.seen), step.bottom.eq(window.bottom),
            step.sink.eq(~again & ~faulty & ~finishes), step.finish.eq(finishes), step.ends.eq(1)]
        return m
