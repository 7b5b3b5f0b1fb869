"""The units that ``python -m sim.fpga --unit NAME`` measures by themselves."""

from collections.abc import Callable

from amaranth.lib import wiring

from rtl.params import SmParams

__all__ = ["UNITS"]

UNITS: dict[str, Callable[[SmParams], wiring.Component]] = {
}
"""Name -> constructor from a preset's parameters."""
