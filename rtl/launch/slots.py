"""Which warp slots and CTA slots are free, and when a CTA is over."""

from amaranth.hdl import Const, Module, Signal
from amaranth.lib.wiring import In, Out

from rtl.arbiter import lowest
from rtl.component import Component
from rtl.layouts import warp_exit
from rtl.params import SmParams
from rtl.population import population
from rtl.words import Words

__all__ = ["SlotKeeper"]


class SlotKeeper(Component):
    """Looks at one CTA slot a cycle, in turn: a CTA whose warps have all ended is over.

    Members
    -------
    slots, ctas : In(warps), In(warps)
        Which slots the grid can use.
    wanted : In(7)
        Warps of a CTA.
    enough : Out(1)
        There was a free CTA slot, and there were enough free warp slots, a cycle ago and two cycles ago.
    begin, cta : In(1), Out
        A CTA begins in CTA slot ``cta``, the lowest free one.
    take, slot : In(1), Out
        A warp of it begins in ``slot``, the lowest of those that were free when the CTA began.
    complete : In(1)
        It has all its warps.
    exit : In(warp_exit)
    drained : In(warps)
        Nothing of these warps is under way.
    over, kept : Out(1), Out(1)
        A CTA is over; a thread of it has left by EXIT.KEEPREFCOUNT.
    occupied, active : Out(warps), Out(warps)
        Warp slots and CTA slots that are not free.
    running : Out(warps)
        Warp slots with a warp that has not ended.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        warps, bits = params.warps, params.warp_bits
        super().__init__({
            "slots": In(warps), "ctas": In(warps), "wanted": In(7), "enough": Out(1), "cta": Out(bits),
            "slot": Out(bits), "begin": In(1), "take": In(1), "complete": In(1), "exit": In(warp_exit(params)),
            "drained": In(warps), "over": Out(1), "kept": Out(1), "occupied": Out(warps), "active": Out(warps),
            "running": Out(warps)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        params = self._params
        m.submodules.members = members = Words(params.warps, params.warps)
        write, read = members.write_port(), members.read_port(domain="comb")
        ended, kept, complete = Signal(params.warps), Signal(params.warps), Signal(params.warps)
        beginning, coming, available = Signal(params.warp_bits), Signal(params.warps), Signal(params.warps)

        # What is free.
        free, free_ctas = self.slots & ~self.occupied, self.ctas & ~self.active
        count, some, settled = Signal(7), Signal(), Signal(2)
        m.d.comb += [
            self.slot.eq(lowest(available)), self.cta.eq(lowest(free_ctas)), self.running.eq(self.occupied & ~ended)]
        changed = self.begin | self.take | self.over
        m.d.sync += [
            count.eq(population(free)), some.eq(free_ctas.any()), settled.eq(settled << 1 | ~changed)]
        m.d.comb += self.enough.eq(settled.all() & some & (count >= self.wanted))

        # What becomes of it.
        looked = Signal(params.warp_bits)
        m.d.sync += looked.eq(looked + 1)
        m.d.comb += [
            read.addr.eq(looked),
            self.over.eq(complete.bit_select(looked, 1) & (~read.data | (ended & self.drained)).all()),
            self.kept.eq((read.data & kept).any())]
        event, one = self.exit, Const(1, params.warps)
        with m.If(self.over):
            m.d.sync += [
                self.occupied.eq(self.occupied & ~read.data), complete.eq(complete & ~(one << looked)),
                self.active.eq(self.active & ~(one << looked))]
        with m.If(self.begin):
            m.d.sync += [
                beginning.eq(self.cta), coming.eq(0), available.eq(free), self.active.bit_select(self.cta, 1).eq(1)]
        with m.If(self.take):
            m.d.sync += [
                coming.eq(coming | one << self.slot), available.eq(available & (available - 1)),
                self.occupied.bit_select(self.slot, 1).eq(1),
                ended.bit_select(self.slot, 1).eq(0), kept.bit_select(self.slot, 1).eq(0)]
        with m.If(event.valid & event.terminated):
            m.d.sync += ended.bit_select(event.warp, 1).eq(1)
        with m.If(event.valid & event.kept):
            m.d.sync += kept.bit_select(event.warp, 1).eq(1)
        with m.If(self.complete):
            m.d.sync += complete.bit_select(beginning, 1).eq(1)
        m.d.comb += [write.en.eq(self.complete), write.addr.eq(beginning), write.data.eq(coming)]
        return m
