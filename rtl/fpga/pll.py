"""The ECP5's PLL: which dividers make a clock of another, and the PLL with them."""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import ClockSignal, Const, Elaboratable, Instance, Module, Signal
from amaranth.lib.cdc import ResetSynchronizer

__all__ = ["ClockGenerator", "PllSettings", "find_pll"]

_INPUT, _OUTPUT, _PHASE, _OSCILLATOR = (8e6, 400e6), (3.125e6, 400e6), (10e6, 400e6), (400e6, 800e6)
"""Hz: at the input, at the output, where phases are compared, and of the oscillator (Lattice, ECP5 family data sheet,
sysCLOCK PLL timing)."""
_INPUT_DIVIDERS, _FEEDBACK_DIVIDERS, _OUTPUT_DIVIDERS = range(1, 129), range(1, 81), range(1, 129)
_TOLERANCE = 1e-9


@dataclass(frozen=True)
class PllSettings:
    """Dividers of the input, of the output in the way back, and of the oscillator; ``frequency`` is the output's and
    ``oscillator`` the oscillator's, in Hz.
    """

    input_divider: int
    feedback_divider: int
    output_divider: int
    frequency: float
    oscillator: float


def _within(value: float, limits: tuple[float, float]) -> bool:
    return limits[0] * (1 - _TOLERANCE) <= value <= limits[1] * (1 + _TOLERANCE)


def find_pll(source: float, wanted: float) -> PllSettings:
    """The dividers that come nearest to a frequency, all in Hz; of equal ones those that compare phases most often,
    then those whose oscillator is nearest to the middle of its range. ValueError when there are none.
    """
    if not _within(source, _INPUT) or not _within(wanted, _OUTPUT):
        raise ValueError(f"no PLL of an ECP5 makes {wanted / 1e6:g} MHz of {source / 1e6:g} MHz: it takes "
                         f"{_INPUT[0] / 1e6:g} to {_INPUT[1] / 1e6:g} MHz and makes {_OUTPUT[0] / 1e6:g} to "
                         f"{_OUTPUT[1] / 1e6:g} MHz")
    found: list[tuple[float, int, float, PllSettings]] = []
    for divider in _INPUT_DIVIDERS:
        if not _within(source / divider, _PHASE):
            continue
        nearest = round(wanted * divider / source)
        for feedback in {min(max(nearest + step, 1), _FEEDBACK_DIVIDERS[-1]) for step in (-1, 0, 1)}:
            frequency = source / divider * feedback
            for output in _OUTPUT_DIVIDERS:
                oscillator = frequency * output
                if _within(frequency, _OUTPUT) and _within(oscillator, _OSCILLATOR):
                    settings = PllSettings(divider, feedback, output, frequency, oscillator)
                    found.append((abs(frequency - wanted), divider, abs(oscillator - sum(_OSCILLATOR) / 2), settings))
    if not found:
        raise ValueError(f"no PLL of an ECP5 makes {wanted / 1e6:g} MHz of {source / 1e6:g} MHz")
    return min(found, key=lambda each: each[:3])[3]


class ClockGenerator(Elaboratable):
    """Drives the domain ``sync``: its clock by a PLL, its reset until the PLL is locked and as long as ``reset`` is 1.

    Parameters
    ----------
    settings : PllSettings
    source : float
        Hz of ``clock``.

    Attributes
    ----------
    clock, reset : Signal
        The board's; the latter asynchronous.
    """

    def __init__(self, settings: PllSettings, source: float) -> None:
        self.settings, self._source = settings, source
        self.clock, self.reset = Signal(), Signal()

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        settings, made, locked = self.settings, Signal(name="pll_clock"), Signal()
        m.submodules.pll = Instance(
            "EHXPLLL",
            a_FREQUENCY_PIN_CLKI=f"{self._source / 1e6:g}", a_FREQUENCY_PIN_CLKOP=f"{settings.frequency / 1e6:g}",
            a_ICP_CURRENT="12", a_LPF_RESISTOR="8", a_MFG_ENABLE_FILTEROPAMP="1", a_MFG_GMCREF_SEL="2",
            p_PLLRST_ENA="DISABLED", p_INTFB_WAKE="DISABLED", p_STDBY_ENABLE="DISABLED", p_DPHASE_SOURCE="DISABLED",
            p_OUTDIVIDER_MUXA="DIVA", p_CLKI_DIV=settings.input_divider, p_CLKFB_DIV=settings.feedback_divider,
            p_CLKOP_ENABLE="ENABLED", p_CLKOP_DIV=settings.output_divider, p_CLKOP_CPHASE=settings.output_divider // 2,
            p_CLKOP_FPHASE=0, p_FEEDBK_PATH="CLKOP",
            i_CLKI=self.clock, i_CLKFB=made, i_RST=Const(0), i_STDBY=Const(0),
            i_PHASESEL0=Const(0), i_PHASESEL1=Const(0), i_PHASEDIR=Const(0), i_PHASESTEP=Const(0),
            i_PHASELOADREG=Const(0), i_PLLWAKESYNC=Const(0), i_ENCLKOP=Const(0), o_CLKOP=made, o_LOCK=locked)
        m.d.comb += ClockSignal().eq(made)
        m.submodules.synchronizer = ResetSynchronizer(~locked | self.reset)
        platform.add_clock_constraint(made, settings.frequency)
        return m
