"""Clocks made of another one by an ECP5's PLL, with phases: those of video, and that of the SDRAM chip."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from amaranth.hdl import ClockSignal, Const, Elaboratable, Instance, Module, Signal

__all__ = ["DerivedClock", "DerivedClocks", "Dividers", "dividers"]

_OSCILLATOR = (400e6, 800e6)
"""Hz (Lattice, ECP5 family data sheet)."""
_MOST = 128
"""Of the output's dividers."""
_MOST_FEEDBACK = 80
_EIGHTHS = 8
"""Phases are eighths of the oscillator's period."""
_OUTPUTS = ("CLKOP", "CLKOS", "CLKOS2", "CLKOS3")


@dataclass(frozen=True)
class DerivedClock:
    """A clock: its frequency in Hz, and by how many degrees it follows the source."""

    hz: float
    degrees: float = 0


@dataclass(frozen=True)
class Dividers:
    """A PLL's: from the first output back to the source, and for each output; the phases in eighths of the oscillator's
    period.
    """

    feedback: int
    outputs: tuple[int, ...]
    phases: tuple[int, ...]


def dividers(source: float, clocks: Mapping[str, DerivedClock]) -> Dividers:
    """The dividers that make clocks of a source in Hz, with the fastest oscillator. ValueError when there are none.

    The first clock is a multiple of the source, and has its phase.
    """
    first, *_ = clocks.values()
    feedback = round(first.hz / source)
    for number in range(_MOST, 0, -1):
        oscillator = first.hz * number
        counts = tuple(round(oscillator / clock.hz) for clock in clocks.values())
        made = zip(counts, clocks.values(), strict=True)
        exact = all(abs(count * clock.hz - oscillator) < 1 for count, clock in made)
        if _OSCILLATOR[0] <= oscillator <= _OSCILLATOR[1] and exact and max(counts) <= _MOST:
            break
    else:
        counts = ()
    if not counts or not 1 <= feedback <= _MOST_FEEDBACK or feedback * source != first.hz or first.degrees:
        raise ValueError(f"no PLL makes {', '.join(f'{clock.hz / 1e6:g} MHz' for clock in clocks.values())} of "
                         f"{source / 1e6:g} MHz, the first of them in its phase")
    return Dividers(feedback, counts, tuple(round(clock.degrees / 360 * count * _EIGHTHS)
                                            for count, clock in zip(counts, clocks.values(), strict=True)))


class DerivedClocks(Elaboratable):
    """Drives the clocks of domains, which the design around it defines, without resets.

    Parameters
    ----------
    source : float
        Hz of ``clock``.
    clocks : mapping
        Domain -> clock, up to four; see :func:`dividers`.

    Attributes
    ----------
    clock : Signal
        The source.
    """

    def __init__(self, source: float, clocks: Mapping[str, DerivedClock]) -> None:
        self._source, self._clocks = source, clocks
        self._dividers = dividers(source, clocks)
        self.clock = Signal()

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        made = [Signal(name=f"{domain}_clock") for domain in self._clocks]
        settings: dict[str, Any] = {}
        for output, signal, clock, count, phase in zip(
                _OUTPUTS, made, self._clocks.values(), self._dividers.outputs, self._dividers.phases, strict=False):
            settings |= {
                f"a_FREQUENCY_PIN_{output}": f"{clock.hz / 1e6:g}", f"p_{output}_ENABLE": "ENABLED",
                f"p_{output}_DIV": count, f"p_{output}_CPHASE": count - 1 + phase // _EIGHTHS,
                f"p_{output}_FPHASE": phase % _EIGHTHS, f"o_{output}": signal}
        m.submodules.pll = Instance(
            "EHXPLLL", a_FREQUENCY_PIN_CLKI=f"{self._source / 1e6:g}", a_ICP_CURRENT="12", a_LPF_RESISTOR="8",
            a_MFG_ENABLE_FILTEROPAMP="1", a_MFG_GMCREF_SEL="2", p_PLLRST_ENA="DISABLED", p_INTFB_WAKE="DISABLED",
            p_STDBY_ENABLE="DISABLED", p_DPHASE_SOURCE="DISABLED", p_OUTDIVIDER_MUXA="DIVA", p_OUTDIVIDER_MUXB="DIVB",
            p_OUTDIVIDER_MUXC="DIVC", p_OUTDIVIDER_MUXD="DIVD", p_FEEDBK_PATH="CLKOP", p_CLKI_DIV=1,
            p_CLKFB_DIV=self._dividers.feedback, i_CLKI=self.clock, i_CLKFB=made[0],
            **{f"i_{name}": Const(0, 1) for name in ("RST", "STDBY", "PHASESEL0", "PHASESEL1", "PHASEDIR", "PHASESTEP",
                                                     "PHASELOADREG", "PLLWAKESYNC", "ENCLKOP")}, **settings)
        for domain, signal, clock in zip(self._clocks, made, self._clocks.values(), strict=True):
            m.d.comb += ClockSignal(domain).eq(signal)
            platform.add_clock_constraint(signal, clock.hz)
        return m
