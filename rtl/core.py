"""Everything that executes instructions: fetch, issue, and the units."""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.barrier import BarrierUnit
from rtl.component import Component
from rtl.control_flow import ControlFlow
from rtl.convert import ConversionUnit
from rtl.execute import ExecuteUnit
from rtl.fetch import TAG_BITS as FETCH_TAG_BITS
from rtl.fetch import FetchUnit
from rtl.flow import FlowQueue, IndexedTargets
from rtl.isa.errors import WarpError
from rtl.issue import IssueEvents, IssueUnit, Policy, WaitReason
from rtl.layouts import (
    FlowOperation,
    GridConfiguration,
    InstructionKind,
    LaneClient,
    MemoryPort,
    StackEvents,
    flow_launch,
    lane_operation,
    shared_clear,
    thread_index,
    warp_exit,
    warp_launch,
)
from rtl.memory import MEMORY_UNIT_TAG_BITS, MemoryUnit
from rtl.memory.instruction import MemoryEvents
from rtl.params import SmParams
from rtl.retire import COMPLETION_SOURCES, ERROR_SOURCES, RetirementPort
from rtl.trap import TrapCommand, TrapEvents, TrapReport, TrapStatus, TrapUnit

__all__ = ["Core"]

_KINDS = {
    "flow": (InstructionKind.PUSH, InstructionKind.FLOW, InstructionKind.FLOW_INDEXED, InstructionKind.FLOW_READ,
             InstructionKind.ENTER, InstructionKind.LEAVE),
    "memory": (InstructionKind.MEMORY,), "conversion": (InstructionKind.CONVERSION,),
    "trap": (InstructionKind.TRAP, InstructionKind.ENTER, InstructionKind.LEAVE),
    "barrier": (InstructionKind.BARRIER, InstructionKind.BARRIER_INDEXED, InstructionKind.BARRIER_READ)}
"""Which instructions each unit is given."""


def _event(payload: Any) -> data.StructLayout:
    return data.StructLayout({"valid": 1, "payload": payload})


