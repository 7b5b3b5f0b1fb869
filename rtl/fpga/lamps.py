"""The board's LEDs (*lamps*): which warps are live, which are in a trap, which have failed."""

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.layouts import ErrorEvents, TrapStatus
from rtl.machines import units_of
from rtl.params import SmParams

__all__ = ["LampSignals", "WarpLamps"]

_SLOW_HZ = 1
"""Upper limit of the slow blinking rate. The rate is the clock's divided by a power of two, and is
at least half of this."""
_FASTER_BITS = 2
"""The quick rate is 2**_FASTER_BITS times the slow one."""


class LampSignals(wiring.Signature):
    """States of lamps, a bit a lamp.

    Members
    -------
    live, trapped, failed : Out(count)
        A warp of the lamp is live, is in a trap, has failed: for lamps with three colours.
    lit : Out(count)
        All of that as steady light and blinking: for lamps with one colour.
    """

    def __init__(self, count: int) -> None:
        super().__init__({
            "live": Out(count),
            "trapped": Out(count),
            "failed": Out(count),
            "lit": Out(count),
        })


class WarpLamps(Component):
    """A lamp for each warp. If there are fewer lamps than warps, lamp n of N belongs to the warps
    n, n + N, and so on.

    ``lit``, in order of priority: blinks quickly if a warp of the lamp has failed (has raised an
    error that is reported) since the machine's reset; blinks slowly while one is paused or has
    executed a BPT.TRAP; is 1 while one is live.

    Parameters
    ----------
    params : SmParams
    clock : int
        Hz.
    lamps : int
        Number of lamps.

    Members
    -------
    running : In(warps)
        Live warps.
    traps : In(TrapStatus)
    errors : In(ErrorEvents)
    reset : In(1)
        Clears the failed warps; an error in the same cycle is lost.
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
        """Records the warps that have failed since the last reset."""
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
        """For each lamp, whether ``warps`` has a bit of one of its warps."""
        return Cat(warps[lamp::self._count].any() for lamp in range(self._count))
