"""The host port, joined."""

from functools import reduce
from operator import or_

from amaranth.hdl import Module
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component
from rtl.isa.registers import BLOCK_BYTES, COUNTER_BLOCK, REFERENCE_COUNTERS, SM_BLOCK, WORK_BLOCK
from rtl.layouts import (
    REFERENCE_BITS,
    CounterEvents,
    HostBus,
    LaunchRejection,
    LaunchSettings,
    RegisterAccess,
    TrapCommand,
    TrapStatus,
)
from rtl.params import ADDRESS_BITS, SmParams

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
    settings, start, busy, done, rejection, reference_number, reference_count, reference_set, reference_value
        The other side of what the Distributor has.
    events : In(CounterEvents)
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "bus": In(HostBus()), "error_status": In(RegisterAccess()), "valid": In(params.warps),
            "state": In(TrapStatus(params)), "command": Out(TrapCommand(params)), "invalidate": Out(1),
            "settings": Out(LaunchSettings), "start": Out(stream.Signature(ADDRESS_BITS)), "busy": In(1), "done": In(1),
            "rejection": In(LaunchRejection), "reference_number": Out(range(REFERENCE_COUNTERS)),
            "reference_count": In(REFERENCE_BITS), "reference_set": Out(1), "reference_value": Out(REFERENCE_BITS),
            "events": In(CounterEvents)})
        self.debugger = DebuggerRegisters(params)
        self.work = WorkRegisters()
        self.counters = Counters()

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
        m.d.sync += bus.value.eq(reduce(or_, values))

        work, debugger, command = self.work, self.debugger, self.command
        connect(m, flipped(self.start), work.start)
        m.d.comb += [
            debugger.valid.eq(self.valid), debugger.state.eq(self.state), command.stop.eq(debugger.stop),
            self.invalidate.eq(debugger.invalidate), command.step.eq(debugger.step), command.wake.eq(debugger.wake),
            command.installed.eq(work.installed), command.handler.eq(work.handler), command.timeout.eq(work.timeout),
            self.settings.eq(work.settings), work.busy.eq(self.busy), work.done.eq(self.done),
            work.rejection.eq(self.rejection), self.reference_number.eq(work.reference_number),
            work.reference_count.eq(self.reference_count), self.reference_set.eq(work.reference_set),
            self.reference_value.eq(work.reference_value), self.counters.events.eq(self.events)]
        return m
