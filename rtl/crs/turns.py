"""Whose own step is next: unwinds that go on, write-backs that are over."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.arbiter import RoundRobin
from rtl.component import Component
from rtl.isa.tokens import TOKENS_PER_LINE
from rtl.params import SmParams

from .lines import SLOT_BITS
from .stages import SEEN_BITS, turn_stage
from .window import WindowFill, WindowState
from .windows import WindowView

__all__ = ["StackTurns", "tokens_up_to"]


def tokens_up_to(last: Signal) -> Cat:
    """Which tokens of the top line are on the stack, when ``last`` is the number of the topmost one."""
    return Cat(last[:2] >= index for index in range(TOKENS_PER_LINE))


class StackTurns(Component):
    """Chooses a warp, looks at what it needs, and hands it on as a step: three cycles from wish to step.

    Members
    -------
    windows : In(array of WindowView)
    look, warp, slot, seen, quad, frame : Out(1), Out, Out, In, In, In
        The warp that is looked at, and the line that it needs; the lines that its unwind has seen, and whether
        it looks for a QUAD token, or for a trap frame.
    hold : In(1)
        The line can't be read in this cycle.
    valid, turn : Out(1), Out(turn_stage)
        A step that goes into the pipeline in this cycle, before any request; its line is there.
    """

    def __init__(self, params: SmParams) -> None:
        self._warps = params.warps
        super().__init__({
            "windows": In(data.ArrayLayout(WindowView, params.warps)),
            "look": Out(1), "warp": Out(params.warp_bits), "slot": Out(SLOT_BITS), "seen": In(SEEN_BITS), "quad": In(1),
            "frame": In(1), "hold": In(1), "valid": Out(1), "turn": Out(turn_stage(params))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.arbiter = arbiter = RoundRobin(self._warps)
        # A warp wants its turn until the turn is in the pipeline: so no other is chosen before.
        looking = Signal()
        wishes = Cat(window.wants_turn for window in self.windows)
        underway = arbiter.valid | looking | self.valid
        m.d.sync += looking.eq(self.look & self.hold)
        m.d.comb += [arbiter.requests.eq(wishes & ~underway.replicate(self._warps)), self.warp.eq(arbiter.chosen),
                     self.look.eq(arbiter.valid | looking)]

        window: Any = Signal(WindowView)
        turn, step = self.turn, self.turn.step
        m.d.comb += window.eq(self.windows[self.warp])
        again = window.state == WindowState.AGAIN
        finishes = window.state == WindowState.WRITE_BACK
        faulty = (window.state == WindowState.WAIT) & (window.fill == WindowFill.FAULTY)
        restores = window.state == WindowState.RESTORE
        m.d.comb += self.slot.eq(window.last[2:] - Mux(restores, 0, self.seen))
        m.d.sync += [
            self.valid.eq(self.look & ~self.hold), turn.warp.eq(self.warp),
            turn.top.eq(window.last[2:]), turn.slot.eq(self.slot),
            turn.tokens.eq(Mux(self.seen == 0, tokens_up_to(window.last), ~0) & again.replicate(TOKENS_PER_LINE)),
            turn.faulty.eq(faulty),
            step.walk.eq(again | faulty), step.quad.eq(self.quad), step.frame.eq(self.frame),
            step.seen.eq(self.seen),
            step.cached.eq(window.cached >> self.seen), step.bottom.eq(window.bottom),
            step.sink.eq((window.state == WindowState.WAIT) & ~faulty), step.finish.eq(finishes),
            step.restore.eq(restores), step.ends.eq(1)]
        return m
