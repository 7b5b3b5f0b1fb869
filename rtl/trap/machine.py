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
        A warp that is paused may be returning, too: it is so when it is woken.
    starting : In(1)
        More warps will live soon.
    cause, insisting : In(1)
        A warp, or an error, wants a trap; one that nobody can mask.
    stop : In(1)
        The host's stop trigger.
    trapping, urgent : Out(1)
        From the cycle after the cause on.
    release : Out(1)
        For one cycle: who is returning and not paused leaves.
    locked_down : Out(1)
        Trapped, and nothing goes on: every live warp is paused, or returning and kept by the stop trigger.
    """

    def __init__(self, params: SmParams) -> None:
        warps = ("live", "paused", "quiet", "returning")
        super().__init__({
            **dict.fromkeys(warps, In(params.warps)),
            **dict.fromkeys(("starting", "cause", "insisting", "stop"), In(1)),
            **dict.fromkeys(("trapping", "urgent", "release", "locked_down"), Out(1))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        stands, leaves, over = Signal(), Signal(), Signal()
        m.d.comb += [
            stands.eq(~(self.starting | (self.live & ~(self.paused | self.returning)).any())),
            leaves.eq((self.live & ~self.paused).any()), self.release.eq(self.trapping & ~self.stop & stands & leaves),
            over.eq(~self.stop & stands & (leaves | ~(self.live & ~self.quiet).any())),
            self.locked_down.eq(self.trapping & ~over & stands)]
        m.d.sync += [
            self.trapping.eq((self.trapping & ~over) | self.stop | self.cause),
            self.urgent.eq((self.urgent & ~over) | self.insisting)]
        return m
