"""When a trap of the multiprocessor begins and when it is over."""

from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.params import SmParams

__all__ = ["SmTrap"]


class SmTrap(Component):
    """When a trap begins and when it is over.

    Members
    -------
    live, paused, quiet, returning : In(warps)
        A warp that is paused may be returning, too: it is so when it is woken.
    starting, cause, insisting, stop : In(1)
        More warps will live soon; a warp has a cause; one that nobody can mask; the host's stop
        trigger.
    trapping, urgent, release, locked_down : Out(1)
        From the cycle after the cause on. For one cycle: who is returning and not paused leaves.
        Trapped, and nothing goes on: every live warp is paused, or returning and kept by the stop
        trigger.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "live": In(params.warps),
            "paused": In(params.warps),
            "quiet": In(params.warps),
            "returning": In(params.warps),
            "starting": In(1),
            "cause": In(1),
            "insisting": In(1),
            "stop": In(1),
            "trapping": Out(1),
            "urgent": Out(1),
            "release": Out(1),
            "locked_down": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        is_at_rest = Signal()
        can_leave = Signal()
        all_are_quiet = Signal()
        is_over = Signal()
        running = self.live & ~(self.paused | self.returning)
        m.d.comb += is_at_rest.eq(~self.starting & ~running.any())
        m.d.comb += can_leave.eq((self.live & ~self.paused).any())
        m.d.comb += all_are_quiet.eq(~(self.live & ~self.quiet).any())
        m.d.comb += is_over.eq(~self.stop & is_at_rest & (can_leave | all_are_quiet))
        m.d.comb += self.release.eq(self.trapping & ~self.stop & is_at_rest & can_leave)
        m.d.comb += self.locked_down.eq(self.trapping & ~is_over & is_at_rest)

        with m.If(self.stop | self.cause):
            m.d.sync += self.trapping.eq(1)
        with m.Elif(is_over):
            m.d.sync += self.trapping.eq(0)
        with m.If(self.insisting):
            m.d.sync += self.urgent.eq(1)
        with m.Elif(is_over):
            m.d.sync += self.urgent.eq(0)
        return m
