"""Every unit converts by itself, as needed to measure one alone or to use it in another design."""

from dataclasses import replace

import pytest
from amaranth.back import rtlil  # pyright: ignore[reportAttributeAccessIssue]

from rtl.fpga.units import UNITS
from rtl.params import PRESETS, SmParams

LEAST = replace(PRESETS["tiny"], warps=1)
"""One warp, whose number has no bits, in eight beats."""
WIDE = replace(PRESETS["full"], warps=16)
"""A warp in one beat, and more warps than issue selects from at once."""
JOINED = {"sm", "front_end", "control_flow", "convert", "execute", "lanes", "memory"}
"""Units that hold others, or that are large where they are wide: the simulated machines of 32 lanes have these. The
whole machine joins four of them."""


def converts(unit: str, params: SmParams) -> bool:
    """Whether a unit becomes a module of RTLIL."""
    return "\nmodule \\top\n" in rtlil.convert(UNITS[unit](params))


@pytest.mark.parametrize("unit", sorted(JOINED - {"sm"}))
def test_joined_units_convert_with_one_warp(unit):
    assert converts(unit, LEAST)


@pytest.mark.parametrize("unit", [unit for unit in UNITS if unit not in JOINED])
def test_units_convert_with_32_lanes(unit):
    assert converts(unit, WIDE)
