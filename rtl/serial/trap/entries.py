"""Whether a flow result belongs to a warp's entry, in the serial machine."""

from amaranth.hdl import Module, Signal

from rtl.trap.entries import EntryTracker

__all__ = ["SinglePendingEntry"]


class SinglePendingEntry(EntryTracker):
    """An EntryTracker for a machine with one instruction in flight: a single register. No other
    warp that is inside has a flow result meanwhile."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        is_pending = Signal()
        with m.If(self.entered.valid):
            m.d.sync += is_pending.eq(1)
        with m.Elif(self.result.valid & self.is_inside):
            m.d.sync += is_pending.eq(0)
        m.d.comb += self.is_entry.eq(is_pending & self.is_inside)
        return m
