"""What the board's lamps show: which warps live, which are in a trap, which have failed."""

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.layouts import ErrorEvents, TrapStatus
from rtl.machines import units_of
from rtl.params import SmParams

__all__ = ["WarpLamps"]

_SLOW_HZ = 1
"""Blinks a second, at least: the rate is the clock's, divided by a power of two."""
_FASTER_BITS = 2
"""Quick blinks are faster by so many powers of two."""


class WarpLamps(Component):
    """A lamp for each warp; of fewer lamps, lamp n of N is that of the warps n, n + N, and so on.

    It is lit while such a warp lives, blinks while one is paused or has executed a BPT.TRAP, and
    blinks quickly once one has failed with an error that is reported, until the machine is reset.

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
            "running": In(params.warps),
            "traps": In(TrapStatus(params)),
            "reset": In(1),
            "errors": In(ErrorEvents(params)),
            "live": Out(lamps),
            "trapped": Out(lamps),
            "failed": Out(lamps),
            "lamps": Out(lamps),
        })
        self._simultaneous = units_of(params).simultaneous_errors
        self._warps = params.warps
        self._lamps = lamps
        self._time_bits = max((clock // _SLOW_HZ).bit_length(), _FASTER_BITS + 1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        failed = self._keep_failed(m)
        trapped = self.traps.paused | self.traps.trapped
        m.d.sync += self.live.eq(self._by_lamp(self.running))
        m.d.sync += self.trapped.eq(self._by_lamp(trapped))
        m.d.sync += self.failed.eq(self._by_lamp(failed))

        time = Signal(self._time_bits)
        blinks = time[-1]
        blinks_quickly = time[-1 - _FASTER_BITS]
        m.d.sync += time.eq(time + 1)
        for lamp in range(self._lamps):
            with m.If(self.failed[lamp]):
                m.d.comb += self.lamps[lamp].eq(blinks_quickly)
            with m.Elif(self.trapped[lamp]):
                m.d.comb += self.lamps[lamp].eq(blinks)
            with m.Else():
                m.d.comb += self.lamps[lamp].eq(self.live[lamp])
        return m

    def _keep_failed(self, m: Module) -> Value:
        """Warps that have failed."""
        failed = Signal(self._warps)
        errors = self._simultaneous(m, self.errors)
        failing = Cat(
            Cat(event.valid & (event.payload.warp == warp) for event in errors).any()
            for warp in range(self._warps))
        with m.If(self.reset):
            m.d.sync += failed.eq(0)
        with m.Else():
            m.d.sync += failed.eq(failed | failing)
        return failed

    def _by_lamp(self, warps: Value) -> Value:
        """For each lamp, whether one of its warps is among these."""
        return Cat(warps[lamp::self._lamps].any() for lamp in range(self._lamps))
