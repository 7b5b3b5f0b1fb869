"""The host port: connects the host's bus to four sets of registers."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component
from rtl.isa.registers import BLOCK_BYTES, COUNTER_BLOCK, SM_BLOCK, WORK_BLOCK, counters_of
from rtl.layouts import CounterEvents, GridControl, HostBus, RegisterAccess, TrapCommand, TrapStatus
from rtl.params import SmParams
from rtl.structs import struct_value

from .counters import Counters
from .debugger import DebuggerRegisters
from .work import WorkRegisters

__all__ = ["HostPort"]

_BLOCK_LOWEST_BIT = (BLOCK_BYTES - 1).bit_length()
"""Lowest bit of the block's number in an address."""


class HostPort(Component):
    """All registers of the host. There can be an access in every cycle, without backpressure. A
    write takes effect in the next cycle, except for reference counters, which can be later; the
    value of a read is on the bus in the next cycle.

    Members
    -------
    bus : In(HostBus)
    error_status : In(RegisterAccess)
        Registers of the error status, a component outside of this one.
    valid, state
        See DebuggerRegisters.
    command : Out(TrapCommand)
        Settings and commands of the trap unit.
    invalidate : Out(1)
        For one cycle: the caches of instructions and constants become empty.
    grids : Out(GridControl)
        Settings and start of grids, to the work distributor.
    events : In(CounterEvents)
        Events that the counters count in this cycle.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "bus": In(HostBus()),
            "error_status": In(RegisterAccess()),
            "valid": In(params.warps),
            "state": In(TrapStatus(params)),
            "command": Out(TrapCommand(params)),
            "invalidate": Out(1),
            "grids": Out(GridControl()),
            "events": In(CounterEvents),
        })
        self.debugger = DebuggerRegisters(params)
        self.work: Any = self.make_work()
        self.counters: Any = self.make_counters(len(counters_of(params.counters)))

    def make_work(self) -> WorkRegisters:
        """The work distributor's registers; the serial machine has others."""
        return WorkRegisters()

    def make_counters(self, count: int) -> Any:
        """The first ``count`` of the counters; the serial machine has others."""
        return Counters(count)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.debugger = self.debugger
        m.submodules.work = self.work
        m.submodules.counters = self.counters
        self._select_block(m)
        self._connect_debugger(m)
        self._connect_work(m)
        self._command_traps(m)
        m.d.comb += self.counters.events.eq(self.events)
        return m

    def _select_block(self, m: Module) -> None:
        """Sends ``read`` and ``write`` to the block of the address, and the OR of the selected
        values to a register. The registers of the SM block are in two components: each has the
        value 0 at a place of the other. An address outside of all blocks reads as 0."""
        bus = self.bus
        block = bus.address[_BLOCK_LOWEST_BIT:]
        blocks = (
            (SM_BLOCK, self.error_status),
            (SM_BLOCK, self.debugger.access),
            (WORK_BLOCK, self.work.access),
            (COUNTER_BLOCK, self.counters.access),
        )
        values = []
        for base, access in blocks:
            is_selected = block == base >> _BLOCK_LOWEST_BIT
            m.d.comb += access.place.eq(bus.address[2:])
            m.d.comb += access.data.eq(bus.data)
            m.d.comb += access.read.eq(bus.read & is_selected)
            m.d.comb += access.write.eq(bus.write & is_selected)
            values.append(Mux(is_selected, access.value, 0))
        value = Signal.like(bus.value)
        m.d.sync += value.eq(reduce(or_, values))
        m.d.comb += bus.value.eq(self.answer(value))

    def answer(self, value: Value) -> Value:
        """The value on the bus, in the cycle after the read; ``value`` is the registered value of
        the blocks. A counter's value comes a cycle later than the others. In the serial machine it
        does not, but that of a reference counter does."""
        return value | self.counters.late

    def _connect_debugger(self, m: Module) -> None:
        """Connects the debugger's registers, except for what they command the trap unit."""
        debugger = self.debugger
        m.d.comb += debugger.state.eq(self.state)
        m.d.comb += debugger.valid.eq(self.valid)
        m.d.comb += self.invalidate.eq(debugger.invalidate)

    def _connect_work(self, m: Module) -> None:
        """Connects the work distributor's registers to the work distributor."""
        connect(m, self.work.grids, flipped(self.grids))

    def _command_traps(self, m: Module) -> None:
        """Assigns ``command``, of which the debugger's and the work distributor's registers have a
        part each."""
        debugger = self.debugger
        work = self.work
        m.d.comb += self.command.eq(struct_value(
            TrapCommand(self._params),
            installed=work.installed,
            handler=work.handler,
            stop=debugger.stop,
            step=debugger.step,
            wake=debugger.wake,
            timeout=work.timeout))
