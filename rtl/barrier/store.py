"""The state of all barriers, and how many warps each CTA still has."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.barriers import SYNCALL_BARRIER, BarrierState
from rtl.layouts import EventLayout, warp_launch
from rtl.params import SmParams
from rtl.words import Words

__all__ = ["BarrierStore", "barrier_row"]

_BARRIERS = SYNCALL_BARRIER + 1
_BLOCKS = {36: 512, 18: 1024, 9: 2048}
"""Words of a block RAM by their width."""


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
    terminated, terminated_warp, terminated_cta : In(1), In, Out
        This warp is no longer alive; its CTA.
    warp, warp_cta : In, Out
        The CTA of a warp.
    cta, number : In, In
        The barrier that is read and written; BAR.SYNCALL's is one of them.
    used, live : Out(17), Out(range(warps + 1))
        The CTA's barriers that are not zero; its live warps.
    present, row : Out(1), Out(barrier_row)
        Of the barrier, a cycle later: whether it is not zero, and what it is then; not of one that is written at the
        same time.
    write, keep, new : In(1), In(1), In(barrier_row)
        Writes the barrier; to zeros unless ``keep``.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        bits, row = params.warp_bits, barrier_row(params)
        super().__init__({
            "launch": In(EventLayout(warp_launch(params))), "terminated": In(1), "terminated_warp": In(bits),
            "terminated_cta": Out(bits), "warp": In(bits), "warp_cta": Out(bits), "cta": In(bits),
            "number": In(range(_BARRIERS)), "used": Out(_BARRIERS), "live": Out(range(params.warps + 1)),
            "present": Out(1), "row": Out(row), "write": In(1), "keep": In(1), "new": In(row)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        warps, count = self._params.warps, range(self._params.warps + 1)
        m.submodules.ctas = ctas = Words(self._params.warp_bits, warps)
        m.submodules.lost, m.submodules.whole = lost, whole = Words(count, warps), Words(count, warps)
        m.submodules.masks = masks = Words(_BARRIERS, warps)
        launched = self.launch.payload
        begins = self.launch.valid & (launched.number == 0)

        # Which CTA a warp belongs to.
        ctas.write(m, self.launch.valid, launched.warp, launched.cta)
        m.d.comb += [
            self.warp_cta.eq(ctas.read(m, self.warp)), self.terminated_cta.eq(ctas.read(m, self.terminated_warp))]

        # How many of its warps live: as many as it will ever have lost in this slot, less those that it has lost.
        lost.write(m, self.terminated, self.terminated_cta, lost.read(m, self.terminated_cta) + 1)
        whole.write(m, begins, launched.cta, lost.read(m, launched.cta) + launched.cta_warps)
        m.d.comb += self.live.eq(whole.read(m, self.cta) - lost.read(m, self.cta))

        # Which barriers are used.
        one = Signal(_BARRIERS)
        m.d.comb += [one.eq(Const(1) << self.number), self.used.eq(masks.read(m, self.cta))]
        masks.write(m, begins | self.write, Mux(begins, launched.cta, self.cta),
                    Mux(begins, 0, Mux(self.keep, self.used | one, self.used & ~one)))

        # Barriers, in block RAMs as wide as they can be that deep: others would need multiplexers behind them. The
        # register becomes their own.
        place, new, row = Cat(self.cta, self.number), Value.cast(self.new), Value.cast(self.row)
        depth = warps * _BARRIERS
        width = next(width for width, words in _BLOCKS.items() if words >= depth)
        for first in range(0, len(row), width):
            part = slice(first, first + width)
            m.submodules += (rows := Words(len(row[part]), depth, ram_style="block", no_rw_check=1))
            rows.write(m, self.write, place, new[part])
            m.d.sync += row[part].eq(rows.read(m, place))
        m.d.sync += self.present.eq((self.used & one).any())
        return m
