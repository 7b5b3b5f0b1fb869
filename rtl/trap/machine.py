"""The whole multiprocessor's part of the trap unit."""

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
    starting : In(1)
        More warps will live soon.
    cause, insisting : In(1)
        A warp, or an error, wants a trap; one that nobody can mask. A warp that fails on its way out of a trap, which
        is over, wants another one: it is paused in it.
    stop : In(1)
        The host's stop trigger.
    trapping, urgent : Out(1)
        From the cycle after the cause on.
    release : Out(1)
        For one cycle: who waits at RTT leaves.
    locked_down : Out(1)
        Trapped, and nothing goes on: every live warp is paused, or kept at RTT by the stop trigger; or no warp lives,
        and the stop trigger holds.
    """

    def __init__(self, params: SmParams) -> None:
        warps = params.warps
        super().__init__({
            "live": In(warps), "starting": In(1), "paused": In(warps), "quiet": In(warps), "returning": In(warps),
            "cause": In(1), "insisting": In(1), "stop": In(1), "trapping": Out(1), "urgent": Out(1), "release": Out(1),
            "locked_down": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        empty, stands, paused, quiet, over = Signal(), Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            empty.eq(~self.live.any() & ~self.starting), paused.eq((~self.live | self.paused).all()),
            quiet.eq((~self.live | self.quiet).all()),
            stands.eq((~self.live | self.paused | self.returning).all() & ~self.starting),
            self.release.eq(self.trapping & ~self.stop & stands & (self.live & self.returning).any()),
            over.eq(self.release | (~self.stop & (empty | (stands & paused & quiet)))),
            self.locked_down.eq(self.trapping & ~over & stands & (paused | self.stop))]
        with m.If(self.trapping & over):
            m.d.sync += [self.trapping.eq(0), self.urgent.eq(0)]
        with m.Elif(self.stop | self.cause):
            m.d.sync += self.trapping.eq(1)
        with m.If(self.insisting & ~(self.trapping & over)):
            m.d.sync += self.urgent.eq(1)
        return m
