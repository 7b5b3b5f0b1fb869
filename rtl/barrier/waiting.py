"""Which warps wait, what each gave to the reductions of its barrier, and the last result of each."""

from amaranth.hdl import Assert, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.arbiter import lowest
from rtl.component import Component
from rtl.isa.barriers import SYNCALL_BARRIER, BarrierState
from rtl.isa.kinds import BarrierReduction
from rtl.layouts import EventLayout, warp_launch
from rtl.one_hot import one_hot
from rtl.params import WARP_THREADS, SmParams
from rtl.words import Words

__all__ = ["WaitingWarps"]


class WaitingWarps(Component):
    """Who waits, and what for.

    Members
    -------
    launch : In(EventLayout of warp_launch)
        A new warp: its result is 0. No ``note`` and no ``settle`` may come.
    warp : In
        The warp that begins to wait, is withdrawn, or gets or reads a result.
    wait, arrival : In(1), In
        It begins to wait: at the barrier of which ``number``, and which ``reduction`` it wants, if it ``reduces``. It
        gives ``population`` threads to that; ``some_false`` and ``some_true`` tell whether one of its threads has not,
        and whether one has the predicate.
    came : Out
        What it came for last.
    withdraw : In(1)
        It waits no longer, and does not go on either.
    group, release : In(warps), In(1)
        Who waits at a barrier; waits no longer.
    settle, state : In(1), In(BarrierState)
        The lowest warp of the group has its result of ``state`` noted, if it reduces.
    note, noted : In(1), In(32)
        A result for ``warp``.
    result : Out(32)
    waiting, meeting : Out(warps)
        Who waits at a barrier that programs can name; at BAR.SYNCALL.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        warps = params.warps
        arrival = data.StructLayout({
            "number": range(SYNCALL_BARRIER + 1), "reduces": 1, "reduction": BarrierReduction,
            "population": range(WARP_THREADS + 1), "some_false": 1, "some_true": 1})
        super().__init__({
            "launch": In(EventLayout(warp_launch(params))), "warp": In(params.warp_bits),
            "wait": In(1), "arrival": In(arrival), "came": Out(arrival), "withdraw": In(1),
            "group": In(warps), "release": In(1), "settle": In(1), "state": In(BarrierState), "note": In(1),
            "noted": In(32), "result": Out(32), "waiting": Out(warps), "meeting": Out(warps)})
        self.arrivals = Words(arrival, warps)       # for sim.diagnosis

    def elaborate(self, platform: object) -> Module:
        m = Module()
        launch, group, one = self.launch, self.group, Signal(self._params.warps)
        m.submodules.arrivals = arrivals = self.arrivals
        m.submodules.results = results = Words(32, self._params.warps)

        # Who waits.
        m.d.comb += one.eq(one_hot(self.warp, self._params.warps))
        meets, gone = self.arrival.number == SYNCALL_BARRIER, Mux(self.release, group, Mux(self.withdraw, one, 0))
        for flags, begins in ((self.waiting, self.wait & ~meets), (self.meeting, self.wait & meets)):
            m.d.sync += flags.eq((flags & ~gone) | Mux(begins, one, 0))

        # What each came for, and its result.
        settled, reduced = Signal(self._params.warp_bits), Signal(32)
        owing = arrivals.read(m, settled)
        arrivals.write(m, self.wait, self.warp, self.arrival)
        results.write(m, launch.valid | self.note | (self.settle & owing.reduces),
                      Mux(launch.valid, launch.payload.warp, Mux(self.note, self.warp, settled)),
                      Mux(launch.valid, 0, Mux(self.note, self.noted, reduced)))
        m.d.comb += [
            settled.eq(lowest(group)), self.came.eq(arrivals.read(m, self.warp)),
            self.result.eq(results.read(m, self.warp))]
        with m.Switch(owing.reduction):
            with m.Case(BarrierReduction.POPC):
                m.d.comb += reduced.eq(self.state.population)
            with m.Case(BarrierReduction.AND):
                m.d.comb += reduced.eq(~self.state.some_false)
            with m.Case(BarrierReduction.OR):
                m.d.comb += reduced.eq(self.state.some_true)

        m.d.sync += [
            Assert(~(launch.valid & (self.note | self.settle)), "a result is noted beside that of a new warp"),
            Assert(~(self.wait & (one & (self.waiting | self.meeting)).any()), "a warp arrives that waits"),
            Assert(~(self.release & (group & ~(self.waiting | self.meeting)).any()), "a warp is let go that does not "
                   "wait"),
            Assert(~(self.withdraw & ~(one & self.waiting).any()), "a warp is withdrawn that does not wait")]
        return m
