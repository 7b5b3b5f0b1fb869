"""Which of the warps that are ready goes first."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.params import SmParams

from .records import Policy

__all__ = ["FAVOUR_INTERVAL", "WarpChooser", "window_cycles"]

FAVOUR_INTERVAL = 8
"""Of so many windows one favours a warp."""


def window_cycles(params: SmParams) -> int:
    """Cycles for which a favoured warp goes before all others: the lanes are free several times."""
    return max(16, 4 * params.beats)


class WarpChooser(Component):
    """The policy; and now and then, for a window of cycles, one warp after the other goes first all the same.

    So no warp that is ready waits for ever: within FAVOUR_INTERVAL windows for each warp it has been favoured.

    Members
    -------
    policy : In(Policy)
    ready, offers : In(1 bit a warp)
        It can issue; its instruction offers the turn to others.
    launched : In(1 bit a warp)
        It is the youngest now.
    taken : In(1)
        The chosen one issues.
    any, chosen : Out(1), Out(1 bit a warp)
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        count = params.warps
        super().__init__({
            "policy": In(Policy), "ready": In(count), "offers": In(count), "launched": In(count), "taken": In(1),
            "any": Out(1), "chosen": Out(count)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        count = self._params.warps
        everyone = (1 << count) - 1
        greedy = self.policy == Policy.GREEDY_THEN_OLDEST
        last, yielded = Signal(count), Signal(count)

        # Who goes before whom: bit j of row i, warp j before warp i. Whoever becomes the last goes behind all others.
        before = [Signal(count, name=f"before_{warp}", init=(1 << warp) - 1) for warp in range(count)]
        behind = Mux(greedy, self.launched, Mux(self.taken, self.chosen, self.launched))
        with m.If(behind.any()):
            for warp, row in enumerate(before):
                m.d.sync += row.eq(Mux(behind[warp], everyone ^ 1 << warp, row & ~behind))

        # One that offered its turn goes behind all others for one choice.
        oldest = Signal(count)
        m.d.comb += oldest.eq(Cat(
            self.ready[warp] & ~(self.ready & Mux(yielded[warp], everyone ^ 1 << warp, row & ~yielded)).any()
            for warp, row in enumerate(before)))

        time = Signal(range(FAVOUR_INTERVAL * window_cycles(self._params)))
        favoured = Signal(count, init=1)
        favours = time[ceil_log2(window_cycles(self._params)):].all()
        m.d.sync += time.eq(time + 1)
        with m.If(time.all()):
            m.d.sync += favoured.eq(favoured.rotate_left(1))

        first = self.ready & favoured & favours.replicate(count)
        again = self.ready & last & ~yielded & greedy.replicate(count)
        m.d.comb += [
            self.any.eq(self.ready.any()),
            self.chosen.eq(Mux(first.any(), first, Mux(again.any(), again, oldest)))]
        with m.If(self.taken):
            m.d.sync += [last.eq(self.chosen), yielded.eq(self.chosen & self.offers)]
        return m
