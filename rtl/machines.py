"""The two machines, and the units that each is made of.

The *pipelined* machine has two lanes or more; it is the machine of the manual. The *serial* machine
has one lane and one instruction under way (:mod:`rtl.serial`). Units of the same name have the same
ports, except where their docstrings name a difference. This is the only place that decides which
one is built.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Module

from rtl.barrier import BarrierUnit
from rtl.beats import BeatArbiter
from rtl.convert import ConversionUnit
from rtl.core import Core, connect_stack
from rtl.crs import CallReturnStack
from rtl.error_status import ErrorStatus, all_errors
from rtl.execute import ExecuteUnit
from rtl.execute.lanes import Lanes
from rtl.fetch import FetchUnit
from rtl.flow import FlowQueue, FlowUnit
from rtl.host import HostPort
from rtl.issue import IssueUnit
from rtl.launch import Distributor
from rtl.layouts import BeatPort, MemoryPort
from rtl.memory import MemoryUnit
from rtl.memory_arbiter import MemoryArbiter
from rtl.params import SmParams
from rtl.serial.barrier import SerialBarrierUnit
from rtl.serial.convert import SerialConversionUnit
from rtl.serial.core import SerialCore, connect_serial_banks, connect_serial_stack
from rtl.serial.crs import SerialStack
from rtl.serial.errors import SerialErrorStatus, simultaneous_errors
from rtl.serial.execute import SerialExecuteUnit
from rtl.serial.fetch import SerialFetch
from rtl.serial.flow import SerialFlowQueue, SerialFlowUnit
from rtl.serial.host import SerialHostPort
from rtl.serial.issue import SerialIssue
from rtl.serial.lane import SerialLanes
from rtl.serial.launch import SerialDistributor
from rtl.serial.memory import SerialMemoryUnit
from rtl.serial.trap import SerialTrapUnit
from rtl.trap import TrapUnit

__all__ = ["PIPELINED", "SERIAL", "Units", "units_of"]

_Unit = Callable[[SmParams], Any]
_Joint = Callable[[Module, Any, Any], None]


def _connect_nothing(m: Module, sender: Any, receiver: Any) -> None:
    """There is nothing to connect."""


@dataclass(frozen=True)
class Units:
    """The classes of a machine's units, and how those are joined that have other ports.

    A class is called with the machine's parameters; the memory arbiter's with the widths of its
    clients' tags; the memory port's with the width of a tag. ``simultaneous_errors``: the
    ErrorEvents that can arrive in one cycle. ``connect_stack`` joins the flow unit and the stack,
    ``connect_banks`` the work distributor and the core, where constant banks are not in
    GridConfiguration.
    """

    core: _Unit
    fetch: _Unit
    issue: _Unit
    execute: _Unit
    lanes: _Unit
    memory: _Unit
    conversion: _Unit
    flow: _Unit
    stack: _Unit
    barrier: _Unit
    flow_queue: _Unit
    trap: _Unit
    distributor: _Unit
    host: _Unit
    error_status: _Unit
    memory_arbiter: type[MemoryArbiter] | type[BeatArbiter]
    memory_port: type[MemoryPort] | type[BeatPort]
    simultaneous_errors: Callable[[Module, Any], list[Any]]
    connect_stack: _Joint
    connect_banks: _Joint


PIPELINED = Units(
    core=Core,
    fetch=FetchUnit,
    issue=IssueUnit,
    execute=ExecuteUnit,
    lanes=Lanes,
    memory=MemoryUnit,
    conversion=ConversionUnit,
    flow=FlowUnit,
    stack=CallReturnStack,
    barrier=BarrierUnit,
    flow_queue=FlowQueue,
    trap=TrapUnit,
    distributor=Distributor,
    host=HostPort,
    error_status=ErrorStatus,
    memory_arbiter=MemoryArbiter,
    memory_port=MemoryPort,
    simultaneous_errors=all_errors,
    connect_stack=connect_stack,
    connect_banks=_connect_nothing,
)
SERIAL = Units(
    core=SerialCore,
    fetch=SerialFetch,
    issue=SerialIssue,
    execute=SerialExecuteUnit,
    lanes=SerialLanes,
    memory=SerialMemoryUnit,
    conversion=SerialConversionUnit,
    flow=SerialFlowUnit,
    stack=SerialStack,
    barrier=SerialBarrierUnit,
    flow_queue=SerialFlowQueue,
    trap=SerialTrapUnit,
    distributor=SerialDistributor,
    host=SerialHostPort,
    error_status=SerialErrorStatus,
    memory_arbiter=BeatArbiter,
    memory_port=BeatPort,
    simultaneous_errors=simultaneous_errors,
    connect_stack=connect_serial_stack,
    connect_banks=connect_serial_banks,
)


def units_of(params: SmParams) -> Units:
    """The units of the machine with these parameters."""
    return SERIAL if params.serial else PIPELINED
