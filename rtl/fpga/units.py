"""The units that ``python -m sim.fpga --unit NAME`` measures by themselves."""

from collections.abc import Callable

from amaranth.lib import wiring

from rtl.double import DoubleUnit
from rtl.machines import units_of
from rtl.params import SmParams

from .bare import BareSm
from .control_flow import ControlFlow
from .front_end import FrontEnd
from .sdram import SdramController

__all__ = ["UNITS"]

_SDRAM_TAG_BITS = 5
_SDRAM_HZ = 100e6

UNITS: dict[str, Callable[[SmParams], wiring.Component]] = {
    "crs": lambda params: units_of(params).stack(params),
    "flow": lambda params: units_of(params).flow(params),
    "control_flow": ControlFlow,
    "fetch": lambda params: units_of(params).fetch(params),
    "execute": lambda params: units_of(params).execute(params),
    "convert": lambda params: units_of(params).conversion(params),
    "double": DoubleUnit,
    "lanes": lambda params: units_of(params).lanes(params),
    "front_end": FrontEnd,
    "issue": lambda params: units_of(params).issue(params),
    "barrier": lambda params: units_of(params).barrier(params),
    "memory": lambda params: units_of(params).memory(params),
    "launch": lambda params: units_of(params).distributor(params),
    "trap": lambda params: units_of(params).trap(params),
    "sm": BareSm,
    "host": lambda params: units_of(params).host(params),
    "sdram": lambda _params: SdramController(_SDRAM_TAG_BITS, _SDRAM_HZ, pad_cycles=2),
    "error_status": lambda params: units_of(params).error_status(params),
}
"""Name of a unit -> function that makes it from the machine's parameters."""
