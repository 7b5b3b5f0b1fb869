"""The trap unit: which warps enter the trap handler, and when all return."""

from typing import Any, ClassVar

from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component
from rtl.isa.control_code import INSTRUCTION_BYTES
from rtl.isa.kinds import ReturnFromTrapMode
from rtl.layouts import (
    ErrorEvents,
    Event,
    ExecutionUnit,
    FlowOperation,
    InstructionKind,
    TrapCommand,
    TrapEvents,
    TrapMove,
    TrapReport,
    TrapStatus,
    WarpControl,
    WarpStatusPort,
    error_event,
    flow_result,
    issued,
    reported,
    warp_launch,
)
from rtl.params import SmParams
from rtl.structs import common_fields, struct_value

from .decode import DecodedOperation, TrapDecoder
from .forms import MANY_IN_FLIGHT, TrapForm
from .machine import SmTrap
from .operations import TrapOperation
from .states import trap_reason
from .status import StatusScan
from .warps import WarpTraps
from .watchdog import Watchdog

__all__ = ["TrapUnit"]


class TrapUnit(Component):
    """Takes an instruction in every cycle, and answers in the next one. ::

        BPT, IDE, RTT --> decoder --> WarpTraps: a bit a warp --> hold, enter, leave: issue
                                        |  ^    |
        errors of all units ------------+--|----+--> StatusScan --> S2R; withdraw: barriers
             |                   causes |  | release
             |                          v  |
             |                        SmTrap <-- stop trigger
             v
        ReturnPoints --> flow: what the flow unit does for an ENTER or LEAVE, and where the warp
                         comes back to

    Error: an instruction with an error that is reported does nothing, and its warp traps. With an
    error that is not reported the warp continues.

    Only in the serial machine (rtl/serial/trap) there is one port more: ``issued``, In(Event of
    issued), has the one instruction in flight in any cycle before its dispatch.

    Members
    -------
    dispatch : In(Event of dispatched)
        An instruction of kind TRAP, or an ENTER or LEAVE.
    room : Out(1)
        Always 1.
    flow : Out(TrapMove)
        What the flow unit does for the ENTER or LEAVE that is dispatched in this cycle.
    launch : In(Event of warp_launch)
    control : Out(WarpControl)
        Holds warps, and makes issue inject an ENTER or a LEAVE.
    drained : In(warps)
        No instruction of the warp is in flight.
    starting : In(1)
        A CTA is being started.
    result : In(Event of flow_result)
        The flow results of all instructions: after a LEAVE's the warp is outside; an ENTER's may
        report that there was no room for the frame; any may end its warp.
    waiting : In(warps)
        Warps that wait at a barrier.
    withdraw : Out(Event of a warp)
        Requests the barrier unit to withdraw the arrival of this warp.
    withdrawn : In(Event of a warp)
        The barrier unit has withdrawn the arrival of this warp.
    errors : In(ErrorEvents)
        The reported errors of all units.
    report_mask : In(32)
        Bit n: errors of code n are reported. An instruction with another error does nothing.
    command : In(TrapCommand)
        Settings and commands of the host.
    resume : Out(warps)
        See IssueUnit.
    inside : Out(warps)
        Warps that are in the trap.
    status : In(WarpStatusPort)
        What S2R reads.
    state : Out(TrapStatus)
        The state of the trap, for the host's registers.
    events : Out(TrapEvents)
        Events of this cycle, for HWW_GLOBAL_ESR.
    report : Out(Event of TrapReport)
        A BPT.TRAP was executed.
    completion, error : Out(Event of completion), Out(Event of error_event)
    """

    form: ClassVar[TrapForm] = MANY_IN_FLIGHT

    def __init__(self, params: SmParams) -> None:
        self._params = params
        warps = params.warps
        form = self.form
        members = {
            **ExecutionUnit(params).members,
            "launch": In(Event(warp_launch(params))),
            "drained": In(warps),
            "result": In(Event(flow_result(params))),
            "errors": In(ErrorEvents(params)),
            "command": In(TrapCommand(params)),
            "control": Out(WarpControl(params)),
            "inside": Out(warps),
            "resume": Out(warps),
            "starting": In(1),
            "flow": Out(TrapMove),
            "waiting": In(warps),
            "withdraw": Out(Event(params.warp_bits)),
            "withdrawn": In(Event(params.warp_bits)),
            "status": In(WarpStatusPort(params)),
            "state": Out(TrapStatus(params)),
            "events": Out(TrapEvents),
            "report": Out(Event(TrapReport(params))),
        }
        if form.reads_issue:
            members["issued"] = In(Event(issued(params)))
        super().__init__(members)
        self.warps = WarpTraps(params, form)
        self.machine = SmTrap(params)
        self.decoder = TrapDecoder()
        self.returns = form.return_points(params)
        self.scan = StatusScan(params)
        self.watchdog = Watchdog()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.warps = self.warps
        m.submodules.machine = self.machine
        m.submodules.decoder = self.decoder
        m.submodules.returns = self.returns
        m.submodules.scan = self.scan
        m.submodules.watchdog = self.watchdog
        self._execute(m)
        self._connect_warps(m)
        self._connect_machine(m)
        self._connect_returns(m)
        self._connect_scan(m)
        self._move(m)
        self._report(m)
        self._watch(m)
        return m

    def _execute(self, m: Module) -> None:
        """BPT, IDE and RTT; and what is done to their warp, as to one that enters or leaves."""
        instruction = self.dispatch.payload
        decoder = self.decoder
        decoded: Any = Signal(DecodedOperation)
        step = self.warps.dispatched
        m.d.comb += self.room.eq(1)
        m.d.comb += decoder.word.eq(instruction.word)
        with m.If(self.inside.bit_select(instruction.warp, 1)):
            m.d.comb += decoded.eq(decoder.inside)
        with m.Else():
            m.d.comb += decoded.eq(decoder.outside)

        executes = Signal()
        is_refused = Signal()
        m.d.comb += executes.eq(
            self.dispatch.valid & (instruction.kind == InstructionKind.TRAP))
        m.d.comb += is_refused.eq(executes & reported(self.report_mask, decoded.error))
        m.d.comb += step.valid.eq(self.dispatch.valid)
        m.d.comb += step.payload.warp.eq(instruction.warp)
        m.d.comb += step.payload.is_refused.eq(is_refused)
        for operation, of_instruction in (
                (step.payload.outside, decoder.outside.operation),
                (step.payload.inside, decoder.inside.operation)):
            with m.Switch(instruction.kind):
                with m.Case(InstructionKind.ENTER):
                    with m.If(self.command.installed):
                        m.d.comb += operation.eq(TrapOperation.ENTER)
                    with m.Else():
                        m.d.comb += operation.eq(TrapOperation.ENTER_PAUSED)
                with m.Case(InstructionKind.LEAVE):
                    m.d.comb += operation.eq(TrapOperation.LEAVE)
                with m.Default():
                    m.d.comb += operation.eq(of_instruction)

        # The outcome, a cycle later.
        is_trap = decoded.operation.is_trap
        m.d.sync += self.completion.valid.eq(executes)
        m.d.sync += common_fields(self.completion.payload, instruction)
        m.d.sync += self.error.valid.eq(is_refused)
        m.d.sync += self.error.payload.eq(struct_value(
            error_event(self._params),
            warp=instruction.warp,
            pc=instruction.pc,
            error=decoded.error))
        m.d.sync += self.report.valid.eq(
            executes & (is_trap | (decoded.operation == TrapOperation.FAIL)))
        m.d.sync += self.report.payload.eq(struct_value(
            TrapReport(self._params),
            warp=instruction.warp,
            pc=instruction.pc + INSTRUCTION_BYTES,
            reason=decoder.reason))
        m.d.sync += self.events.interrupt.eq(executes & decoder.is_interrupt)
        trapped_now = self.scan.trapped_now
        m.d.comb += trapped_now.valid.eq(executes & is_trap)
        m.d.comb += trapped_now.payload.eq(struct_value(
            trap_reason(self._params), warp=instruction.warp, reason=decoder.reasons))

    def _connect_warps(self, m: Module) -> None:
        """What happens to warps, and what issue has to do."""
        warps = self.warps
        connect(m, warps.view, self.machine.warps, self.returns.warps, self.scan.warps)
        connect(m, flipped(self.result), warps.result)
        connect(m, flipped(self.launch), warps.launch, self.returns.launch)
        m.d.comb += warps.live.eq(self.control.live)
        m.d.comb += warps.taken.eq(self.control.taken)
        m.d.comb += warps.drained.eq(self.drained)
        connect(m, flipped(self.errors), warps.errors, self.returns.errors)
        m.d.comb += warps.command.eq(self.command)
        m.d.sync += warps.clears_status.valid.eq(self.status.clear)
        m.d.sync += warps.clears_status.payload.eq(self.status.warp)
        m.d.comb += self.control.hold.eq(warps.hold)
        m.d.comb += self.control.enter.eq(warps.view.changes.enters & ~self.waiting)
        m.d.comb += self.control.leave.eq(warps.view.state.leaving)
        m.d.comb += self.inside.eq(warps.view.state.inside)
        m.d.comb += self.resume.eq(warps.resume)

    def _connect_machine(self, m: Module) -> None:
        """When the multiprocessor traps."""
        machine = self.machine
        connect(m, self.warps.machine, machine.link)
        m.d.comb += machine.live.eq(self.control.live)
        m.d.comb += machine.starting.eq(self.starting)
        m.d.comb += machine.stop.eq(self.command.stop)

    def _connect_returns(self, m: Module) -> None:
        """What decides where a warp comes back to."""
        returns = self.returns
        connect(m, flipped(self.dispatch), returns.dispatch)
        connect(m, flipped(self.withdrawn), returns.withdrawn)
        m.d.comb += returns.status_warp.eq(self.status.warp)
        if self.form.reads_issue:
            connect(m, flipped(self.issued), returns.issued)

    def _connect_scan(self, m: Module) -> None:
        """What S2R reads, and whose arrival at a barrier is withdrawn."""
        scan = self.scan
        m.d.comb += scan.waiting.eq(self.waiting)
        m.d.comb += scan.stop.eq(self.command.stop)
        m.d.comb += scan.status_warp.eq(self.status.warp)
        m.d.comb += scan.error.eq(self.returns.error)
        connect(m, scan.withdraw, flipped(self.withdraw))
        m.d.comb += self.status.status.eq(scan.status)
        m.d.comb += self.status.all_status.eq(scan.all_status)

    def _move(self, m: Module) -> None:
        """The flow unit's command: for an ENTER the pc of the handler, or, without one, the warp's
        return point; for a LEAVE as its RTT selects."""
        flow = self.flow
        command = self.command
        m.d.comb += flow.pc.eq(self.returns.pc)
        with m.If(command.installed):
            m.d.comb += flow.target.eq(command.handler)
        with m.Else():
            m.d.comb += flow.target.eq(self.returns.pc)
        with m.If(self.dispatch.payload.kind == InstructionKind.ENTER):
            with m.If(command.installed):
                m.d.comb += flow.operation.eq(FlowOperation.ENTER_TRAP)
            with m.Else():
                m.d.comb += flow.operation.eq(FlowOperation.BRANCH)
        with m.Else(), m.Switch(self.returns.mode):
            with m.Case(ReturnFromTrapMode.POPCRS):
                m.d.comb += flow.operation.eq(FlowOperation.RESTORE)
            with m.Case(ReturnFromTrapMode.FALLTHROUGH):
                m.d.comb += flow.operation.eq(FlowOperation.LEAVE_TRAP)
            with m.Case(ReturnFromTrapMode.TERMINATE):
                m.d.comb += flow.operation.eq(FlowOperation.TERMINATE)

    def _report(self, m: Module) -> None:
        """For the host: the state of the trap, and its events."""
        warps = self.warps
        m.d.comb += self.state.eq(struct_value(
            TrapStatus(self._params),
            trapping=warps.machine.trapping,
            locked_down=self.machine.locked_down,
            paused=warps.view.state.paused,
            trapped=warps.view.state.trapped))
        m.d.sync += common_fields(self.events, warps.events)
        m.d.comb += self.events.timeout.eq(self.watchdog.expires)

    def _watch(self, m: Module) -> None:
        """The watchdog runs while warps live, are not locked down, and issue no instruction. What
        it is for is the deadlock of RTT and BAR.SYNCALL."""
        watchdog = self.watchdog
        m.d.comb += watchdog.interval.eq(self.command.timeout)
        m.d.sync += watchdog.is_idle.eq(
            self.control.live.any() & ~self.machine.locked_down & ~self.control.taken.any())
