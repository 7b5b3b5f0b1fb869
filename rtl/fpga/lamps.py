"""What the board's lamps show: which warps live, which are in a trap, which have failed."""

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.layouts import ErrorEvents, TrapStatus
from rtl.machines import units_of
from rtl.params import SmParams

__all__ = ["LampSignals", "WarpLamps"]

_SLOW_HZ = 1
"""Blinks a second, at least: the rate is the clock's, divided by a power of two."""
_FASTER_BITS = 2
"""Quick blinks are faster by so many powers of two."""


class LampSignals(wiring.Signature):
    """What is shown, a bit a lamp.

    Members
    -------
    live, trapped, failed : Out(count)
        One of the lamp's warps lives, is in a trap, has failed: for lamps with colours.
    lit : Out(count)
        For lamps without.
    """

    def __init__(self, count: int) -> None:
        super().__init__({
            "live": Out(count),
            "trapped": Out(count),
            "failed": Out(count),
            "lit": Out(count),
        })


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
    errors : In(ErrorEvents)
    reset : In(1)
    lamps : Out(LampSignals)
    """

    def __init__(self, params: SmParams, clock: int, lamps: int) -> None:
        super().__init__({
            "running": In(params.warps),
            "traps": In(TrapStatus(params)),
            "reset": In(1),
            "errors": In(ErrorEvents(params)),
            "lamps": Out(LampSignals(lamps)),
        })
        self._simultaneous = units_of(params).simultaneous_errors
        self._warps = params.warps
        self._count = lamps
        self._time_bits = max((clock // _SLOW_HZ).bit_length(), _FASTER_BITS + 1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        failed = self._keep_failed(m)
        lamps = self.lamps
        trapped = self.traps.paused | self.traps.trapped
        m.d.sync += lamps.live.eq(self._by_lamp(self.running))
        m.d.sync += lamps.trapped.eq(self._by_lamp(trapped))
        m.d.sync += lamps.failed.eq(self._by_lamp(failed))

        time = Signal(self._time_bits)
        blinks = time[-1]
        blinks_quickly = time[-1 - _FASTER_BITS]
        m.d.sync += time.eq(time + 1)
        for number in range(self._count):
            with m.If(lamps.failed[number]):
                m.d.comb += lamps.lit[number].eq(blinks_quickly)
            with m.Elif(lamps.trapped[number]):
                m.d.comb += lamps.lit[number].eq(blinks)
            with m.Else():
                m.d.comb += lamps.lit[number].eq(lamps.live[number])
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
        return Cat(warps[lamp::self._count].any() for lamp in range(self._count))
