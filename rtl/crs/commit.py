"""Commit: the fourth stage. Writes the state that a step leaves."""

from typing import Any

from amaranth.hdl import Assert, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.layouts import DEPTH_BITS, Event
from rtl.params import SmParams
from rtl.structs import common_fields, struct_value

from .records import Parking, StackStates, fills_up_to, stack_state
from .stages import CommitPort, commit_flags, judged_step
from .tokens import LAST_PLACE, PLACE_BITS

__all__ = ["CommitStage"]


class CommitStage(Component):
    """The fourth stage, beside the result: the state that is left is written, the warp is not busy
    any more, and the engine learns what it has to do for it.

    The next push writes into the topmost line if that has room, so this line has to be on chip
    before the next operation. If an operation leaves such a line, and no line on chip, its result is
    sent, but the warp stays busy. It parks, and its next request waits until the line has come
    (LOAD). A topmost line with room that is on chip when no other line is dirty counts as dirty,
    even if memory already has its tokens.

    Members
    -------
    stage : In(judged_step)
        The register behind the judge stage.
    committed : Out(Event(warp, last))
        See CallReturnStack.
    engine : Out(CommitPort)
    """

    def __init__(self, params: SmParams, states: StackStates) -> None:
        self._params = params
        self._states = states
        committed = data.StructLayout({"warp": params.warp_bits, "last": DEPTH_BITS})
        super().__init__({
            "stage": In(judged_step(params)),
            "committed": Out(Event(committed)),
            "engine": Out(CommitPort(params)),
        })
        self._state: Any = Signal(stack_state(params), name="state")
        """What is written."""
        self._lines = Signal(params.stack_count_bits, name="lines")
        """Lines on chip, then."""
        self._has_room = Signal(name="has_room")
        """The topmost line has room."""
        self._is_clean = Signal(name="is_clean")
        """No line is dirty, except a topmost one with room."""
        self._dirty_lines = Signal(params.stack_count_bits, name="dirty_lines")
        """How many are, if not."""
        self._waits_for_line = Signal(name="waits_for_line")
        """The topmost line has room, and is not on chip."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._count_lines(m)
        self._make_state(m)
        self._write(m)
        self._inform_engine(m)
        return m

    def _count_lines(self, m: Module) -> None:
        """Lines on chip, and dirty ones. Their difference has as many values of both signs as there
        are lines on chip; it is negative if the unwind has passed all dirty ones."""
        stage = self.stage
        step = stage.step
        is_negative = step.dropped & self._dirty_lines[-1]
        m.d.comb += self._lines.eq(Mux(stage.empties, 0, step.lines))
        m.d.comb += self._dirty_lines.eq(step.state.dirtied - self.engine.counters.cleaned)
        m.d.comb += self._is_clean.eq(
            stage.empties | is_negative | (self._dirty_lines == 0))

    def _make_state(self, m: Module) -> None:
        """The state that the step leaves."""
        stage = self.stage
        state = self._state
        m.d.comb += state.eq(stage.step.state)
        with m.If(stage.rolls_back):
            m.d.comb += common_fields(state, stage.origin)
        with m.Elif(stage.ends_warp):
            m.d.comb += state.calls.eq(0)
            m.d.comb += state.kill.eq(0)
        m.d.comb += self._has_room.eq(state.last[:PLACE_BITS] != LAST_PLACE)
        with m.If(stage.empties):
            m.d.comb += state.entered.eq(self.engine.counters.below)
        with m.If(self._is_clean):
            topmost_is_dirty = self._has_room & (self._lines != 0)
            m.d.comb += state.dirtied.eq(self.engine.counters.cleaned + topmost_is_dirty)

    def _write(self, m: Module) -> None:
        """Writes the state, and reports it."""
        stage = self.stage
        warp = stage.step.warp
        committed = self.committed
        busy = self._states.busy
        m.d.comb += self._waits_for_line.eq(
            stage.writes & stage.is_done & self._has_room & (self._lines == 0))
        self._states.states.write(m, stage.writes, warp, self._state)
        busy.write(m, stage.is_done & ~self._waits_for_line, warp, 0)
        m.d.sync += committed.valid.eq(stage.writes & stage.is_done)
        m.d.sync += committed.payload.eq(struct_value(
            committed.payload.shape(), warp=warp, last=self._state.last))
        m.d.sync += Assert(~stage.is_done | busy.read(m, warp), "a result of a warp that is not busy")
        m.d.sync += Assert(~(stage.is_done & stage.parks), "an operation both ends and continues")

    def _inform_engine(self, m: Module) -> None:
        """The flags by which the spill and fill engine learns of the step."""
        stage = self.stage
        step = stage.step
        last = self._state.last
        lines = self._lines
        has_few_lines = lines <= fills_up_to(self._params)
        top_line = last[PLACE_BITS:]
        none_below = Mux(lines == 0, last[-1], top_line == (lines - 1)[:len(lines)])
        empties = stage.writes & stage.empties
        invalidates = stage.moves_region | empties
        may_change = self._is_clean | (self._dirty_lines == 1)
        m.d.comb += self.engine.flags.eq(struct_value(
            commit_flags(self._params),
            warp=step.warp,
            parks=stage.parks | self._waits_for_line,
            parking=Mux(self._waits_for_line, Parking.LOAD, stage.parking),
            writes=stage.writes,
            empties=empties,
            needs_fill=stage.writes & step.has_region & has_few_lines & ~none_below,
            invalidates=invalidates,
            keeps_lines=invalidates | (stage.writes & may_change)))
