"""The host port, joined."""

from functools import reduce
from operator import or_

from amaranth.hdl import Module
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component
from rtl.isa.registers import BLOCK_BYTES, COUNTER_BLOCK, REFERENCE_COUNTERS, SM_BLOCK, WORK_BLOCK
from rtl.launch.references import REFERENCE_BITS
from rtl.layouts import CounterEvents, HostBus, LaunchRejection, LaunchSettings, error_event
from rtl.params import ADDRESS_BITS, SmParams
from rtl.trap import TrapCommand, TrapEvents, TrapReport, TrapStatus

from .counters import Counters
from .debugger import DebuggerRegisters
from .errors import ErrorStatus
from .work import WorkRegisters

__all__ = ["HostPort"]

_BLOCK_AT = (BLOCK_BYTES - 1).bit_length()


class HostPort(Component):
    """All registers of the host.

    Parameters
    ----------
    params : SmParams
    sources : int
        How many sources of errors there are.

    Members
    -------
    bus : In(HostBus)
    interrupt : Out(1)
    errors, report, trap_events
        See ErrorStatus.
    valid, state
        See DebuggerRegisters.
    report_mask : Out(32)
        For all units.
    command : Out(TrapCommand)
        For the trap unit.
    invalidate : Out(1)
        For the caches of instructions and constants.
    settings, start, busy, done, rejection, reference_number, reference_count, reference_set, reference_value
        The other side of what the Distributor has.
    events : In(CounterEvents)
    """

    def __init__(self, params: SmParams, sources: int) -> None:
        super().__init__({
            "bus": In(HostBus()), "interrupt": Out(1), "errors": In(data.ArrayLayout(error_event(params), sources)),
            "report": In(TrapReport(params)), "trap_events": In(TrapEvents), "valid": In(params.warps),
            "state": In(TrapStatus(params)), "report_mask": Out(32), "command": Out(TrapCommand(params)),
            "invalidate": Out(1),
            "settings": Out(LaunchSettings), "start": Out(stream.Signature(ADDRESS_BITS)), "busy": In(1), "done": In(1),
            "rejection": In(LaunchRejection), "reference_number": Out(range(REFERENCE_COUNTERS)),
            "reference_count": In(REFERENCE_BITS), "reference_set": Out(1), "reference_value": Out(REFERENCE_BITS),
            "events": In(CounterEvents)})
        self.status = ErrorStatus(params, sources)
        self.debugger = DebuggerRegisters(params)
        self.work = WorkRegisters()
        self.counters = Counters()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.status, m.submodules.debugger = self.status, self.debugger
        m.submodules.work, m.submodules.counters = self.work, self.counters
        bus, values = self.bus, []
        for base, block in ((SM_BLOCK, self.status), (SM_BLOCK, self.debugger), (WORK_BLOCK, self.work),
                            (COUNTER_BLOCK, self.counters)):
            access, here = block.access, bus.address[_BLOCK_AT:] == base >> _BLOCK_AT
            m.d.comb += [
                access.place.eq(bus.address[2:]), access.data.eq(bus.data), access.read.eq(bus.read & here),
                access.write.eq(bus.write & here)]
            values.append(access.value & here.replicate(len(access.value)))
        m.d.sync += bus.value.eq(reduce(or_, values))

        status, work, debugger, command = self.status, self.work, self.debugger, self.command
        connect(m, flipped(self.start), work.start)
        m.d.comb += [
            status.errors.eq(self.errors), status.report.eq(self.report), status.events.eq(self.trap_events),
            self.report_mask.eq(status.report_mask), self.interrupt.eq(status.interrupt),
            debugger.valid.eq(self.valid), debugger.state.eq(self.state), command.stop.eq(debugger.stop),
            self.invalidate.eq(debugger.invalidate), command.step.eq(debugger.step), command.wake.eq(debugger.wake),
            command.installed.eq(work.installed), command.handler.eq(work.handler), command.timeout.eq(work.timeout),
            self.settings.eq(work.settings), work.busy.eq(self.busy), work.done.eq(self.done),
            work.rejection.eq(self.rejection), self.reference_number.eq(work.reference_number),
            work.reference_count.eq(self.reference_count), self.reference_set.eq(work.reference_set),
            self.reference_value.eq(work.reference_value), self.counters.events.eq(self.events)]
        return m
