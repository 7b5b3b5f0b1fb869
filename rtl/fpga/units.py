"""The units that ``python -m sim.fpga --unit NAME`` measures by themselves."""

from collections.abc import Callable

from amaranth.lib import wiring

from rtl.control_flow import ControlFlow
from rtl.convert import ConversionUnit
from rtl.crs import CallReturnStack
from rtl.flow import FlowUnit
from rtl.params import SmParams

__all__ = ["UNITS"]

UNITS: dict[str, Callable[[SmParams], wiring.Component]] = {
    "crs": CallReturnStack,
    "flow": FlowUnit,
    "control_flow": ControlFlow,
    "convert": ConversionUnit,
}
"""Name -> constructor from a preset's parameters."""
