"""Several clocks from one PLL of an ECP5, with exact frequencies and with phases. Boards use it for
the clocks of video; the clocks of the machine and of the SDRAM chip are made by
:class:`~rtl.fpga.pll.ClockGenerator`."""

from collections.abc import Mapping
from dataclasses import dataclass

from amaranth.hdl import ClockSignal, Elaboratable, Module, Signal

from .pll import OSCILLATOR, PllOutput, pll

__all__ = ["DerivedClock", "DerivedClocks", "Dividers", "dividers"]

_MOST = 128
"""The largest divider of an output."""
_MOST_FEEDBACK = 80
"""The largest divider of the feedback."""
_EIGHTHS = 8
"""Phases are eighths of the oscillator's period."""


@dataclass(frozen=True)
class DerivedClock:
    """A clock: its frequency in Hz, and the degrees of its period by which it lags the source."""

    hz: float
    degrees: float = 0


@dataclass(frozen=True)
class Dividers:
    """The settings of a PLL.

    Attributes
    ----------
    feedback : int
        Divider of the first output before the phase detector.
    outputs : tuple of int
        Divider of the oscillator for each output.
    phases : tuple of int
        Lag of each output, in eighths of the oscillator's period.
    """

    feedback: int
    outputs: tuple[int, ...]
    phases: tuple[int, ...]


def dividers(source: float, clocks: Mapping[str, DerivedClock]) -> Dividers:
    """The dividers that make ``clocks`` from a source in Hz, with the fastest possible oscillator.
    ValueError if there are none.

    The first clock is the feedback: its frequency must be a multiple of the source's, and its phase
    0.
    """
    first, *_ = clocks.values()
    feedback = round(first.hz / source)
    is_multiple = 1 <= feedback <= _MOST_FEEDBACK and feedback * source == first.hz
    outputs = _output_dividers(clocks)
    if not outputs or not is_multiple or first.degrees:
        names = ", ".join(f"{clock.hz / 1e6:g} MHz" for clock in clocks.values())
        raise ValueError(
            f"no PLL makes {names} of {source / 1e6:g} MHz, the first of them in its phase")
    phases = tuple(
        round(clock.degrees / 360 * divider * _EIGHTHS)
        for divider, clock in zip(outputs, clocks.values(), strict=True))
    return Dividers(feedback, outputs, phases)


def _output_dividers(clocks: Mapping[str, DerivedClock]) -> tuple[int, ...]:
    """The divider of each output with the fastest oscillator of which all clocks are exact
    divisions; empty if there is no such oscillator."""
    first, *_ = clocks.values()
    slowest, fastest = OSCILLATOR
    for divider in range(_MOST, 0, -1):
        oscillator = first.hz * divider
        outputs = tuple(round(oscillator / clock.hz) for clock in clocks.values())
        is_exact = all(
            abs(output * clock.hz - oscillator) < 1
            for output, clock in zip(outputs, clocks.values(), strict=True))
        if slowest <= oscillator <= fastest and is_exact and max(outputs) <= _MOST:
            return outputs
    return ()


class DerivedClocks(Elaboratable):
    """Drives the clocks of domains, which the parent module defines, without resets.

    Parameters
    ----------
    source : float
        Hz of ``clock``.
    clocks : mapping
        Domain -> its clock, up to four; see :func:`dividers`.

    Attributes
    ----------
    clock : Signal
        The source.
    """

    def __init__(self, source: float, clocks: Mapping[str, DerivedClock]) -> None:
        self._source = source
        self._clocks = clocks
        self._dividers = dividers(source, clocks)
        self.clock = Signal(name="oscillator")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        outputs = []
        for number, (domain, clock) in enumerate(self._clocks.items()):
            signal = Signal(name=f"{domain}_clock")
            m.d.comb += ClockSignal(domain).eq(signal)
            outputs.append(PllOutput(
                signal, clock.hz, self._dividers.outputs[number], self._dividers.phases[number]))
        m.submodules.pll = pll(self._source, self.clock, 1, self._dividers.feedback, outputs)
        return m
