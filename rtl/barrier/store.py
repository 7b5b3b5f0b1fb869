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
    """What is kept of a barrier: its ``state``, and the warps that wait there, a bit a warp slot. ``reduces``: one of
    them wants a result; ``gave_false`` and ``gave_true``: so many of them gave that to a reduction."""
    count = range(params.warps + 1)
    return data.StructLayout({
        "state": BarrierState, "waiting": params.warps, "reduces": 1, "gave_false": count, "gave_true": count})


class BarrierStore(Component):
    """Barriers are in block RAM, by number and CTA slot. One that is not used reads as zeros: a new CTA has none.

    Members
    -------
    launch : In(Event of warp_launch)
        A CTA begins with its warp number 0, and counts as having all its warps from then on. No ``write`` may come.
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
        params, launched = self._params, self.launch.payload
        begins = self.launch.valid & (launched.number == 0)

        # Which CTA a warp belongs to.
        ctas = self._memory(m, "ctas", params.warp_bits, params.warps)
        self._write(m, ctas, self.launch.valid, launched.warp, launched.cta)
        m.d.comb += [
            self.warp_cta.eq(self._read(m, ctas, self.warp)),
            self.ended_cta.eq(self._read(m, ctas, self.ended.payload))]

        # How many of its warps live: as many as it will ever have lost in this slot, less those that it has lost.
        lost, whole = (self._memory(m, name, range(params.warps + 1), params.warps) for name in ("lost", "whole"))
        self._write(m, lost, self.ended.valid, self.ended_cta, self._read(m, lost, self.ended_cta) + 1)
        self._write(m, whole, begins, launched.cta, self._read(m, lost, launched.cta) + launched.cta_warps)
        m.d.comb += self.live.eq(self._read(m, whole, self.cta) - self._read(m, lost, self.cta))

        # Which barriers are used.
        masks, one = self._memory(m, "masks", _BARRIERS, params.warps), Signal(_BARRIERS)
        m.d.comb += [one.eq(Const(1) << self.number), self.used.eq(self._read(m, masks, self.cta))]
        self._write(m, masks, begins | self.write, Mux(begins, launched.cta, self.cta),
                    Mux(begins, 0, Mux(self.keep, self.used | one, self.used & ~one)))

        # Barriers; the register becomes the block RAM's own.
        attributes: Any = {"ram_style": "block", "no_rw_check": 1}
        rows = self._memory(m, "rows", barrier_row(params), params.warps * _BARRIERS, attributes)
        fetched, some, place = Signal(barrier_row(params)), Signal(), Cat(self.cta, self.number)
        self._write(m, rows, self.write, place, self.new)
        m.d.sync += [fetched.eq(self._read(m, rows, place)), some.eq((self.used & one).any())]
        m.d.comb += self.row.eq(Mux(some, fetched.as_value(), 0))
        return m

    def _memory(self, m: Module, name: str, shape: Any, depth: int, attributes: Any = None) -> Any:
        m.submodules[name] = made = memory.Memory(shape=shape, depth=depth, init=[], attrs=attributes)
        return made

    def _read(self, m: Module, of: Any, address: Any) -> Any:
        """What lies there."""
        port = of.read_port(domain="comb")
        m.d.comb += port.addr.eq(address)
        return port.data

    def _write(self, m: Module, of: Any, enable: Any, address: Any, value: Any) -> None:
        port = of.write_port()
        m.d.comb += [port.en.eq(enable), port.addr.eq(address), port.data.eq(value)]
