"""Select, S0: which of the ready warps issues, and for how long the lanes are busy."""

from abc import abstractmethod
from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.one_hot import number_of
from rtl.params import SmParams
from rtl.wires import KEEP

from .order import WarpPriority

__all__ = ["BeatSelector", "CycleSelector", "LaneTimer", "WarpSelector", "warp_selector"]


class WarpSelector(Component):
    """Selects one of the warps that are ready: candidates to one-hot, in one cycle.

    Members
    -------
    ready_lanes, ready_others : In(warps)
        Ready warps, by whether their instruction passes the lanes; no warp is both.
    lanes_are_free : In(1)
    enable : In(1)
        A warp may be selected. Comes late.
    selected : Out(warps)
        The warp that is selected, if one is.
    is_selected : Out(1)
    number : Out
        Of the warp that is selected; without meaning if none is.
    lanes_are_used : Out(1)
        A warp is selected, and some warp is ready for the lanes, which are free.
    lanes_candidate : Out(warps)
        The warp that is selected if ``lanes_are_used``; without meaning else.
    """

    def __init__(self, params: SmParams, priority: WarpPriority) -> None:
        self._priority = priority
        super().__init__({
            "ready_lanes": In(params.warps),
            "ready_others": In(params.warps),
            "lanes_are_free": In(1),
            "enable": In(1),
            "selected": Out(params.warps),
            "is_selected": Out(1),
            "number": Out(params.warp_bits),
            "lanes_are_used": Out(1),
            "lanes_candidate": Out(params.warps),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.lanes_are_used.eq(
            self.enable & self.lanes_are_free & self.ready_lanes.any())
        m.d.comb += self.is_selected.eq(
            self.enable & (self.lanes_are_used | self.ready_others.any()))
        self._select(m)
        m.d.sync += Assert(
            self.selected.any() == self.is_selected, "whether a warp is selected is not known")
        return m

    @abstractmethod
    def _select(self, m: Module) -> None:
        """Selects one."""


class CycleSelector(WarpSelector):
    """Selects where 32 threads pass the lanes in one beat: in nearly every cycle the lanes are
    free, and an instruction that passes them needs no precedence. It chooses once, among all ready
    warps."""

    def _select(self, m: Module) -> None:
        candidates = Mux(self.lanes_are_free, self.ready_lanes, 0) | self.ready_others
        first = Signal.like(self.selected, attrs=KEEP)
        m.d.comb += first.eq(self._priority.first(candidates))
        m.d.comb += self.lanes_candidate.eq(first)
        m.d.comb += self.number.eq(number_of(first))
        with m.If(self.enable):
            m.d.comb += self.selected.eq(first)


class BeatSelector(WarpSelector):
    """Selects where an instruction has the lanes for several beats: one that passes them has
    priority, if they are free. It makes two choices at the same time, and uses one."""

    def _select(self, m: Module) -> None:
        first_lanes = Signal.like(self.selected, attrs=KEEP)
        first_others = Signal.like(self.selected, attrs=KEEP)
        m.d.comb += first_lanes.eq(self._priority.first(self.ready_lanes))
        m.d.comb += first_others.eq(self._priority.first(self.ready_others))
        m.d.comb += self.lanes_candidate.eq(first_lanes)
        with m.If(self.lanes_are_used):
            m.d.comb += self.number.eq(number_of(first_lanes))
            m.d.comb += self.selected.eq(first_lanes)
        with m.Else():
            m.d.comb += self.number.eq(number_of(first_others))
            with m.If(self.enable):
                m.d.comb += self.selected.eq(first_others)


def warp_selector(params: SmParams, priority: WarpPriority) -> WarpSelector:
    """The selector of a machine."""
    selector = CycleSelector if params.beats == 1 else BeatSelector
    return selector(params, priority)


class LaneTimer(Component):
    """Counts for how long the lanes are busy: a cycle a beat, or as long as the full lanes (one of
    each four) take for an instruction of a quarter of the rate, which only they can execute.

    Members
    -------
    starts : In(1)
        An instruction or operations are selected for the lanes.
    quarter_starts : In(1)
        An instruction of a quarter of the rate is.
    free : Out(1)
        Something may be selected for the lanes.
    quarter_completes : Out(1)
        In this cycle nothing may be selected that would be complete beside the last part of an
        instruction of a quarter of the rate.

    Attributes
    ----------
    beats_left : beats - 1
        A bit moves up through it while the beats pass.
    quarter_left : Signal
        Cycles that the full lanes still take.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "starts": In(1),
            "quarter_starts": In(1),
            "free": Out(1, init=1),     # pyright: ignore[reportCallIssue]
            "quarter_completes": Out(1),
        })
        self.beats_left = Signal(params.beats - 1)
        self.quarter_left = Signal(range(params.quarter_cycles))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        beats_left = self.beats_left
        quarter_left = self.quarter_left
        m.d.sync += beats_left.eq(Cat(self.starts, beats_left))
        with m.If(self.quarter_starts):
            m.d.sync += quarter_left.eq(self._params.quarter_cycles - 1)
        with m.Elif(quarter_left != 0):
            m.d.sync += quarter_left.eq(quarter_left - 1)

        beats_follow: Any = 0
        if self._params.beats > 1:
            beats_follow = self.starts | beats_left[:-1].any()
        m.d.sync += self.free.eq(~(self.quarter_starts | (quarter_left > 1) | beats_follow))
        m.d.comb += self.quarter_completes.eq(quarter_left == 2)
        return m
