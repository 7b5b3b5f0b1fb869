"""The units that ``python -m sim.fpga --unit NAME`` measures by themselves."""

from collections.abc import Callable

from amaranth.lib import wiring

from rtl.barrier import BarrierUnit
from rtl.convert import conversion_unit
from rtl.crs import call_return_stack
from rtl.double import DoubleUnit
from rtl.error_status import ErrorStatus
from rtl.execute import execute_unit
from rtl.execute.lanes import Lanes
from rtl.fetch import fetch_unit
from rtl.flow import flow_unit
from rtl.host import HostPort
from rtl.issue import issue_unit
from rtl.launch import Distributor
from rtl.layouts import ERROR_SOURCES
from rtl.memory import memory_unit
from rtl.params import SmParams
from rtl.trap import TrapUnit

from .bare import BareSm
from .control_flow import ControlFlow
from .front_end import FrontEnd
from .sdram import SdramController

__all__ = ["UNITS"]

_SDRAM_TAG_BITS = 5
_SDRAM_HZ = 100e6

UNITS: dict[str, Callable[[SmParams], wiring.Component]] = {
    "crs": call_return_stack,
    "flow": flow_unit,
    "control_flow": ControlFlow,
    "fetch": fetch_unit,
    "execute": execute_unit,
    "convert": conversion_unit,
    "double": DoubleUnit,
    "lanes": Lanes,
    "front_end": FrontEnd,
    "issue": issue_unit,
    "barrier": BarrierUnit,
    "memory": memory_unit,
    "launch": Distributor,
    "trap": TrapUnit,
    "sm": BareSm,
    "host": HostPort,
    "sdram": lambda _params: SdramController(_SDRAM_TAG_BITS, _SDRAM_HZ, pad_cycles=2),
    "error_status": lambda params: ErrorStatus(params, len(ERROR_SOURCES)),
}
"""Name -> constructor from a preset's parameters."""
