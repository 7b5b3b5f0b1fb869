"""What the board's lamps tell: which warps live, which are in a trap, which have failed."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.layouts import ERROR_SOURCES, TrapStatus, error_event
from rtl.machines import units_of
from rtl.params import SmParams

__all__ = ["WarpLamps"]

_SLOW = 1
"""Blinks a second, at least: the rate is the clock's, divided by a power of two."""
_FASTER = 2
"""Quick blinks are faster by so many powers of two."""


class WarpLamps(Component):
    """A lamp for each warp; of fewer lamps, lamp n of N is that of the warps n, n + N, and so on.

    It is lit while such a warp lives, blinks while one is paused or has executed a BPT.TRAP, and blinks quickly once
    one has failed with an error that is reported, until the machine is reset.

    Parameters
    ----------
    params : SmParams
    clock : int
        Hz.
    lamps : int
        How many there are.

    Members
    -------
    running : In(warps)
        Those that live.
    traps : In(TrapStatus)
    errors : In(array of error_event)
    reset : In(1)
    live, trapped, failed, lamps : Out(lamps)
        By lamp, for those with colours; and the lamps, for those without.
    """

    def __init__(self, params: SmParams, clock: int, lamps: int) -> None:
        super().__init__({
            "running": In(params.warps), "traps": In(TrapStatus(params)), "reset": In(1),
            "errors": In(data.ArrayLayout(error_event(params), len(ERROR_SOURCES))),
            **dict.fromkeys(("live", "trapped", "failed", "lamps"), Out(lamps))})
        self._simultaneous = units_of(params).simultaneous_errors
        self._warps, self._blink_bits = params.warps, max((clock // _SLOW).bit_length(), _FASTER + 1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        count, warps = len(self.lamps), range(self._warps)
        time, failing, failed = Signal(self._blink_bits), Signal(self._warps), Signal(self._warps)
        errors = self._simultaneous(self.errors)
        m.d.comb += failing.eq(Cat(
            Cat(event.valid & (event.warp == warp) for event in errors).any() for warp in warps))
        m.d.sync += [time.eq(time + 1), failed.eq(Mux(self.reset, 0, failed | failing))]
        for seen, of_warps in ((self.live, self.running), (self.trapped, self.traps.paused | self.traps.trapped),
                               (self.failed, failed)):
            m.d.sync += seen.eq(Cat(of_warps[lamp::count].any() for lamp in range(count)))
        for lamp in range(count):
            m.d.comb += self.lamps[lamp].eq(Mux(self.failed[lamp], time[-1 - _FASTER], Mux(
                self.trapped[lamp], time[-1], self.live[lamp])))
        return m
