"""The state of all barriers, and how many warps each CTA still has."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.barriers import SYNCALL_BARRIER, BarrierState
from rtl.layouts import EventLayout, warp_launch
from rtl.params import SmParams
from rtl.words import Words

__all__ = ["BarrierStore", "barrier_row"]

_BARRIERS = SYNCALL_BARRIER + 1


def barrier_row(params: SmParams) -> data.StructLayout:
    """What is kept of a barrier: its ``state``, and the warps that wait there, a bit a warp slot. ``reduces``: one of
    them wants a result; ``gave_false`` and ``gave_true``: so many of them gave that to a reduction."""
    count = range(params.warps + 1)
    return data.StructLayout({
        "state": BarrierState, "waiting": params.warps, "reduces": 1, "gave_false": count, "gave_true": count})


class BarrierStore(Component):
    """Barriers are in block RAM, by number and CTA slot. One that is not used reads as zeros: a new CTA has none.

    Members
    -------
    launch : In(EventLayout of warp_launch)
        A CTA begins with its warp number 0, and counts as having all its warps from then on. No ``write`` may come.
    ended, ended_warp, ended_cta : In(1), In, Out
        This warp is no longer alive; its CTA.
    warp, warp_cta : In, Out
        The CTA of a warp.
    cta, number : In, In
        The barrier that is read and written; BAR.SYNCALL's is one of them.
    used, live : Out(17), Out(range(warps + 1))
        The CTA's barriers that are not zero; its live warps.
    row : Out(barrier_row)
        Of the barrier, a cycle later; not of one that is written at the same time.
    write, keep, new : In(1), In(1), In(barrier_row)
        Writes the barrier; to zeros unless ``keep``.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        bits, row = params.warp_bits, barrier_row(params)
        super().__init__({
            "launch": In(EventLayout(warp_launch(params))), "ended": In(1),
            "ended_warp": In(bits), "ended_cta": Out(bits), "warp": In(bits), "warp_cta": Out(bits), "cta": In(bits),
            "number": In(range(_BARRIERS)), "used": Out(_BARRIERS), "live": Out(range(params.warps + 1)),
            "row": Out(row), "write": In(1), "keep": In(1), "new": In(row)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        warps, row, count = self._params.warps, barrier_row(self._params), range(self._params.warps + 1)
        m.submodules.ctas = ctas = Words(self._params.warp_bits, warps)
        m.submodules.lost, m.submodules.whole = lost, whole = Words(count, warps), Words(count, warps)
        m.submodules.masks = masks = Words(_BARRIERS, warps)
        m.submodules.rows = rows = Words(row, warps * _BARRIERS, ram_style="block", no_rw_check=1)
        launched = self.launch.payload
        begins = self.launch.valid & (launched.number == 0)

        # Which CTA a warp belongs to.
        ctas.write(m, self.launch.valid, launched.warp, launched.cta)
        m.d.comb += [
            self.warp_cta.eq(ctas.read(m, self.warp)), self.ended_cta.eq(ctas.read(m, self.ended_warp))]

        # How many of its warps live: as many as it will ever have lost in this slot, less those that it has lost.
        lost.write(m, self.ended, self.ended_cta, lost.read(m, self.ended_cta) + 1)
        whole.write(m, begins, launched.cta, lost.read(m, launched.cta) + launched.cta_warps)
        m.d.comb += self.live.eq(whole.read(m, self.cta) - lost.read(m, self.cta))

        # Which barriers are used.
        one = Signal(_BARRIERS)
        m.d.comb += [one.eq(Const(1) << self.number), self.used.eq(masks.read(m, self.cta))]
        masks.write(m, begins | self.write, Mux(begins, launched.cta, self.cta),
                    Mux(begins, 0, Mux(self.keep, self.used | one, self.used & ~one)))

        # Barriers; the register becomes the block RAM's own.
        fetched, some, place = Signal(row), Signal(), Cat(self.cta, self.number)
        rows.write(m, self.write, place, self.new)
        m.d.sync += [fetched.eq(rows.read(m, place)), some.eq((self.used & one).any())]
        m.d.comb += self.row.eq(Mux(some, fetched.as_value(), 0))
        return m
