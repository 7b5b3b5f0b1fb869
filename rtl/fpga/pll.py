"""The PLL of an ECP5: its dividers for a frequency, its instance, and a generator of clocks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from amaranth.hdl import ClockSignal, Const, Elaboratable, Instance, Module, ResetSignal, Signal
from amaranth.lib.cdc import AsyncFFSynchronizer

from .global_net import GlobalNet

__all__ = ["OSCILLATOR", "ClockGenerator", "PllOutput", "PllSettings", "find_pll", "pll"]

OSCILLATOR = (400e6, 800e6)
"""Hz of a PLL's oscillator (Lattice, ECP5 family data sheet, sysCLOCK PLL timing)."""
_INPUT = (8e6, 400e6)
"""Hz at the input."""
_OUTPUT = (3.125e6, 400e6)
"""Hz at an output."""
_PHASE = (10e6, 400e6)
"""Hz at the phase detector (same source as the others)."""
_DIVIDERS = range(1, 129)
"""Dividers of the input and of an output."""
_TOLERANCE = 1e-9
_OUTPUTS = ("CLKOP", "CLKOS", "CLKOS2", "CLKOS3")
_EIGHTHS = 8
_UNUSED_INPUTS = (
    "RST",
    "STDBY",
    "PHASESEL0",
    "PHASESEL1",
    "PHASEDIR",
    "PHASESTEP",
    "PHASELOADREG",
    "PLLWAKESYNC",
    "ENCLKOP",
)
"""Inputs for dynamic phase shifts, standby and reset, all 0."""


@dataclass(frozen=True)
class PllOutput:
    """An output of a PLL.

    Attributes
    ----------
    signal : Any
        The signal that it drives.
    frequency : float
        In Hz.
    divider : int
        Of the oscillator's frequency.
    phase : int
        By how much it lags, in eighths of the oscillator's period.
    """

    signal: Any
    frequency: float
    divider: int
    phase: int = 0

    def parameters(self, name: str) -> dict[str, Any]:
        """Attributes, parameters and port of an EHXPLLL for this output; ``name`` is one of
        _OUTPUTS."""
        return {
            f"a_FREQUENCY_PIN_{name}": f"{self.frequency / 1e6:g}",
            f"p_{name}_ENABLE": "ENABLED",
            f"p_{name}_DIV": self.divider,
            f"p_{name}_CPHASE": self.divider - 1 + self.phase // _EIGHTHS,
            f"p_{name}_FPHASE": self.phase % _EIGHTHS,
            f"o_{name}": self.signal,
        }


def pll(source: float, clock: Any, input_divider: int, feedback_divider: int,
        outputs: Sequence[PllOutput], **ports: Any) -> Instance:
    """An EHXPLLL whose input is ``clock``, of ``source`` Hz, with up to four outputs. The first one
    is the feedback of the phase detector. ``ports`` are further ports of the instance."""
    settings: dict[str, Any] = {
        "a_FREQUENCY_PIN_CLKI": f"{source / 1e6:g}",
        "a_ICP_CURRENT": "12",
        "a_LPF_RESISTOR": "8",
        "a_MFG_ENABLE_FILTEROPAMP": "1",
        "a_MFG_GMCREF_SEL": "2",
        "p_PLLRST_ENA": "DISABLED",
        "p_INTFB_WAKE": "DISABLED",
        "p_STDBY_ENABLE": "DISABLED",
        "p_DPHASE_SOURCE": "DISABLED",
        "p_FEEDBK_PATH": "CLKOP",
        "p_CLKI_DIV": input_divider,
        "p_CLKFB_DIV": feedback_divider,
        "i_CLKI": clock,
        "i_CLKFB": outputs[0].signal,
    }
    for letter in "ABCD":
        settings[f"p_OUTDIVIDER_MUX{letter}"] = f"DIV{letter}"
    for name in _UNUSED_INPUTS:
        settings[f"i_{name}"] = Const(0, 1)
    for name, output in zip(_OUTPUTS, outputs, strict=False):
        settings |= output.parameters(name)
    return Instance("EHXPLLL", **settings, **ports)


@dataclass(frozen=True)
class PllSettings:
    """The dividers of a PLL with one clock.

    Attributes
    ----------
    input_divider, return_divider, clock_divider : int
        Dividers of the input; of the oscillator for the feedback; of the oscillator for the clock.
    frequency, oscillator : float
        Hz of the clock and of the oscillator.
    """

    input_divider: int
    return_divider: int
    clock_divider: int
    frequency: float
    oscillator: float


