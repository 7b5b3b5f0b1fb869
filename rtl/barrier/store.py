"""The state of all barriers, and how many warps each CTA still has."""

from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.barriers import SYNCALL_BARRIER, BarrierState
from rtl.layouts import warp_launch
from rtl.params import SmParams

__all__ = ["BarrierStore"]

_BARRIERS = SYNCALL_BARRIER + 1


class BarrierStore(Component):
    """Barriers are in LUT memory, by number and CTA slot. One that is not used reads as zeros: a new CTA has none.

    Members
    -------
    launch : In(valid and warp_launch)
        A CTA begins with its warp number 0, and counts as having all its warps from then on.
    ended, ended_warp, ended_cta : In(1), In, Out
        A warp of this CTA is no longer alive.
    warp, warp_cta : In, Out
        The CTA of a warp.
    cta, number : In, In
        The barrier that is read and written; BAR.SYNCALL's is one of them.
    used : Out(17)
        The CTA's barriers that are not zero.
    live : Out
        The CTA's live warps.
    state : Out(BarrierState)
    write, keep, new : In(1), In(1), In(BarrierState)
        Writes the barrier; to zeros unless ``keep``.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        launch = warp_launch(params)
        self._launch = launch
        bits, count = params.warp_bits, launch["cta_warps"].width
        super().__init__({
            "launch": In(data.StructLayout({"valid": 1, "payload": launch})),
            "ended": In(1), "ended_warp": In(bits), "ended_cta": Out(bits), "warp": In(bits), "warp_cta": Out(bits),
            "cta": In(bits), "number": In(range(_BARRIERS)), "used": Out(_BARRIERS), "live": Out(count),
            "state": Out(BarrierState), "write": In(1), "keep": In(1), "new": In(BarrierState)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._membership(m)
        self._barriers(m)
        return m

    def _membership(self, m: Module) -> None:
        """Which CTA a warp belongs to, and how many of its warps live."""
        params, launch = self._params, self.launch
        m.submodules.ctas = ctas = memory.Memory(shape=params.warp_bits, depth=params.warps, init=[])
        write, of_warp, of_ended = ctas.write_port(), ctas.read_port(domain="comb"), ctas.read_port(domain="comb")
        m.d.comb += [
            write.en.eq(launch.valid), write.addr.eq(launch.payload.warp), write.data.eq(launch.payload.cta),
            of_warp.addr.eq(self.warp), self.warp_cta.eq(of_warp.data),
            of_ended.addr.eq(self.ended_warp), self.ended_cta.eq(of_ended.data)]
        live = Array(Signal(self._launch["cta_warps"].width, name=f"live{cta}") for cta in range(params.warps))
        m.d.comb += self.live.eq(live[self.cta])
        for cta in range(params.warps):
            with m.If(self.ended & (self.ended_cta == cta)):
                m.d.sync += live[cta].eq(live[cta] - 1)
            with m.If(self._begins & (launch.payload.cta == cta)):
                m.d.sync += live[cta].eq(launch.payload.cta_warps)

    @property
    def _begins(self) -> Any:
        return self.launch.valid & (self.launch.payload.number == 0)

    def _barriers(self, m: Module) -> None:
        params = self._params
        m.submodules.states = states = memory.Memory(
            shape=BarrierState, depth=params.warps * _BARRIERS, init=[])
        m.submodules.masks = masks = memory.Memory(shape=_BARRIERS, depth=params.warps, init=[])
        state, mask = states.read_port(domain="comb"), masks.read_port(domain="comb")
        state_write, mask_write = states.write_port(), masks.write_port()
        fresh = Signal(params.warps)
        one = Const(1, _BARRIERS) << self.number
        place = Cat(self.cta, self.number)
        m.d.comb += [
            mask.addr.eq(self.cta), self.used.eq(Mux(fresh.bit_select(self.cta, 1), 0, mask.data)),
            state.addr.eq(place), self.state.eq(Mux(self.used.bit_select(self.number, 1), state.data.as_value(), 0)),
            state_write.addr.eq(place), state_write.en.eq(self.write), state_write.data.eq(self.new),
            mask_write.addr.eq(self.cta), mask_write.en.eq(self.write),
            mask_write.data.eq(Mux(self.keep, self.used | one, self.used & ~one))]
        with m.If(self.write):
            m.d.sync += fresh.bit_select(self.cta, 1).eq(0)
        with m.If(self._begins):
            m.d.sync += fresh.bit_select(self.launch.payload.cta, 1).eq(1)
