"""Which warp waits where, and for which reduction."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out

from rtl.arbiter import lowest
from rtl.component import Component
from rtl.isa.barriers import BARRIERS, BarrierState
from rtl.isa.kinds import BarrierReduction
from rtl.params import SmParams

__all__ = ["WaitingWarps"]


class WaitingWarps(Component):
    """Notes warps that wait, lets those of a barrier go at once, and keeps each warp's last result.

    Members
    -------
    begin, begin_warp : In(1), In
        A new warp: its result is 0.
    wait, warp, reduces, reduction : In(1), In, In(1), In(BarrierReduction)
        The warp begins to wait at the barrier, and wants its reduction if it ``reduces``.
    cta, number : In, In
        The barrier.
    release, state : In(1), In(BarrierState)
        All who wait at the barrier go on. Those that reduce have their results of ``state`` noted in the next cycles.
    busy : Out(1)
        Results are still to be noted. No ``release`` and no ``note`` may come, and ``state`` must stay.
    waiting, places : Out(warps), Out(array of numbers)
        Who waits, and at the barrier of which number.
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
            "reduction": In(BarrierReduction), "cta": In(bits), "number": In(range(BARRIERS)), "release": In(1),
            "state": In(BarrierState), "busy": Out(1), "waiting": Out(warps),
            "places": Out(data.ArrayLayout(range(BARRIERS), warps)), "released": Out(warps), "note": In(1),
            "noted": In(32), "result": Out(32)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        params = self._params
        here, reduces = Signal(params.warps), Signal(params.warps)
        kinds = Signal(data.ArrayLayout(BarrierReduction, params.warps))
        for warp in range(params.warps):
            cta = Signal(params.warp_bits, name=f"cta{warp}")
            m.d.comb += here[warp].eq((cta == self.cta) & (self.places[warp] == self.number))
            with m.If(self.wait & (self.warp == warp)):
                m.d.sync += [
                    self.waiting[warp].eq(1), cta.eq(self.cta), self.places[warp].eq(self.number),
                    reduces[warp].eq(self.reduces), kinds[warp].eq(self.reduction)]
            with m.Elif(self.released[warp]):
                m.d.sync += self.waiting[warp].eq(0)
        m.d.comb += self.released.eq(Mux(self.release, self.waiting & here, 0))
        self._results(m, reduces, kinds)
        return m

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
