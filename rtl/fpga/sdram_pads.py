"""The pads between an SDRAM controller and its chip, and the phase of the chip's clock.

All signals but the clock pass the registers of the pads, in the domain ``sync``. The chip's clock
has the same frequency and a phase of its own, from the board's PLL. The phase is such that data
from the chip are stable when the pads' registers sample them, and the chip's inputs are stable at
the edges of its clock. This is not measured on a board: the delays of pads are an estimate.
"""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Module
from amaranth.lib import io
from amaranth.lib.wiring import In

from rtl.component import Component

from .sdram import MT48LC16M16A2, SdramBus, SdramChip

__all__ = ["ClockPhase", "SdramPads", "clock_phase"]

PAD_DELAY = 3.5
"""Nanoseconds from the chip's clock at its pad's output register to the chip, and from the chip to
an input register, together: an estimate."""
_MARGIN = 1.0
"""Nanoseconds beside the chip's setup and hold times."""
_OUTPUTS = {
    "clk_en": "cke",
    "cs": "cs",
    "ras": "ras",
    "cas": "cas",
    "we": "we",
    "ba": "ba",
    "a": "a",
    "dqm": "dqm",
}
"""Output pads of the platform, and the members of SdramBus that drive them."""


@dataclass(frozen=True)
class ClockPhase:
    """The chip's clock.

    Attributes
    ----------
    degrees : float
        How far it lags behind the controller's clock.
    cycles : int
        The controller's ``pad_cycles``.
    margin : float
        Nanoseconds for which data read are stable before they are sampled, and after: the smaller
        of both.
    """

    degrees: float
    cycles: int
    margin: float


def clock_phase(clock_hz: float, chip: SdramChip = MT48LC16M16A2) -> ClockPhase:
    """The phase with the largest margin. ValueError when there is none."""
    period = 1e9 / clock_hz
    earliest = chip.setup + _MARGIN
    latest = period - chip.hold - _MARGIN

    def phase(cycles: int) -> ClockPhase:
        """The best phase if data are sampled so many cycles after the edge of ``sync`` before the
        edge of the chip's clock that they follow."""
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
        The domain of the chip's clock: that of ``sync``, delayed as :func:`clock_phase` says.
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
        # The clock: 1 after the rising edge of its domain, 0 after the falling one.
        clock: Any = io.DDRBuffer(
            io.Direction.Output, self._port.clk, o_domain=self._clock_domain)
        m.submodules.clk = clock
        m.d.comb += clock.o[0].eq(1)
        m.d.comb += clock.o[1].eq(0)
        for pad, name in _OUTPUTS.items():
            buffer = io.FFBuffer(io.Direction.Output, getattr(self._port, pad))
            m.submodules[pad] = buffer
            m.d.comb += buffer.o.eq(getattr(self.bus, name))
        m.submodules.dq = dq = io.FFBuffer(io.Direction.Bidir, self._port.dq)
        m.d.comb += dq.o.eq(self.bus.dq_o)
        m.d.comb += dq.oe.eq(self.bus.dq_oe)
        m.d.comb += self.bus.dq_i.eq(dq.i)
        return m
