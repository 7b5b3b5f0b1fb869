"""The state of all barriers, and how many warps each CTA still has."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.barriers import SYNCALL_BARRIER, BarrierState
from rtl.layouts import Event, warp_launch
from rtl.params import SmParams

__all__ = ["BarrierStore", "barrier_row"]

_BARRIERS = SYNCALL_BARRIER + 1


def barrier_row(params: SmParams) -> data.StructLayout:
    """What is kept of a barrier: its ``state``, and the warps that wait there, a bit a warp slot."""
    return data.StructLayout({"state": BarrierState, "waiting": params.warps})


class BarrierStore(Component):
    """Barriers are in block RAM, by number and CTA slot. One that is not used reads as zeros: a new CTA has none.

    Members
    -------
    launch : In(Event of warp_launch)
        A CTA begins with its warp number 0, and counts as having all its warps from then on.
    ended : In(Event of a warp)
        This warp is no longer alive.
    ended_cta : Out
        Its CTA.
    warp, warp_cta : In, Out
        The CTA of a warp.
    cta, number : In, In
        The barrier that is read and written; BAR.SYNCALL's is one of them.
    used : Out(17)
        The CTA's barriers that are not zero.
    live : Out(range(warps + 1))
        The CTA's live warps.
    row : Out(barrier_row)
        Of the barrier, a cycle later; not of one that is written at the same time.
    write, keep, new : In(1), In(1), In(barrier_row)
        Writes the barrier; to zeros unless ``keep``.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        bits, row = params.warp_bits, barrier_row(params)
        super().__init__({
            "launch": In(Event(warp_launch(params))), "ended": In(Event(bits)), "ended_cta": Out(bits),
            "warp": In(bits), "warp_cta": Out(bits), "cta": In(bits), "number": In(range(_BARRIERS)),
            "used": Out(_BARRIERS), "live": Out(range(params.warps + 1)), "row": Out(row), "write": In(1),
            "keep": In(1), "new": In(row)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        begins = Signal()
        m.d.comb += begins.eq(self.launch.valid & (self.launch.payload.number == 0))
        self._membership(m, begins)
        self._barriers(m, begins)
        return m

    def _membership(self, m: Module, begins: Signal) -> None:
        """Which CTA a warp belongs to, and how many of its warps live: as many as it will ever have lost in this slot,
        less those that it has lost."""
        params, launch = self._params, self.launch
        m.submodules.ctas = ctas = memory.Memory(shape=params.warp_bits, depth=params.warps, init=[])
        write, of_warp, of_ended = ctas.write_port(), ctas.read_port(domain="comb"), ctas.read_port(domain="comb")
        m.d.comb += [
            write.en.eq(launch.valid), write.addr.eq(launch.payload.warp), write.data.eq(launch.payload.cta),
            of_warp.addr.eq(self.warp), self.warp_cta.eq(of_warp.data),
            of_ended.addr.eq(self.ended.payload), self.ended_cta.eq(of_ended.data)]

        counts = {"shape": range(params.warps + 1), "depth": params.warps, "init": []}
        m.submodules.lost, m.submodules.whole = lost, whole = memory.Memory(**counts), memory.Memory(**counts)
        losing, beginning = lost.write_port(), whole.write_port()
        before, at_begin, now = (lost.read_port(domain="comb") for _ in range(3))
        limit = whole.read_port(domain="comb")
        m.d.comb += [
            before.addr.eq(self.ended_cta), losing.en.eq(self.ended.valid), losing.addr.eq(self.ended_cta),
            losing.data.eq(before.data + 1), at_begin.addr.eq(launch.payload.cta), beginning.en.eq(begins),
            beginning.addr.eq(launch.payload.cta), beginning.data.eq(at_begin.data + launch.payload.cta_warps),
            limit.addr.eq(self.cta), now.addr.eq(self.cta), self.live.eq(limit.data - now.data)]

    def _barriers(self, m: Module, begins: Signal) -> None:
        params = self._params
        # The register becomes the block RAM's own.
        attributes: Any = {"ram_style": "block", "no_rw_check": 1}
        m.submodules.rows = rows = memory.Memory(
            shape=barrier_row(params), depth=params.warps * _BARRIERS, init=[], attrs=attributes)
        m.submodules.masks = masks = memory.Memory(shape=_BARRIERS, depth=params.warps, init=[])
        row, row_write = rows.read_port(domain="comb"), rows.write_port()
        mask, mask_write = masks.read_port(domain="comb"), masks.write_port()
        fresh, fetched, some = Signal(params.warps), Signal(barrier_row(params)), Signal()
        one: Any = Const(1, _BARRIERS) << self.number
        place = Cat(self.cta, self.number)
        m.d.sync += [fetched.eq(row.data), some.eq(self.used.bit_select(self.number, 1))]
        m.d.comb += [
            mask.addr.eq(self.cta), self.used.eq(Mux(fresh.bit_select(self.cta, 1), 0, mask.data)),
            row.addr.eq(place), self.row.eq(Mux(some, fetched.as_value(), 0)),
            row_write.addr.eq(place), row_write.en.eq(self.write), row_write.data.eq(self.new),
            mask_write.addr.eq(self.cta), mask_write.en.eq(self.write),
            mask_write.data.eq(Mux(self.keep, self.used | one, self.used & ~one))]
        with m.If(self.write):
            m.d.sync += fresh.bit_select(self.cta, 1).eq(0)
        with m.If(begins):
            m.d.sync += fresh.bit_select(self.launch.payload.cta, 1).eq(1)
