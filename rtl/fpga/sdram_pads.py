"""The pads between an SDRAM controller and its chip, and the phase of the chip's clock.

All signals but the clock are registered in the pads, in the domain ``sync``. The chip's clock has
the frequency of ``sync`` and another phase, both from the board's PLL. The phase is chosen so that
data from the chip are stable when the registers of the pads sample them, and the chip's inputs are
stable at the rising edges of its clock. This has not been measured on a board: the delay of the
pads is an estimate.
"""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Module, Value
from amaranth.lib import io
from amaranth.lib.wiring import In

from rtl.component import Component

from .sdram import MT48LC16M16A2, SdramBus, SdramChip

__all__ = ["ClockPhase", "SdramPads", "clock_phase"]

PAD_DELAY = 3.5
"""Nanoseconds, an estimate: the sum of the delays from the output register of the clock's pad to
the chip, and from the chip to an input register."""
_MARGIN = 1.0
"""Nanoseconds that are added to the chip's setup and hold times."""


@dataclass(frozen=True)
class ClockPhase:
    """The phase of the chip's clock.

    Attributes
    ----------
    degrees : float
        By how much it lags the controller's clock.
    cycles : int
        The value of the controller's parameter ``pad_cycles`` that belongs to it.
    margin : float
        Nanoseconds for which data read are stable before they are sampled, and after: the smaller
        of both.
    """

    degrees: float
    cycles: int
    margin: float


def clock_phase(clock_hz: float, chip: SdramChip = MT48LC16M16A2) -> ClockPhase:
    """Returns the phase with the largest margin. ValueError if no margin is positive."""
    period = 1e9 / clock_hz
    earliest = chip.setup + _MARGIN
    latest = period - chip.hold - _MARGIN

    def phase(cycles: int) -> ClockPhase:
        """The best phase, if data are sampled this number of cycles after edge E. An edge of the
        chip's clock launches the data; E is the edge of ``sync`` that this one lags."""
        sampled_at = cycles * period
        best = sampled_at - period / 2 - PAD_DELAY - (chip.access + chip.output_hold) / 2
        shift = min(max(best, earliest), latest)
        stable_from = shift + PAD_DELAY + chip.access
        stable_until = shift + PAD_DELAY + period + chip.output_hold
        margin = min(sampled_at - stable_from, stable_until - sampled_at)
        return ClockPhase(360 * shift / period, cycles, margin)

    found = max((phase(cycles) for cycles in (1, 2)), key=lambda one: one.margin)
    if earliest > latest or found.margin <= 0:
        raise ValueError(
            f"at {clock_hz / 1e6:g} MHz the chip's data are not stable at any phase of its clock")
    return found


class SdramPads(Component):
    """The pads of an SDRAM chip.

    Parameters
    ----------
    port : Any
        The platform's resource ``sdram``, requested with ``dir="-"``.
    clock_domain : str
        The domain of the chip's clock: that of ``sync``, with the phase of :func:`clock_phase`.
    chip : SdramChip

    Members
    -------
    bus : In(SdramBus)
    """

    def __init__(self, port: Any, clock_domain: str, chip: SdramChip = MT48LC16M16A2) -> None:
        self._port, self._clock_domain = port, clock_domain
        super().__init__({"bus": In(SdramBus(chip))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bus = self.bus
        port = self._port
        # A DDR output makes the clock: 1 from the rising edge of its domain, then 0.
        clock: Any = io.DDRBuffer(
            io.Direction.Output, port.clk, o_domain=self._clock_domain)
        m.submodules.clk = clock
        m.d.comb += clock.o[0].eq(1)
        m.d.comb += clock.o[1].eq(0)
        self._drive(m, "clk_en", port.clk_en, bus.cke)
        self._drive(m, "cs", port.cs, bus.cs)
        self._drive(m, "ras", port.ras, bus.ras)
        self._drive(m, "cas", port.cas, bus.cas)
        self._drive(m, "we", port.we, bus.we)
        self._drive(m, "ba", port.ba, bus.ba)
        self._drive(m, "a", port.a, bus.a)
        self._drive(m, "dqm", port.dqm, bus.dqm)
        m.submodules.dq = dq = io.FFBuffer(io.Direction.Bidir, port.dq)
        m.d.comb += dq.o.eq(bus.dq_o)
        m.d.comb += dq.oe.eq(bus.dq_oe)
        m.d.comb += bus.dq_i.eq(dq.i)
        return m

    def _drive(self, m: Module, name: str, pad: Any, value: Value) -> None:
        """Drives an output pad through its register."""
        m.submodules[name] = buffer = io.FFBuffer(io.Direction.Output, pad)
        m.d.comb += buffer.o.eq(value)