class Core(Component):
    """A streaming multiprocessor without its work distributor and its host.

    Members
    -------
    grid : In(GridConfiguration)
        What runs; does not change while a warp lives.
    launch, thread, clear, clear_registers, flow_launch : In
        What starts a warp: it is announced, the places of its threads are told, shared memory and registers become
        zeros, and then its threads begin.
    invalidate, fetch_busy : In(1), Out(1)
        The caches of instructions and constants become empty; see FetchUnit.
    report_mask, command, policy : In
        Errors that are reported; what the host wants of warps; which one goes first.
    starting : In(1)
        A CTA is being started.
    fetch_memory, stack_memory, unit_memory : Out(MemoryPort)
    exit : Out(warp_exit)
    drained : Out(1 bit a warp)
        Nothing of the warp is in flight.
    trapping : Out(1)
        No CTA may start.
    trap_state, trap_events, trap_report : Out
        See TrapUnit.
    stack_events, memory_events, issue_events, diverged : Out
        For counters.
    waiting, reasons : Out
        Warps that wait at a barrier; why each warp does not issue.
    retired : Out(RetirementPort)
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "grid": In(GridConfiguration), "launch": In(_event(warp_launch(params))),
            "thread": In(_event(thread_index(params))), "clear": In(stream.Signature(shared_clear(params))),
            "clear_registers": In(stream.Signature(lane_operation(params))),
            "flow_launch": In(stream.Signature(flow_launch(params))), "invalidate": In(1), "fetch_busy": Out(1),
            "report_mask": In(32), "command": In(TrapCommand(params)), "policy": In(Policy), "starting": In(1),
            "fetch_memory": Out(MemoryPort(FETCH_TAG_BITS)), "stack_memory": Out(MemoryPort(params.warp_bits)),
            "unit_memory": Out(MemoryPort(MEMORY_UNIT_TAG_BITS)), "exit": Out(warp_exit(params)),
            "drained": Out(params.warps), "trapping": Out(1), "trap_state": Out(TrapStatus(params)),
            "trap_events": Out(TrapEvents), "trap_report": Out(TrapReport(params)), "stack_events": Out(StackEvents),
            "memory_events": Out(MemoryEvents), "issue_events": Out(IssueEvents), "diverged": Out(1),
            "waiting": Out(params.warps), "reasons": Out(data.ArrayLayout(WaitReason, params.warps)),
            "retired": Out(RetirementPort(params))})
        self.fetch = FetchUnit(params)
        self.issue = IssueUnit(params, completions=len(COMPLETION_SOURCES) - 1, reads=2)
        self.execute = ExecuteUnit(params)
        self.queue = FlowQueue(params)
        self.targets = IndexedTargets(params)
        self.control_flow = ControlFlow(params)
        self.memory = MemoryUnit(params)
        self.conversion = ConversionUnit(params)
        self.barrier = BarrierUnit(params)
        self.trap = TrapUnit(params)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for name in ("fetch", "issue", "execute", "targets", "queue", "control_flow", "memory", "conversion", "barrier",
                     "trap"):
            m.submodules[name] = getattr(self, name)
        self._issue(m)
        self._dispatch(m)
        self._flow(m)
        self._trap(m)
        self._registers(m)
        self._launch(m)
        self._retire(m)
        return m

    def _issue(self, m: Module) -> None:
        """Fetch, issue, and the lanes."""
        fetch, issue, execute = self.fetch, self.issue, self.execute
        connect(m, fetch.memory, flipped(self.fetch_memory))
        m.d.comb += [
            fetch.grid.eq(self.grid), fetch.redirect.eq(issue.redirect), fetch.room.eq(issue.room),
            fetch.invalidate.eq(self.invalidate), self.fetch_busy.eq(fetch.busy),
            issue.group.eq(fetch.group), issue.claimed.eq(fetch.claimed),
            issue.policy.eq(self.policy),
            execute.instruction.eq(issue.instruction), execute.operation.eq(issue.operation),
            execute.grid.eq(self.grid), execute.report_mask.eq(self.report_mask)]

    def _dispatch(self, m: Module) -> None:
        """What the lanes do not execute, to its unit."""
        rooms = self.issue.rooms
        dispatch = self.targets.passed
        m.d.comb += [
            self.targets.dispatch.eq(self.execute.dispatch), self.targets.report_mask.eq(self.report_mask),
            self.issue.collecting.eq(self.execute.collecting | self.targets.busy)]
        connect(m, self.targets.indexed, self.fetch.indexed)
        connect(m, self.fetch.value, self.targets.value)
        for name, unit in (("flow", self.queue), ("memory", self.memory), ("conversion", self.conversion),
                           ("barrier", self.barrier), ("trap", self.trap)):
            m.d.comb += [
                unit.dispatch.valid.eq(dispatch.valid & dispatch.payload.kind.as_value().matches(*_KINDS[name])),
                unit.dispatch.payload.eq(dispatch.payload), rooms[name].eq(unit.room)]
        for unit in (self.memory, self.conversion, self.barrier, self.trap, self.control_flow):
            m.d.comb += unit.report_mask.eq(self.report_mask)
        m.d.comb += [
            self.issue.resume.eq(self.barrier.resume | self.trap.resume), self.memory.grid.eq(self.grid),
            self.barrier.barriers.eq(self.grid.barriers)]

    def _flow(self, m: Module) -> None:
        """Branches and stacks; what comes back says how a warp goes on."""
        flow, asked = self.control_flow, self.queue.request
        connect(m, asked, flow.request)
        connect(m, flipped(self.flow_launch), flow.launch)
        connect(m, flow.port, flipped(self.stack_memory))
        moves = asked.valid & asked.ready & (asked.payload.instruction.operation == FlowOperation.SET_BASE)
        result = flow.result
        m.d.comb += [
            self.memory.local_base.valid.eq(moves), self.memory.local_base.warp.eq(asked.payload.warp),
            self.memory.local_base.base.eq(asked.payload.operand),
            self.issue.result.valid.eq(flow.result_valid), self.issue.result.payload.eq(result),
            self.execute.flow_result_valid.eq(flow.result_valid), self.execute.flow_result.eq(result),
            self.barrier.terminated.eq(flow.result_valid & result.terminated),
            self.barrier.terminated_warp.eq(result.warp),
            self.exit.valid.eq(flow.result_valid), self.exit.warp.eq(result.warp),
            self.exit.terminated.eq(result.terminated), self.exit.kept.eq(result.kept)]

    def _trap(self, m: Module) -> None:
        """Who traps, and what that means for the others."""
        trap, issue, execute, barrier, result = self.trap, self.issue, self.execute, self.barrier, self.control_flow
        m.d.comb += [
            trap.command.eq(self.command), trap.starting.eq(self.starting), trap.live.eq(issue.live),
            trap.taken.eq(issue.taken), trap.drained.eq(issue.drained), trap.result_valid.eq(result.result_valid),
            trap.result_warp.eq(result.result.warp), trap.result_error.eq(result.result.error),
            trap.errors.eq(self.retired.errors),
            self.queue.trap.eq(trap.flow), issue.hold.eq(trap.hold), issue.enter.eq(trap.enter),
            issue.leave.eq(trap.leave), trap.waiting.eq(barrier.waiting), barrier.withdraw.eq(trap.withdraw),
            trap.withdrawn.eq(barrier.withdrawn), barrier.inside.eq(trap.inside),
            trap.status_warp.eq(execute.status_warp), execute.warp_status.eq(trap.status),
            execute.all_status.eq(trap.all_status), trap.forget.eq(execute.forget),
            trap.forget_warp.eq(execute.forget_warp), self.trapping.eq(trap.state.trapping),
            self.trap_state.eq(trap.state), self.trap_events.eq(trap.events), self.trap_report.eq(trap.report)]

    def _registers(self, m: Module) -> None:
        """The units' way to registers: operations by way of issue, data by the lanes."""
        execute, issue = self.execute, self.issue
        for client, unit, lanes in ((LaneClient.MEMORY, self.memory, execute.memory),
                                    (LaneClient.CONVERSION, self.conversion, execute.conversion),
                                    (LaneClient.BARRIER, self.barrier, execute.barrier)):
            connect(m, unit.port.operation, issue.operations[client.value])
            m.d.comb += [
                unit.port.gathered.eq(lanes.gathered), unit.port.wanted.eq(lanes.wanted),
                lanes.values.eq(unit.port.values), lanes.flags.eq(unit.port.flags),
                lanes.conditions.eq(unit.port.conditions)]
        connect(m, execute.operation_flow, issue.operations[LaneClient.FLOW.value])
        connect(m, flipped(self.clear_registers), issue.operations[LaneClient.LAUNCH.value])
        connect(m, self.memory.memory, flipped(self.unit_memory))
        m.d.comb += [issue.reads[0].eq(execute.operands_read), issue.reads[1].eq(self.barrier.operands_read)]

    def _launch(self, m: Module) -> None:
        """New warps."""
        for unit in (self.execute, self.memory, self.barrier, self.trap):
            m.d.comb += unit.launch.eq(self.launch)
        cleared = self.memory.clear
        m.d.comb += [
            cleared.valid.eq(self.clear.valid), self.clear.ready.eq(cleared.ready),
            cleared.payload.shared_base.eq(self.clear.payload.base), cleared.payload.bytes.eq(self.clear.payload.bytes),
            self.execute.thread.eq(self.thread), self.drained.eq(self.issue.drained),
            self.issue.launched.valid.eq(self.flow_launch.valid & self.flow_launch.ready),
            self.issue.launched.warp.eq(self.flow_launch.payload.warp)]

    def _retire(self, m: Module) -> None:
        """What happens, for those who look on."""
        retired, flow = self.retired, self.control_flow
        completions: dict[str, Any] = {
            "issue": self.issue.completion, "lanes": self.execute.completion, "memory": self.memory.completion,
            "conversion": self.conversion.completion, "barrier": self.barrier.completion, "trap": self.trap.completion}
        for index, source in enumerate(COMPLETION_SOURCES):
            m.d.comb += retired.completed[index].eq(completions[source])
            if index:
                m.d.comb += self.issue.completions[index - 1].eq(completions[source])
        errors: dict[str, Any] = {
            "lanes": self.execute.error, "memory": self.memory.error, "conversion": self.conversion.error,
            "barrier": self.barrier.error, "trap": self.trap.error}
        for index, source in enumerate(ERROR_SOURCES):
            error = retired.errors[index]
            if source == "stack":
                m.d.comb += [
                    error.valid.eq(flow.write_fault & self.report_mask.bit_select(WarpError.MMU_FAULT.value, 1)),
                    error.warp.eq(flow.write_fault_warp), error.error.eq(WarpError.MMU_FAULT)]
            elif source == "flow":
                m.d.comb += [
                    error.valid.eq(flow.result_valid & (flow.result.error != WarpError.NONE)),
                    error.warp.eq(flow.result.warp), error.pc.eq(flow.result.pc), error.error.eq(flow.result.error)]
            else:
                m.d.comb += error.eq(errors[source])
        m.d.comb += [
            retired.launched.eq(self.launch), retired.withdrawn.eq(self.barrier.withdrawn),
            retired.issued.eq(self.issue.instruction), retired.written.eq(self.execute.written),
            retired.flow.valid.eq(flow.result_valid),
            retired.flow.payload.eq(flow.result), self.stack_events.eq(flow.events), self.diverged.eq(flow.diverged),
            self.memory_events.eq(self.memory.events), self.issue_events.eq(self.issue.events),
            self.waiting.eq(self.barrier.waiting | self.barrier.meeting), self.reasons.eq(self.issue.reasons)]
