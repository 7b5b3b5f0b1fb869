"""The ECP5's PLL: which dividers make a clock of another, and the PLL with them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from amaranth.hdl import ClockSignal, Const, Elaboratable, Instance, Module, ResetSignal, Signal
from amaranth.lib.cdc import AsyncFFSynchronizer

from .global_net import GlobalNet

__all__ = ["OSCILLATOR", "ClockGenerator", "PllOutput", "PllSettings", "find_pll", "pll"]

OSCILLATOR = (400e6, 800e6)
"""Hz of a PLL's oscillator (Lattice, ECP5 family data sheet, sysCLOCK PLL timing)."""
_INPUT, _OUTPUT, _PHASE = (8e6, 400e6), (3.125e6, 400e6), (10e6, 400e6)
"""Hz: at the input, at the output, where phases are compared (from there, too)."""
_INPUT_DIVIDERS, _OUTPUT_DIVIDERS = range(1, 129), range(1, 129)
_TOLERANCE = 1e-9
_OUTPUTS = ("CLKOP", "CLKOS", "CLKOS2", "CLKOS3")
_EIGHTHS = 8


@dataclass(frozen=True)
class PllOutput:
    """An output: the signal that it drives, its frequency in Hz, its divider, and its phase in eighths of the
    oscillator's period.
    """

    signal: Any
    frequency: float
    divider: int
    phase: int = 0


def pll(source: float, clock: Any, input_divider: int, feedback_divider: int, outputs: Sequence[PllOutput],
        **ports: Any) -> Instance:
    """A PLL behind a clock of so many Hz, with up to four outputs; the first of them goes back to where phases are
    compared.
    """
    settings: dict[str, Any] = {}
    for name, output in zip(_OUTPUTS, outputs, strict=False):
        settings |= {
            f"a_FREQUENCY_PIN_{name}": f"{output.frequency / 1e6:g}", f"p_{name}_ENABLE": "ENABLED",
            f"p_{name}_DIV": output.divider, f"p_{name}_CPHASE": output.divider - 1 + output.phase // _EIGHTHS,
            f"p_{name}_FPHASE": output.phase % _EIGHTHS, f"o_{name}": output.signal}
    return Instance(
        "EHXPLLL", a_FREQUENCY_PIN_CLKI=f"{source / 1e6:g}", a_ICP_CURRENT="12", a_LPF_RESISTOR="8",
        a_MFG_ENABLE_FILTEROPAMP="1", a_MFG_GMCREF_SEL="2", p_PLLRST_ENA="DISABLED", p_INTFB_WAKE="DISABLED",
        p_STDBY_ENABLE="DISABLED", p_DPHASE_SOURCE="DISABLED", p_FEEDBK_PATH="CLKOP", p_CLKI_DIV=input_divider,
        p_CLKFB_DIV=feedback_divider, **{f"p_OUTDIVIDER_MUX{letter}": f"DIV{letter}" for letter in "ABCD"},
        i_CLKI=clock, i_CLKFB=outputs[0].signal,
        **{f"i_{name}": Const(0, 1) for name in ("RST", "STDBY", "PHASESEL0", "PHASESEL1", "PHASEDIR", "PHASESTEP",
                                                 "PHASELOADREG", "PLLWAKESYNC", "ENCLKOP")}, **settings, **ports)


@dataclass(frozen=True)
class PllSettings:
    """Dividers of the input, of the oscillator on its way back to where phases are compared, and of the oscillator for
    the clock; ``frequency`` is the clock's and ``oscillator`` the oscillator's, in Hz.
    """

    input_divider: int
    return_divider: int
    clock_divider: int
    frequency: float
    oscillator: float


def _within(value: float, limits: tuple[float, float]) -> bool:
    return limits[0] * (1 - _TOLERANCE) <= value <= limits[1] * (1 + _TOLERANCE)


def find_pll(source: float, wanted: float) -> PllSettings:
    """The dividers that come nearest to a frequency, all in Hz; of equal ones those that compare phases most often,
    then those whose oscillator is nearest to the middle of its range. ValueError when there are none.

    The way back has an output of its own, so that the oscillator can be any multiple of the rate of comparison.
    """
    if not _within(source, _INPUT) or not _within(wanted, _OUTPUT):
        raise ValueError(f"no PLL of an ECP5 makes {wanted / 1e6:g} MHz of {source / 1e6:g} MHz: it takes "
                         f"{_INPUT[0] / 1e6:g} to {_INPUT[1] / 1e6:g} MHz and makes {_OUTPUT[0] / 1e6:g} to "
                         f"{_OUTPUT[1] / 1e6:g} MHz")
    found: list[tuple[float, int, float, PllSettings]] = []
    for divider in _INPUT_DIVIDERS:
        compared = source / divider
        if not _within(compared, _PHASE):
            continue
        for back in _OUTPUT_DIVIDERS:
            oscillator = compared * back
            nearest = round(oscillator / wanted)
            for output in {nearest, nearest + 1} & {*_OUTPUT_DIVIDERS}:
                frequency = oscillator / output
                if _within(frequency, _OUTPUT) and _within(oscillator, OSCILLATOR):
                    settings = PllSettings(divider, back, output, frequency, oscillator)
                    found.append((abs(frequency - wanted), divider, abs(oscillator - sum(OSCILLATOR) / 2), settings))
    if not found:
        raise ValueError(f"no PLL of an ECP5 makes {wanted / 1e6:g} MHz of {source / 1e6:g} MHz")
    return min(found, key=lambda each: each[:3])[3]


class ClockGenerator(Elaboratable):
    """Drives the domain ``sync``: its clock by a PLL, its reset until the PLL is locked and as long as ``reset`` is 1.
    Other domains, without resets, get the same clock later. The design around it defines them all. Placement and
    routing know the clocks from the PLL's dividers and the constraint of the board's oscillator.

    Parameters
    ----------
    settings : PllSettings
    source : float
        Hz of ``clock``.
    later : mapping
        Domain -> by how many degrees its clock follows that of ``sync``; up to two.

    Attributes
    ----------
    clock, reset : Signal
        The board's; the latter asynchronous.
    """

    def __init__(self, settings: PllSettings, source: float, later: Mapping[str, float] = MappingProxyType({})) -> None:
        self.settings, self._source, self._later = settings, source, later
        self.clock, self.reset = Signal(name="oscillator"), Signal()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        settings, made, back, locked = self.settings, Signal(name="pll_clock"), Signal(name="pll_return"), Signal()
        divider = settings.clock_divider
        outputs = [PllOutput(back, settings.oscillator / settings.return_divider, settings.return_divider),
                   PllOutput(made, settings.frequency, divider)]
        for domain, degrees in self._later.items():
            signal = Signal(name=f"{domain}_clock")
            outputs.append(PllOutput(signal, settings.frequency, divider, round(degrees / 360 * divider * _EIGHTHS)))
            m.d.comb += ClockSignal(domain).eq(signal)
        m.submodules.pll = pll(self._source, self.clock, settings.input_divider, 1, outputs, o_LOCK=locked)
        m.d.comb += ClockSignal().eq(made)
        m.submodules.reset = net = GlobalNet()
        m.submodules.synchronizer = AsyncFFSynchronizer(~locked | self.reset, net.i)
        m.d.comb += ResetSignal().eq(net.o)
        return m
