"""Clocks for SDRAM and video from a PLL: frequencies, phases, and the PLL that generates them."""

import re

import pytest
from amaranth.hdl import ClockDomain, Signal

from rtl.fpga.derived_clocks import DerivedClock, DerivedClocks, Dividers, dividers
from testbench.fpga.platform import on_ulx3s

VIDEO = {"shift": DerivedClock(125e6), "pixel": DerivedClock(25e6)}


@pytest.mark.parametrize(
    ("source", "clocks", "found"),
    [
        (25e6, VIDEO, Dividers(5, (6, 30), (0, 0))),
        (
            50e6,
            {"sync": DerivedClock(50e6), "sdram": DerivedClock(50e6, 45)},
            Dividers(1, (16, 16), (0, 16)),
        ),
        (
            25e6,
            {"sync": DerivedClock(75e6), "sdram": DerivedClock(75e6, 311.4)},
            Dividers(3, (10, 10), (0, 69)),
        ),
    ],
)
def test_dividers_make_the_requested_frequencies(source, clocks, found):
    assert dividers(source, clocks) == found
    first, *_ = clocks.values()
    oscillator = first.hz * found.outputs[0]
    assert source * found.feedback == first.hz and 400e6 <= oscillator <= 800e6
    for clock, count, phase in zip(clocks.values(), found.outputs, found.phases, strict=True):
        assert oscillator / count == clock.hz
        assert abs(phase / 8 / count * 360 - clock.degrees) <= 360 / count / 16 + 1e-9


@pytest.mark.parametrize(
    "clocks",
    [
        {"a": DerivedClock(60e6)},
        {"a": DerivedClock(50e6), "b": DerivedClock(33e6)},
        {"a": DerivedClock(900e6)},
        {"a": DerivedClock(50e6, 90)},
    ],
)
def test_what_a_pll_does_not_make_is_refused(clocks):
    with pytest.raises(
        ValueError, match=r"^no PLL makes .* MHz of 25 MHz, the first of them in its phase$"
    ):
        dividers(25e6, clocks)


def test_a_board_gets_a_pll():
    def describe(m, platform):
        m.submodules.clocks = DerivedClocks(
            25e6, {"one": DerivedClock(50e6), "two": DerivedClock(50e6, 45)}
        )
        for domain in ("one", "two"):
            m.domains += ClockDomain(domain, reset_less=True)
            count = Signal(4, name=f"count_{domain}")
            m.d[domain] += count.eq(count + 1)

    settings = dict(
        re.findall(r"parameter (?:signed )?\\(CLK\w+) (?:\d+'s?)?(\w+)", on_ulx3s(describe))
    )
    wanted = {
        "CLKI_DIV": 1,
        "CLKFB_DIV": 2,
        "CLKOP_DIV": 16,
        "CLKOP_CPHASE": 15,
        "CLKOP_FPHASE": 0,
        "CLKOS_DIV": 16,
        "CLKOS_CPHASE": 17,
        "CLKOS_FPHASE": 0,
    }
    assert {
        name: int(settings[name], 2 if len(settings[name]) == 32 else 10) for name in wanted
    } == wanted
