"""The core of the serial machine."""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, connect, flipped

from rtl.core import Core
from rtl.execute import IndexedTargets
from rtl.layouts import BeatPort, Event, described_bank
from rtl.params import SmParams
from rtl.structs import common_fields

from .barrier import SerialBarrierUnit
from .convert import SerialConversionUnit
from .crs import SerialStack
from .errors import SerialErrorStatus
from .execute import SerialExecuteUnit
from .fetch import SerialFetch
from .flow import SerialFlowQueue, SerialFlowUnit
from .issue import SerialIssue
from .memory import SerialMemoryUnit
from .trap import SerialTrapUnit

__all__ = ["SerialCore", "connect_serial_banks", "connect_serial_stack"]


def connect_serial_stack(m: Module, flow: SerialFlowUnit, stack: SerialStack) -> None:
    """Connects the flow unit to its call/return stack."""
    connect(m, flow.stack, stack.stack)


def connect_serial_banks(m: Module, distributor: Any, core: "SerialCore") -> None:
    """Connects the work distributor, which sends the grid's constant banks, to the core."""
    connect(m, distributor.bank, core.bank)


class SerialCore(Core):
    """The serial machine without its work distributor and its host: a core of the serial units.

    One instruction is in flight at a time. The units are connected as in :class:`~rtl.core.Core`,
    with four differences:

    - Fetch alone stores the grid's constant banks. For an LDC it outputs the bank that the
      instruction names. Each entry of the memory unit's ``grid.banks`` is driven with that bank.
    - The flow unit and the stack share one port, a SerialStackPort.
    - The trap unit receives each issued instruction.
    - An error of execute, memory, conversion, barrier or trap gets the warp and pc of the
      instruction that was issued last, so that these units need not store them. A flow result and
      a write fault of the stack have the warp in their payload.

    Members
    -------
    bank : In(Event of described_bank)
        A constant bank of the grid, sent before the grid runs. ``grid.banks`` is not used.
    fetch_memory, stack_memory, unit_memory : Out(BeatPort)
        The memory ports of fetch, the call/return stack and the memory unit.

    See Core for all other members.
    """

    memory_port = BeatPort

    def __init__(self, params: SmParams) -> None:
        super().__init__(params)
        self._issued: Any = Signal(data.StructLayout({"warp": params.warp_bits, "pc": 32}))
        """The instruction that was issued last. It is valid from the cycle after its issue on."""

    def make_large_units(self, params: SmParams) -> None:
        self.fetch = SerialFetch(params)
        self.execute = SerialExecuteUnit(params)
        self.targets = IndexedTargets(params)
        self.memory = SerialMemoryUnit(params)
        self.conversion = SerialConversionUnit(params)
        self.double = None

    def make_units(self, params: SmParams) -> None:
        self.issue = SerialIssue(params)
        self.queue = SerialFlowQueue(params)
        self.flow = SerialFlowUnit(params)
        self.stack = SerialStack(params)
        self.barrier = SerialBarrierUnit(params)
        self.trap = SerialTrapUnit(params)
        self.status = SerialErrorStatus(params)

    def more_ports(self) -> dict[str, Any]:
        return {"bank": In(Event(described_bank()))}

    def join_stack(self, m: Module) -> None:
        connect_serial_stack(m, self.flow, self.stack)

    def connect_more(self, m: Module) -> None:
        connect(m, flipped(self.bank), self.fetch.bank)
        for bank in self.memory.grid.banks:
            m.d.comb += bank.eq(self.fetch.named)

        issued = self.issue.instruction
        connect(m, issued, self.trap.issued)
        with m.If(issued.valid):
            m.d.sync += common_fields(self._issued, issued.payload)

    def connect_error(self, m: Module, error: Any, collected: Any) -> None:
        """Replaces the event's warp and pc by those of the instruction that was issued last."""
        m.d.comb += collected.valid.eq(error.valid)
        m.d.comb += collected.payload.error.eq(error.payload.error)
        m.d.comb += common_fields(collected.payload, self._issued)
