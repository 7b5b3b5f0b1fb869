"""The registers of the work distributor block: grids, the trap handler, reference counters."""

from typing import Any

from amaranth.hdl import Module, Signal, Value
from amaranth.lib.wiring import Out
from amaranth.utils import exact_log2

from rtl.component import Component
from rtl.isa.control_code import INSTRUCTION_BYTES
from rtl.isa.registers import REFERENCE_COUNTERS, WORK_REGISTERS
from rtl.layouts import (
    TIMEOUT_BITS,
    GridControl,
    LaunchRejection,
    RegisterAccess,
    place_of,
)
from rtl.params import ADDRESS_BITS

__all__ = ["WorkRegisters"]

_PC_ALIGNMENT_BITS = exact_log2(INSTRUCTION_BYTES)
"""Low bits of a pc that are 0, since an instruction is at a multiple of its size."""


class WorkRegisters(Component):
    """Settings, start and status of grids; settings of the trap unit; access to the reference
    counters, which are in the work distributor.

    Start: a write to LAUNCH makes a request in ``grids.start``, with the descriptor's address as it
    is set in that cycle. The request is pending until no grid runs; at most one is pending, and a
    write to LAUNCH in the meantime is ignored.

    STATUS: a write to LAUNCH that makes a request clears DONE. The end of a grid sets DONE and
    REJECTION, also if another grid is pending or runs by then: after two launches, DONE can be that
    of the first grid while BUSY or PENDING is that of the second. If both happen in one cycle, the
    end has priority: DONE is 1.

    Members
    -------
    access : RegisterAccess
    grids : Out(GridControl)
    installed, handler, timeout : Out
        See TrapCommand.
    """

    def __init__(self) -> None:
        super().__init__({
            "access": Out(RegisterAccess()),
            "grids": Out(GridControl()),
            "installed": Out(1),
            "handler": Out(32),
            "timeout": Out(TIMEOUT_BITS),
        })
        self._descriptor = Signal(ADDRESS_BITS, name="descriptor")
        """QMD_ADDRESS: address of the launch descriptor of the next request."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._access_addresses(m)
        self._access_trap_settings(m)
        self._start(m)
        self._access_references(m)
        return m

    def _is_selected(self, name: str) -> Any:
        return self.access.place == place_of(WORK_REGISTERS[name])

    def _access_addresses(self, m: Module) -> None:
        """Addresses of memory, each in two registers: bits from 32 on, and bits 31 to 0."""
        settings = self.grids.settings
        addresses = {
            "PROGRAM_REGION": settings.program,
            "LOCAL_MEMORY": settings.local,
            "QMD_ADDRESS": self._descriptor,
        }
        for name, address in addresses.items():
            self._access(m, f"{name}_A", address[32:])
            self._access(m, f"{name}_B", address[:32])

    def _access_trap_settings(self, m: Module) -> None:
        """Settings of the trap unit. The low bits of the handler's pc are not written: they are
        0."""
        self._access(m, "TRAP_HANDLER", self.handler, _PC_ALIGNMENT_BITS)
        self._access(m, "TRAP_CONTROL", self.installed)
        self._access(m, "SM_TIMEOUT_INTERVAL", self.timeout)

    def _access(self, m: Module, name: str, content: Any, lowest_bit: int = 0) -> None:
        """A register with this content. The host reads all of its bits, and writes those from
        ``lowest_bit`` on."""
        access = self.access
        with m.If(self._is_selected(name)):
            m.d.comb += access.value.eq(content)
            with m.If(access.write):
                m.d.sync += content[lowest_bit:].eq(access.data[lowest_bit:])

    def _start(self, m: Module) -> None:
        """LAUNCH and STATUS. The end of a grid is registered first: BUSY is 1 one cycle longer than
        ``grids.busy``, and becomes 0 in the cycle in which DONE becomes 1."""
        grids = self.grids
        start = grids.start
        access = self.access
        ended = Signal()
        end_rejection = Signal(LaunchRejection)
        done = Signal()
        rejection = Signal(LaunchRejection)
        is_launched = access.write & self._is_selected("LAUNCH") & ~start.valid
        m.d.sync += ended.eq(grids.done)
        m.d.sync += end_rejection.eq(grids.rejection)
        with m.If(start.ready):
            m.d.sync += start.valid.eq(0)
        with m.If(is_launched):
            m.d.sync += start.valid.eq(1)
            m.d.sync += start.payload.eq(self._descriptor)
            m.d.sync += done.eq(0)
        with m.If(ended):
            m.d.sync += done.eq(1)
            m.d.sync += rejection.eq(end_rejection)

        status = {
            "BUSY": grids.busy | ended,
            "DONE": done,
            "PENDING": start.valid,
            "REJECTION": rejection.as_value(),
        }
        with m.If(self._is_selected("STATUS")):
            for name, value in status.items():
                highest, lowest = WORK_REGISTERS["STATUS"].fields[name]
                m.d.comb += access.value[lowest:highest + 1].eq(value)

    def _access_references(self, m: Module) -> None:
        """REFERENCE_COUNT, the upper half of the block: forwards each access to the work
        distributor."""
        access = self.access
        references = self.grids.references
        first = place_of(WORK_REGISTERS["REFERENCE_COUNT"])
        assert not first % REFERENCE_COUNTERS
        m.d.comb += references.number.eq(access.place - first)
        m.d.comb += references.value.eq(access.data)
        with m.If(access.place >= first):
            m.d.comb += references.read.eq(access.read)
            m.d.comb += references.set.eq(access.write)
        self.read_count(m, access.place >= first)

    def read_count(self, m: Module, is_selected: Value) -> None:
        """Drives the value of an access to a reference counter. Requires a ``count`` that is valid
        in the cycle of the access; the serial machine overrides this."""
        with m.If(is_selected):
            m.d.comb += self.access.value.eq(self.grids.references.count)
