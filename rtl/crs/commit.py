"""The fourth stage, beside the answer: what an operation makes of its warp's stack."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.tokens import TOKENS_PER_LINE
from rtl.params import SmParams

from .records import COUNT_BITS, FILLS_UP_TO, Parking, StackState, commit_stage

__all__ = ["StackCommit"]


class StackCommit(Component):
    """Combinational.

    Members
    -------
    stage : In(commit_stage)
    below, cleaned : In(COUNT_BITS), In(COUNT_BITS)
        The engine's counters as they are now: lines may have come and gone since the step was in the first stage.
    state : Out(StackState)
        The state to write. A topmost line that has room is dirty, whatever memory has behind its tokens.
    done : Out(1)
        The warp's next request may follow.
    parks, parking : Out(1), Out(Parking)
        Its operation goes on by the spill and fill engine: also where the topmost line has room and is not on chip.
    lacks : Out(1)
        So few lines are on chip that the next is to be read.
    stirs, lowers : Out(1), Out(1)
        What moves between cache and memory for the warp counts for nothing; also if less than two lines are dirty: what
        is on its way out then may be changed.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({"stage": In(commit_stage(params)), "below": In(COUNT_BITS),
                          "cleaned": In(COUNT_BITS), "state": Out(StackState), "done": Out(1), "parks": Out(1),
                          "parking": Out(Parking), "lacks": Out(1), "stirs": Out(1), "lowers": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        stage, state = self.stage, self.state
        lines, dirty, room, waits, soils = Signal(COUNT_BITS), Signal(COUNT_BITS), Signal(), Signal(), Signal()
        difference = Signal(COUNT_BITS)
        bottom = Mux(lines == 0, state.last[-1], ~state.last[3:].any() & (state.last[2] == lines[1]))
        m.d.comb += [
            lines.eq(Mux(stage.forget, 0, stage.lines)), difference.eq(stage.dirtied - self.cleaned),
            # From -4 to 4, and never 4 if lines were dropped.
            dirty.eq(Mux(stage.forget | (stage.dropped & difference[-1]), 0, difference)),
            state.last.eq(Mux(stage.back, stage.origin.last, stage.number)),
            state.calls.eq(Mux(stage.back, stage.origin.calls, Mux(stage.ends, 0, stage.calls))),
            state.kill.eq(stage.kill & (stage.back | ~stage.ends)), state.sunk.eq(stage.sunk),
            room.eq(state.last[:2] != TOKENS_PER_LINE - 1), soils.eq(room & (dirty == 0) & (lines != 0)),
            state.entered.eq(Mux(stage.forget, self.below, stage.below + stage.lines)),
            state.dirtied.eq(Mux(dirty == 0, self.cleaned + soils, stage.dirtied)),
            self.stirs.eq(stage.moves | (stage.write & stage.forget)),
            self.lowers.eq(self.stirs | (stage.write & (dirty < 2))),
            waits.eq(stage.write & stage.done & room & (lines == 0)),
            self.done.eq(stage.done & ~waits), self.parks.eq(stage.parks | waits),
            self.parking.eq(Mux(waits, Parking.LOAD, stage.parking)),
            self.lacks.eq(stage.write & stage.memory & (lines <= FILLS_UP_TO) & ~bottom)]
        return m
