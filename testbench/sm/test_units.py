"""Every unit converts to RTLIL by itself, to be measured alone or used in another design."""

from dataclasses import replace

import pytest
from amaranth.back import rtlil  # pyright: ignore[reportAttributeAccessIssue]

from rtl.fpga.units import UNITS
from rtl.params import PRESETS, SmParams

LEAST = replace(PRESETS["tiny"], warps=1)
"""One warp, whose number has no bits, in eight beats."""
WIDE = replace(PRESETS["full"], warps=16)
"""A warp in one beat, and more warps than issue selects from in one cycle."""
JOINED = {"sm", "front_end", "control_flow", "convert", "execute", "lanes", "memory"}
"""Units that contain others, or that are too large here with 32 lanes; the simulated machines of 32
lanes have them.
"""


def converts(unit: str, params: SmParams) -> bool:
    """Whether a unit converts to a module of RTLIL."""
    return "\nmodule \\top\n" in rtlil.convert(UNITS[unit](params))


@pytest.mark.parametrize("unit", sorted(JOINED - {"sm"}))
def test_joined_units_convert_with_one_warp(unit):
    assert converts(unit, LEAST)


@pytest.mark.parametrize("unit", [unit for unit in UNITS if unit not in JOINED])
def test_units_convert_with_32_lanes(unit):
    assert converts(unit, WIDE)