def _within(value: float, limits: tuple[float, float]) -> bool:
    return limits[0] * (1 - _TOLERANCE) <= value <= limits[1] * (1 + _TOLERANCE)


def find_pll(source: float, wanted: float) -> PllSettings:
    """The dividers that make the frequency nearest to ``wanted`` from ``source``, both in Hz.
    ValueError if there are none.

    Of several that are equally near, those with the highest frequency at the phase detector are
    preferred, then those whose oscillator is nearest to the middle of its range. The feedback uses
    a separate output, so that the oscillator can have any multiple of the frequency at the phase
    detector.
    """
    conversion = f"{wanted / 1e6:g} MHz of {source / 1e6:g} MHz"
    if not _within(source, _INPUT) or not _within(wanted, _OUTPUT):
        raise ValueError(
            f"no PLL of an ECP5 makes {conversion}: it takes "
            f"{_INPUT[0] / 1e6:g} to {_INPUT[1] / 1e6:g} MHz and makes {_OUTPUT[0] / 1e6:g} to "
            f"{_OUTPUT[1] / 1e6:g} MHz")
    middle = sum(OSCILLATOR) / 2

    def rank(settings: PllSettings) -> tuple[float, int, float]:
        """The settings with the lowest rank are the best."""
        distance = abs(settings.frequency - wanted)
        return distance, settings.input_divider, abs(settings.oscillator - middle)

    best = min(_possible_settings(source, wanted), key=rank, default=None)
    if best is None:
        raise ValueError(f"no PLL of an ECP5 makes {conversion}")
    return best


def _possible_settings(source: float, wanted: float) -> Iterator[PllSettings]:
    """All settings within the limits of a PLL whose clock is close to ``wanted``."""
    for input_divider in _DIVIDERS:
        compared = source / input_divider
        if not _within(compared, _PHASE):
            continue
        for return_divider in _DIVIDERS:
            oscillator = compared * return_divider
            if not _within(oscillator, OSCILLATOR):
                continue
            nearest = min(round(oscillator / wanted), _DIVIDERS[-1])
            for clock_divider in (nearest, nearest + 1):
                if clock_divider not in _DIVIDERS:
                    continue
                frequency = oscillator / clock_divider
                if _within(frequency, _OUTPUT):
                    yield PllSettings(
                        input_divider, return_divider, clock_divider, frequency, oscillator)


class ClockGenerator(Elaboratable):
    """Drives the clock and the reset of ``sync`` from a PLL.

    The reset is 1 while the PLL is not locked or ``reset`` is 1; it is asserted asynchronously and
    released synchronously. Further domains, without resets, have the same clock with a phase. The
    parent module defines all these domains. nextpnr derives the frequencies from the dividers of
    the PLL and the constraint of the board's oscillator.

    Parameters
    ----------
    settings : PllSettings
    source : float
        Hz of ``clock``.
    later : mapping
        Domain -> degrees by which its clock lags that of ``sync``; up to two domains.

    Attributes
    ----------
    clock, reset : Signal
        The board's oscillator and its asynchronous reset.
    """

    def __init__(self, settings: PllSettings, source: float,
                 later: Mapping[str, float] = MappingProxyType({})) -> None:
        self.settings = settings
        self._source = source
        self._later = later
        self.clock = Signal(name="oscillator")
        self.reset = Signal()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        settings = self.settings
        divider = settings.clock_divider
        feedback = Signal(name="pll_return")
        clock = Signal(name="pll_clock")
        locked = Signal()
        outputs = [
            PllOutput(feedback, settings.oscillator / settings.return_divider,
                      settings.return_divider),
            PllOutput(clock, settings.frequency, divider),
        ]
        for domain, degrees in self._later.items():
            signal = Signal(name=f"{domain}_clock")
            phase = round(degrees / 360 * divider * _EIGHTHS)
            outputs.append(PllOutput(signal, settings.frequency, divider, phase))
            m.d.comb += ClockSignal(domain).eq(signal)
        m.submodules.pll = pll(
            self._source, self.clock, settings.input_divider, 1, outputs, o_LOCK=locked)
        m.d.comb += ClockSignal().eq(clock)
        m.submodules.reset = net = GlobalNet()
        m.submodules.synchronizer = AsyncFFSynchronizer(~locked | self.reset, net.i)
        m.d.comb += ResetSignal().eq(net.o)
        return m
