"""The host port, joined."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Module, Signal, Value
from amaranth.lib.wiring import In, Out

from rtl.component import Component, pass_on
from rtl.isa.registers import BLOCK_BYTES, COUNTER_BLOCK, SM_BLOCK, WORK_BLOCK, counters_of
from rtl.layouts import CounterEvents, GridControl, HostBus, RegisterAccess, TrapCommand, TrapStatus
from rtl.params import SmParams

from .counters import Counters
from .debugger import DebuggerRegisters
from .work import WorkRegisters

__all__ = ["HostPort"]

_BLOCK_AT = (BLOCK_BYTES - 1).bit_length()


class HostPort(Component):
    """All registers of the host.

    Members
    -------
    bus : In(HostBus)
    error_status : In(RegisterAccess)
        The error status, which is elsewhere.
    valid, state
        See DebuggerRegisters.
    command : Out(TrapCommand)
        For the trap unit.
    invalidate : Out(1)
        For the caches of instructions and constants.
    grids : Out(GridControl)
        For the work distributor.
    events : In(CounterEvents)
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "bus": In(HostBus()), "error_status": In(RegisterAccess()), "valid": In(params.warps),
            "state": In(TrapStatus(params)), "command": Out(TrapCommand(params)), "invalidate": Out(1),
            "grids": Out(GridControl()), "events": In(CounterEvents)})
        self.debugger = DebuggerRegisters(params)
        self.work: Any = self.make_work(params)
        self.counters: Any = self.make_counters(len(counters_of(params.counters)))

    def make_work(self, params: SmParams) -> WorkRegisters:
        """The work distributor's registers."""
        return WorkRegisters()

    def make_counters(self, count: int) -> Component:
        """The counters, of which there are ``count``."""
        return Counters(count)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.debugger, m.submodules.work, m.submodules.counters = self.debugger, self.work, self.counters
        bus, values = self.bus, []
        for base, access in ((SM_BLOCK, self.error_status), (SM_BLOCK, self.debugger.access),
                             (WORK_BLOCK, self.work.access), (COUNTER_BLOCK, self.counters.access)):
            here = bus.address[_BLOCK_AT:] == base >> _BLOCK_AT
            m.d.comb += [
                access.place.eq(bus.address[2:]), access.data.eq(bus.data), access.read.eq(bus.read & here),
                access.write.eq(bus.write & here)]
            values.append(access.value & here.replicate(len(access.value)))
        value = Signal.like(bus.value)
        m.d.sync += value.eq(reduce(or_, values))
        m.d.comb += bus.value.eq(self.answer(value))

        self.join(m, self.work, "grids")
        self.join(m, self.debugger, "valid", "state", "invalidate")
        self.join(m, self.counters, "events")
        pass_on(m, self.debugger, self.command, "stop", "step", "wake")
        pass_on(m, self.work, self.command, "installed", "handler", "timeout")
        return m

    def answer(self, value: Value) -> Value:
        """What the bus reads, from the value of the register, which is a cycle old."""
        return value
