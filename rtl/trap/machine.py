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
    live : In(warps)
        Begun and not ended.
    paused, quiet : In(warps)
        The warp is paused; its last pause was that of BPT.PAUSE_QUIET, also when it is woken since.
    returning : In(warps)
        It has done its part of the trap: it waits at RTT, or is inside without a frame. Such a warp
        may be paused, too; it can leave when it is woken.
    starting : In(1)
        A CTA is being started: more warps will live soon.
    cause : In(1)
        Some warp has a cause for a trap.
    insisting : In(1)
        The same, for a cause that warps cannot mask: all warps have to enter.
    stop : In(1)
        The host's stop trigger.
    trapping : Out(1)
        The multiprocessor is trapped: from the cycle after a cause or ``stop`` on.
    urgent : Out(1)
        This trap has had a cause that warps cannot mask: those that mask causes enter as well.
    release : Out(1)
        For one cycle: the warps that wait at RTT leave, and those without a frame that are not
        paused.
    locked_down : Out(1)
        Trapped, and nothing goes on: every live warp is paused or returning, and none may leave:
        because of ``stop``, or because all are paused, not all of them quietly.

    The end of a trap needs that ``stop`` is 0, no CTA is being started, and every live warp is
    paused or returning. Then:

    - If some warp is not paused, the returning ones are released. Paused warps do not delay that.
    - If all are quiet, the trap is over and nobody leaves. The same if no warp lives.

    A warp that is paused at the end of a trap stays inside, paused, until the next trap: ``wake``
    is ignored while ``trapping`` is 0.
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
