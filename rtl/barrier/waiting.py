"""Which warp waits where, for which reduction, and what it gave to that."""

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out

from rtl.arbiter import lowest
from rtl.component import Component
from rtl.isa.barriers import SYNCALL_BARRIER, BarrierState
from rtl.isa.kinds import BarrierReduction
from rtl.params import WARP_THREADS, SmParams

__all__ = ["WaitingWarps"]

_NUMBERS = range(SYNCALL_BARRIER + 1)


class WaitingWarps(Component):
    """Notes warps that wait, lets those of a barrier go at once, and keeps each warp's last result.

    Members
    -------
    begin, begin_warp : In(1), In
        A new warp: its result is 0.
    wait, warp, reduces, reduction : In(1), In, In(1), In(BarrierReduction)
        The warp begins to wait at the barrier, and wants its reduction if it ``reduces``.
    population, some_false, some_true : In, In(1), In(1)
        What the warp that begins to wait gives to the barrier's reductions.
    withdraw : In(1)
        The warp waits no longer, and does not go on either.
    place, given : Out, Out
        Where ``warp`` waits, and the population that it gave.
    others_false, others_true : Out(1), Out(1)
        What the warps that wait at the barrier gave, but for ``warp``.
    cta, number : In, In
        The barrier.
    release, state : In(1), In(BarrierState)
        All who wait at the barrier go on. Those that reduce have their results of ``state`` noted in the next cycles.
    busy : Out(1)
        Results are still to be noted. No ``release`` and no ``note`` may come, and ``state`` must stay.
    waiting, meeting, places : Out(warps), Out(warps), Out(array of numbers)
        Who waits at a barrier, who at BAR.SYNCALL, and at the barrier of which number.
    released : Out(warps)
        Who goes on by the release of this cycle.
    note, noted : In(1), In(32)
        A result for ``warp``.
    result : Out(32)
        Of ``warp``.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        warps, bits = params.warps, params.warp_bits
        super().__init__({
            "begin": In(1), "begin_warp": In(bits), "wait": In(1), "warp": In(bits), "reduces": In(1),
            "reduction": In(BarrierReduction), "population": In(range(WARP_THREADS + 1)), "some_false": In(1),
            "some_true": In(1), "withdraw": In(1), "place": Out(_NUMBERS), "given": Out(range(WARP_THREADS + 1)),
            "others_false": Out(1), "others_true": Out(1), "cta": In(bits), "number": In(_NUMBERS), "release": In(1),
            "state": In(BarrierState), "busy": Out(1), "waiting": Out(warps), "meeting": Out(warps),
            "places": Out(data.ArrayLayout(_NUMBERS, warps)), "released": Out(warps), "note": In(1), "noted": In(32),
            "result": Out(32)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        params = self._params
        waits, here, reduces = Signal(params.warps), Signal(params.warps), Signal(params.warps)
        kinds = Signal(data.ArrayLayout(BarrierReduction, params.warps))
        for warp in range(params.warps):
            cta = Signal(params.warp_bits, name=f"cta{warp}")
            meets = self.places[warp] == SYNCALL_BARRIER
            m.d.comb += [
                here[warp].eq((cta == self.cta) & (self.places[warp] == self.number)),
                self.waiting[warp].eq(waits[warp] & ~meets), self.meeting[warp].eq(waits[warp] & meets)]
            with m.If(self.wait & (self.warp == warp)):
                m.d.sync += [
                    waits[warp].eq(1), cta.eq(self.cta), self.places[warp].eq(self.number),
                    reduces[warp].eq(self.reduces), kinds[warp].eq(self.reduction)]
            with m.Elif(self.released[warp] | (self.withdraw & (self.warp == warp))):
                m.d.sync += waits[warp].eq(0)
        m.d.comb += self.released.eq(Mux(self.release, waits & here, 0))
        self._given(m, waits & here)
        self._results(m, reduces, kinds)
        return m

    def _given(self, m: Module, here: Value) -> None:
        """What each warp gave to reductions, so that it can be taken back."""
        params = self._params
        m.submodules.populations = populations = memory.Memory(
            shape=range(WARP_THREADS + 1), depth=params.warps, init=[])
        write, read = populations.write_port(), populations.read_port(domain="comb")
        gave_false, gave_true, others = Signal(params.warps), Signal(params.warps), Signal(params.warps)
        m.d.comb += [
            write.en.eq(self.wait), write.addr.eq(self.warp), write.data.eq(self.population), read.addr.eq(self.warp),
            self.given.eq(read.data), self.place.eq(self.places[self.warp]), others.eq(here & ~(Const(1) << self.warp)),
            self.others_false.eq((others & gave_false).any()), self.others_true.eq((others & gave_true).any())]
        with m.If(self.wait):
            m.d.sync += [gave_false.bit_select(self.warp, 1).eq(self.some_false),
                         gave_true.bit_select(self.warp, 1).eq(self.some_true)]

    def _results(self, m: Module, reduces: Signal, kinds: data.View) -> None:
        """Notes one result a cycle."""
        params = self._params
        m.submodules.results = results = memory.Memory(shape=32, depth=params.warps, init=[])
        write, read = results.write_port(), results.read_port(domain="comb")
        owed, known, next_owed = Signal(params.warps), Signal(params.warps), Signal(params.warp_bits)
        reduced = Signal(32)
        m.d.comb += [
            self.busy.eq(owed.any()), next_owed.eq(lowest(owed)),
            read.addr.eq(self.warp), self.result.eq(Mux(known.bit_select(self.warp, 1), read.data, 0)),
            write.en.eq(self.note | self.busy), write.addr.eq(Mux(self.busy, next_owed, self.warp)),
            write.data.eq(Mux(self.busy, reduced, self.noted))]
        with m.Switch(kinds[next_owed]):
            with m.Case(BarrierReduction.POPC):
                m.d.comb += reduced.eq(self.state.population)
            with m.Case(BarrierReduction.AND):
                m.d.comb += reduced.eq(~self.state.some_false)
            with m.Case(BarrierReduction.OR):
                m.d.comb += reduced.eq(self.state.some_true)
        with m.If(self.busy):
            m.d.sync += owed.eq(owed & (owed - 1))
        with m.If(self.release):
            m.d.sync += owed.eq(self.released & reduces)
        with m.If(write.en):
            m.d.sync += known.bit_select(write.addr, 1).eq(1)
        with m.If(self.begin):
            m.d.sync += known.bit_select(self.begin_warp, 1).eq(0)
