"""The pads between an SDRAM controller and its chip, and the phase of the chip's clock.

Everything but the clock goes through the registers of the pads, which are clocked by ``sync``. The chip's clock has the
same frequency and a phase of its own, from the board's PLL, so that what comes from the chip is stable when the pads'
registers take it, and what goes there when the chip does. No board has shown it: the delays of pads are an estimate.
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
"""From a clock at its pad's output register until the chip sees it, and from the chip to a register; nanoseconds, an
estimate."""
_MARGIN = 1.0
"""Beside what the chip wants before and after its clock; nanoseconds."""
_OUTPUTS = {"clk_en": "cke", "cs": "cs", "ras": "ras", "cas": "cas", "we": "we", "ba": "ba", "a": "a", "dqm": "dqm"}
"""Pads that the chip listens to, and the controller's names of them."""


@dataclass(frozen=True)
class ClockPhase:
    """The chip's clock.

    Attributes
    ----------
    degrees : float
        By which it follows the controller's clock.
    cycles : int
        The controller's ``pad_cycles``.
    margin : float
        Nanoseconds that what is read is stable before it is taken, and after, at least.
    """

    degrees: float
    cycles: int
    margin: float


def clock_phase(clock_hz: float, chip: SdramChip = MT48LC16M16A2) -> ClockPhase:
    """The phase with the largest margin. ValueError when there is none."""
    period = 1e9 / clock_hz
    earliest, latest = chip.setup + _MARGIN, period - chip.hold - _MARGIN

    def phase(cycles: int) -> ClockPhase:
        """What the chip sends in answer to an edge of its clock is taken so many cycles behind that before."""
        best = (cycles - 0.5) * period - PAD_DELAY - (chip.access + chip.output_hold) / 2
        shift = min(max(best, earliest), latest)
        valid, gone = shift + PAD_DELAY + chip.access, shift + PAD_DELAY + period + chip.output_hold
        return ClockPhase(360 * shift / period, cycles, min(cycles * period - valid, gone - cycles * period))

    found = max((phase(cycles) for cycles in (1, 2)), key=lambda one: one.margin)
    if earliest > latest or found.margin <= 0:
        raise ValueError(f"at {clock_hz / 1e6:g} MHz the chip's data are not stable at any phase of its clock")
    return found


class SdramPads(Component):
    """The pads of an SDRAM chip.

    Parameters
    ----------
    port : Any
        What a platform has for the resource ``sdram`` when it is asked for ports (``dir="-"``).
    clock_domain : str
        The chip's clock: that of ``sync``, later by :func:`clock_phase`.
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
        output, both = io.Direction.Output, io.Direction.Bidir
        clock: Any = io.DDRBuffer(output, self._port.clk, o_domain=self._clock_domain)
        m.submodules.clk = clock
        m.d.comb += [clock.o[0].eq(1), clock.o[1].eq(0)]
        for pad, name in _OUTPUTS.items():
            m.submodules[pad] = buffer = io.FFBuffer(output, getattr(self._port, pad))
            m.d.comb += buffer.o.eq(getattr(self.bus, name))
        m.submodules.dq = dq = io.FFBuffer(both, self._port.dq)
        m.d.comb += [dq.o.eq(self.bus.dq_o), dq.oe.eq(self.bus.dq_oe), self.bus.dq_i.eq(dq.i)]
        return m
