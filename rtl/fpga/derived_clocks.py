"""Clocks made of another one by an ECP5's PLL, with phases: those of video, and that of the SDRAM chip."""

from collections.abc import Mapping
from dataclasses import dataclass

from amaranth.hdl import ClockSignal, Elaboratable, Module, Signal

from .pll import OSCILLATOR, PllOutput, pll

__all__ = ["DerivedClock", "DerivedClocks", "Dividers", "dividers"]

_MOST = 128
"""Of the output's dividers."""
_MOST_FEEDBACK = 80
_EIGHTHS = 8
"""Phases are eighths of the oscillator's period."""


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
        if OSCILLATOR[0] <= oscillator <= OSCILLATOR[1] and exact and max(counts) <= _MOST:
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
        self.clock = Signal(name="oscillator")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        made = [Signal(name=f"{domain}_clock") for domain in self._clocks]
        m.submodules.pll = pll(self._source, self.clock, 1, self._dividers.feedback, [
            PllOutput(signal, clock.hz, divider, phase) for signal, clock, divider, phase in zip(
                made, self._clocks.values(), self._dividers.outputs, self._dividers.phases, strict=True)])
        m.d.comb += [ClockSignal(domain).eq(signal) for domain, signal in zip(self._clocks, made, strict=True)]
        return m
