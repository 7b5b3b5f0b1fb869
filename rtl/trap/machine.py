"""The trap state of the multiprocessor: when a trap begins, and when it is over."""

from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.params import SmParams

from .states import SmTrapLink, WarpTrapView

__all__ = ["SmTrap"]


class SmTrap(Component):
    """The state machine of a trap: decides when it begins, and when it is over.

    Members
    -------
    link : In(SmTrapLink)
        A cause in, the state of the trap out.
    warps : In(WarpTrapView)
        Which warps are paused, and which have done their part of the trap: they wait at RTT, or are
        inside without a frame. Such a warp may be paused, too; it can leave when it is woken.
    live : In(warps)
        Started and not ended.
    starting : In(1)
        A CTA is being started: more warps will live soon.
    stop : In(1)
        The host's stop trigger.
    locked_down : Out(1)
        Trapped, and no warp runs: every live warp is paused or returning, and none may leave:
        because of ``stop``, or because all are paused, not all of them quietly.

    The end of a trap needs that ``stop`` is 0, no CTA is being started, and every live warp is
    paused or returning. Then:

    - If some warp is not paused, the returning ones are released. Paused warps do not delay that.
    - If all are quiet, the trap is over and no warp leaves. The same if no warp lives.

    A warp that is paused at the end of a trap stays inside, paused, until the next trap: ``wake``
    is ignored while ``trapping`` is 0.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "link": In(SmTrapLink()),
            "warps": In(WarpTrapView(params)),
            "live": In(params.warps),
            "starting": In(1),
            "stop": In(1),
            "locked_down": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        link = self.link
        state = self.warps.state
        is_at_rest = Signal()
        can_leave = Signal()
        all_are_quiet = Signal()
        is_over = Signal()
        returning = state.waits | state.bare
        running = self.live & ~(state.paused | returning)
        m.d.comb += is_at_rest.eq(~self.starting & ~running.any())
        m.d.comb += can_leave.eq((self.live & ~state.paused).any())
        m.d.comb += all_are_quiet.eq(~(self.live & ~state.quiet).any())
        m.d.comb += is_over.eq(~self.stop & is_at_rest & (can_leave | all_are_quiet))
        m.d.comb += link.release.eq(link.trapping & ~self.stop & is_at_rest & can_leave)
        m.d.comb += self.locked_down.eq(link.trapping & ~is_over & is_at_rest)

        with m.If(self.stop | link.cause):
            m.d.sync += link.trapping.eq(1)
        with m.Elif(is_over):
            m.d.sync += link.trapping.eq(0)
        with m.If(link.insisting):
            m.d.sync += link.urgent.eq(1)
        with m.Elif(is_over):
            m.d.sync += link.urgent.eq(0)
        return m
